//! Services in the cluster, found by the labels of charts and operators. `services` uses
//! `app.kubernetes.io/name` and `version`; `charts` uses `helm.sh/chart`; `helmReleases` uses the labels of
//! Helm's Secrets. Only metadata is requested: no Secret's content is ever read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::Object;
use crate::facts::{
    bounded::{BoundedEntries, BoundedPlaces, short},
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

/// Selectors of workloads with a name, and of those with a chart label only. Two lists, since selectors have no
/// "or".
const NAME_SELECTOR: &str = "app.kubernetes.io/name";
const CHART_SELECTOR: &str = "helm.sh/chart,!app.kubernetes.io/name";
const RELEASE_SELECTOR: &str = "owner=helm,status!=superseded";

#[derive(Default)]
pub(super) struct ServiceVersions {
    /// Places by version, by name.
    services: BTreeMap<String, BoundedPlaces>,
    charts: BoundedPlaces,
    left_out: usize,
}

/// Maximum number of different services in the fact.
const MAX_SERVICES: usize = 500;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Labels {
    #[serde(rename = "app.kubernetes.io/name")]
    name: Option<String>,
    #[serde(rename = "app.kubernetes.io/version")]
    version: Option<String>,
    #[serde(rename = "helm.sh/chart")]
    chart: Option<String>,
}

impl Collector for ServiceVersions {
    fn sources(&self) -> Vec<CollectorSource> {
        let workloads = [
            ("/apis/apps/v1/deployments", "list deployments.apps"),
            ("/apis/apps/v1/statefulsets", "list statefulsets.apps"),
            ("/apis/apps/v1/daemonsets", "list daemonsets.apps"),
        ];
        let both = workloads.into_iter().flat_map(|(path, right)| {
            [NAME_SELECTOR, CHART_SELECTOR]
                .map(|selector| CollectorSource::metadata(path, selector, right))
        });
        both.collect()
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let Object { metadata } = serde_json::from_slice::<Object<Labels>>(object)?;
        let place = metadata.place();
        let labels = metadata.labels;
        if let Some(name) = labels.name.filter(|name| !name.is_empty()) {
            let name = short(&name);
            if self.services.len() < MAX_SERVICES || self.services.contains_key(&name) {
                let version = labels.version.unwrap_or_default();
                self.services.entry(name).or_default().add(&version, &place);
            } else {
                self.left_out += 1;
            }
        }
        if let Some(chart) = labels.chart.filter(|chart| !chart.is_empty()) {
            self.charts.add(&chart, &place);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let mut left_out = self.left_out;
        let services = self.services.into_iter().filter_map(|(name, versions)| {
            let versions = versions.into_fact(&name)?;
            left_out += versions.left_out;
            Some((name, versions.value))
        });
        let services: serde_json::Map<_, _> = services.collect();
        let services = (!services.is_empty()).then(|| CollectedFact {
            name: "services".to_owned(),
            value: services.into(),
            left_out,
        });
        services
            .into_iter()
            .chain(self.charts.into_fact("charts"))
            .collect()
    }
}

#[derive(Default)]
pub(super) struct Helm(BoundedEntries);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Release {
    name: String,
    status: String,
    /// Revision: number of installations and upgrades.
    version: String,
}

impl Collector for Helm {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![CollectorSource::metadata(
            "/api/v1/secrets",
            RELEASE_SELECTOR,
            "list secrets",
        )]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let Object { metadata } = serde_json::from_slice::<Object<Release>>(object)?;
        let Release {
            name,
            status,
            version,
        } = metadata.labels;
        // Compares numbers: names sort v10 before v9.
        let revision: u64 = version.parse().unwrap_or(0);
        let key = format!("{}/{name}", metadata.namespace);
        if self.0.get(&key).and_then(|it| it["revision"].as_u64()) <= Some(revision) {
            self.0.put(
                &key,
                json!({ "status": short(&status), "revision": revision }),
            );
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        self.0.into_fact("helmReleases").into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{collectors::facts_of, source::Selection};

    #[test]
    fn services_are_found_by_name_and_version_with_charts() {
        let workload = |name: &str, version: &str| {
            json!({ "metadata": { "namespace": "db", "name": name, "labels": {
                "app.kubernetes.io/name": "postgresql", "app.kubernetes.io/version": version,
                "helm.sh/chart": "postgresql-12.1.0", "other": "x",
            } } })
        };
        let bare = json!({ "metadata": { "namespace": "web", "name": "nginx",
            "labels": { "app.kubernetes.io/name": "nginx" } } });
        let of_a_chart = json!({ "metadata": { "namespace": "ops", "name": "sidecar",
            "labels": { "helm.sh/chart": "k8s-sidecar-1.2.3-rc.1" } } });
        let objects = [
            (2, workload("one", "15.3")),
            (2, workload("two", "16.0")),
            (0, bare),
            (5, of_a_chart),
        ];
        assert_eq!(
            facts_of(Box::new(ServiceVersions::default()), &objects),
            json!({
                "services": {
                    "nginx": { "": ["web/nginx"] },
                    "postgresql": { "15.3": ["db/one"], "16.0": ["db/two"] },
                },
                "charts": {
                    "k8s-sidecar-1.2.3-rc.1": ["ops/sidecar"],
                    "postgresql-12.1.0": ["db/one", "db/two"],
                },
            })
        );
    }

    #[test]
    fn selectors_cover_each_labelled_workload_once() {
        let sources = ServiceVersions::default().sources();
        let selectors: Vec<_> = sources
            .iter()
            .map(|source| match source.selection {
                Selection::List { selector, .. } => (source.path.as_str(), selector),
                Selection::Object => panic!("{source:?}"),
            })
            .collect();
        let deployments = "/apis/apps/v1/deployments";
        assert_eq!(
            selectors[..2],
            [
                (deployments, "app.kubernetes.io/name"),
                (deployments, "helm.sh/chart,!app.kubernetes.io/name"),
            ]
        );
        assert_eq!(selectors.len(), 6);
    }

    #[test]
    fn newest_revision_of_a_release_is_kept() {
        let secret = |revision: &str, status: &str| {
            json!({ "metadata": { "namespace": "db", "name": format!("sh.helm.release.v1.pg.v{revision}"),
                "labels": { "owner": "helm", "name": "pg", "status": status, "version": revision } } })
        };
        let secrets = [(0, secret("10", "deployed")), (0, secret("9", "failed"))];
        assert_eq!(
            facts_of(Box::new(Helm::default()), &secrets),
            json!({ "helmReleases": { "db/pg": { "status": "deployed", "revision": 10 } } })
        );
    }
}
