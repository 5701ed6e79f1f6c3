//! `components`: state of each Argo CD Application, Flux Kustomization and Flux HelmRelease, as the tools report it.
//! A cluster without these kinds costs one request each.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::facts::{
    bounded::{BoundedEntries, short},
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/applications";
const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";
const HELM_RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/helmreleases";

#[derive(Default)]
pub(super) struct Components(BoundedEntries);

/// Relevant fields of all three kinds.
#[derive(Deserialize)]
struct Component {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    suspend: bool,
    /// Of an Application.
    source: Option<ApplicationSource>,
    /// Of a HelmRelease.
    chart: Option<ChartTemplate>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ApplicationSource {
    chart: Option<String>,
    target_revision: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ChartTemplate {
    spec: ChartSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ChartSpec {
    chart: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    sync: ApplicationSync,
    health: ApplicationHealth,
    conditions: Vec<Condition>,
    last_applied_revision: Option<String>,
    last_attempted_revision: Option<String>,
    /// Releases of a HelmRelease, newest first.
    history: Vec<HistoryEntry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ApplicationSync {
    status: Option<String>,
    revision: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ApplicationHealth {
    status: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HistoryEntry {
    chart_name: Option<String>,
    chart_version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

/// State of a component, in the words of Argo CD.
struct Shown {
    kind: &'static str,
    chart: Option<String>,
    version: Option<String>,
    /// Revision that the tool wants and has not applied.
    wanted: Option<String>,
    sync: String,
    health: String,
    message: Option<String>,
}

impl Collector for Components {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![
            CollectorSource::list(APPLICATIONS, "list applications.argoproj.io"),
            CollectorSource::list(
                KUSTOMIZATIONS,
                "list kustomizations.kustomize.toolkit.fluxcd.io",
            ),
            CollectorSource::list(HELM_RELEASES, "list helmreleases.helm.toolkit.fluxcd.io"),
        ]
    }

    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let component: Component = serde_json::from_slice(object)?;
        let Metadata { name, namespace } = &component.metadata;
        let place = format!("{namespace}/{name}");
        let shown = match source {
            0 => application(component),
            1 => kustomization(component),
            _ => helm_release(component),
        };
        let key = format!("{}/{place}", shown.kind);
        self.0.put(&key, shown.value());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        self.0.into_fact("components").into_iter().collect()
    }
}

impl Shown {
    fn value(self) -> Value {
        let mut value = Map::new();
        for (name, text) in [
            ("chart", self.chart),
            ("version", self.version),
            ("wanted", self.wanted),
            ("sync", Some(self.sync)),
            ("health", Some(self.health)),
            ("message", self.message),
        ] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                value.insert(name.to_owned(), short(&text).into());
            }
        }
        value.into()
    }
}

fn application(component: Component) -> Shown {
    let source = component.spec.source.unwrap_or_default();
    let status = component.status;
    let version = match &source.chart {
        // The revision of a chart is its version; that of a commit has no order.
        Some(_) => source.target_revision.or(status.sync.revision),
        None => status.sync.revision,
    };
    let conditions = status.conditions.into_iter();
    let mut messages = conditions
        .filter(|it| it.kind.ends_with("Error"))
        .map(|it| it.message);
    Shown {
        kind: "Application",
        chart: source.chart,
        version,
        wanted: None,
        sync: status.sync.status.unwrap_or_else(unknown),
        health: status.health.status.unwrap_or_else(unknown),
        message: messages.next_back(),
    }
}

fn kustomization(component: Component) -> Shown {
    let Component { spec, status, .. } = component;
    flux(
        "Kustomization",
        &spec,
        None,
        status.last_applied_revision.clone(),
        status,
    )
}

fn helm_release(component: Component) -> Shown {
    let Component { spec, status, .. } = component;
    let newest = status.history.first();
    let chart = newest.and_then(|it| it.chart_name.clone());
    let chart = chart.or_else(|| spec.chart.as_ref()?.spec.chart.clone());
    let version = newest.and_then(|it| it.chart_version.clone());
    flux("HelmRelease", &spec, chart, version, status)
}

/// Flux has one condition for sync and health: a failed health check is a reason of it.
fn flux(
    kind: &'static str,
    spec: &Spec,
    chart: Option<String>,
    version: Option<String>,
    status: Status,
) -> Shown {
    let ready = status.conditions.into_iter().find(|it| it.kind == "Ready");
    let ready = ready.unwrap_or_default();
    let wanted = status.last_attempted_revision;
    let wanted = wanted.filter(|wanted| version.as_ref() != Some(wanted));
    let (sync, health) = match ready.status.as_str() {
        _ if spec.suspend => ("Suspended", "Suspended"),
        "True" if wanted.is_none() => ("Synced", "Healthy"),
        "True" => ("OutOfSync", "Healthy"),
        "False" if ready.reason == "HealthCheckFailed" => ("Synced", "Degraded"),
        "False" => ("OutOfSync", "Degraded"),
        _ => ("Unknown", "Progressing"),
    };
    let is_failed = ready.status == "False";
    Shown {
        kind,
        chart,
        version,
        wanted,
        sync: sync.to_owned(),
        health: health.to_owned(),
        message: is_failed.then_some(ready.message),
    }
}

fn unknown() -> String {
    "Unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    fn components(objects: &[(usize, Value)]) -> Value {
        facts_of(Box::new(Components::default()), objects)["components"].clone()
    }

    fn flux_object(status: &Value) -> Value {
        json!({ "metadata": { "name": "web", "namespace": "shop" }, "status": status })
    }

    #[test]
    fn each_kind_has_version_sync_and_health() {
        let application = json!({
            "metadata": { "name": "ingress", "namespace": "argocd" },
            "spec": { "source": { "chart": "ingress-nginx", "targetRevision": "4.10.1" } },
            "status": {
                "sync": { "status": "OutOfSync", "revision": "4.10.1" },
                "health": { "status": "Degraded" },
                "conditions": [{ "type": "SyncError", "message": "no such kind" }],
            },
        });
        let applied = json!({
            "lastAppliedRevision": "main@sha1:a", "lastAttemptedRevision": "main@sha1:a",
            "conditions": [{ "type": "Ready", "status": "True" }],
        });
        let release = json!({
            "metadata": { "name": "db", "namespace": "shop" },
            "spec": { "chart": { "spec": { "chart": "postgresql" } } },
            "status": {
                "history": [{ "chartName": "postgresql", "chartVersion": "15.5.2" }, { "chartVersion": "15.0.0" }],
                "lastAttemptedRevision": "15.6.0",
                "conditions": [{ "type": "Ready", "status": "False", "reason": "UpgradeFailed", "message": "timed out" }],
            },
        });
        let found = components(&[(0, application), (1, flux_object(&applied)), (2, release)]);
        let expected = json!({
            "Application/argocd/ingress": {
                "chart": "ingress-nginx", "version": "4.10.1", "sync": "OutOfSync", "health": "Degraded",
                "message": "no such kind",
            },
            "Kustomization/shop/web": { "version": "main@sha1:a", "sync": "Synced", "health": "Healthy" },
            "HelmRelease/shop/db": {
                "chart": "postgresql", "version": "15.5.2", "wanted": "15.6.0", "sync": "OutOfSync",
                "health": "Degraded", "message": "timed out",
            },
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn failed_health_check_is_a_synced_revision() {
        let status = json!({
            "lastAppliedRevision": "a", "lastAttemptedRevision": "a",
            "conditions": [{ "type": "Ready", "status": "False", "reason": "HealthCheckFailed", "message": "x" }],
        });
        let found = components(&[(1, flux_object(&status))]);
        let shown = &found["Kustomization/shop/web"];
        assert_eq!(
            (&shown["sync"], &shown["health"]),
            (&json!("Synced"), &json!("Degraded"))
        );
    }

    #[test]
    fn object_without_a_status_is_unknown_and_none_is_no_fact() {
        let found = components(&[(1, flux_object(&json!({})))]);
        let expected = json!({ "sync": "Unknown", "health": "Progressing" });
        assert_eq!(found["Kustomization/shop/web"], expected);
        let mut suspended = flux_object(&json!({}));
        suspended["spec"] = json!({ "suspend": true });
        let found = components(&[(2, suspended)]);
        assert_eq!(found["HelmRelease/shop/web"]["sync"], "Suspended");
        assert_eq!(components(&[]), Value::Null);
    }
}
