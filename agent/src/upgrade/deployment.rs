//! The agent's own Deployment, as far as an upgrade needs it, and its changes.

use fairlead_api::{
    resources::ClusterUpgradeState,
    upgrade::{DesiredUpgrade, UpgradeReport},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

/// Annotation of the Deployment: the last upgrade, as JSON.
pub(super) const UPGRADE_ANNOTATION: &str = "fairlead/upgrade";
/// Annotation of the pods: version of the agent.
const VERSION_ANNOTATION: &str = "fairlead/version";
/// Container whose image is upgraded, with all others of the same image.
const AGENT_CONTAINER: &str = "agent";

/// The last upgrade of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotedUpgrade {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) image: String,
    /// Image before, for a return.
    pub(super) former_image: String,
    /// Version of the agent that began.
    pub(super) former_version: String,
    /// Time at which the new pods must be ready.
    #[serde(with = "time::serde::rfc3339")]
    pub(super) deadline: OffsetDateTime,
    pub(super) state: ClusterUpgradeState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
}

impl NotedUpgrade {
    pub(super) fn report(&self) -> UpgradeReport {
        UpgradeReport {
            id: self.id.clone(),
            state: self.state,
            cause: self.cause.clone(),
        }
    }

    /// The same upgrade with a result.
    pub(super) fn ended(&self, state: ClusterUpgradeState, cause: Option<String>) -> Self {
        NotedUpgrade {
            state,
            cause,
            ..self.clone()
        }
    }
}

/// The Deployment of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentDeployment {
    resource_version: String,
    /// Image of the agent's container.
    pub(super) image: String,
    /// Containers with that image.
    containers: Vec<String>,
    /// Selector of its pods, as a query value.
    pub(super) selector: String,
    /// All pods are of the present template, and ready.
    pub(super) is_rolled_out: bool,
    pub(super) is_paused: bool,
    /// A pod stays until its replacement is ready.
    pub(super) keeps_former_pods: bool,
    pub(super) noted: Option<NotedUpgrade>,
}

impl AgentDeployment {
    /// Reads an object of the API server; `None` if a part is missing or unusable.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let containers = object
            .pointer("/spec/template/spec/containers")?
            .as_array()?;
        let field = |it: &Value, name: &str| Some(it.get(name)?.as_str()?.to_owned());
        let agent = containers
            .iter()
            .find(|it| field(it, "name").as_deref() == Some(AGENT_CONTAINER))?;
        let image = field(agent, "image")?;
        let same = containers
            .iter()
            .filter(|it| field(it, "image").as_ref() == Some(&image));
        let noted = object.pointer("/metadata/annotations");
        let noted = noted.and_then(|it| it.get(UPGRADE_ANNOTATION)?.as_str());
        let labels = object.pointer("/spec/selector/matchLabels")?.as_object()?;
        let labels = labels.iter();
        let labels = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
        Some(AgentDeployment {
            resource_version: text("/metadata/resourceVersion")?.to_owned(),
            containers: same.filter_map(|it| field(it, "name")).collect(),
            image,
            selector: labels.collect::<Vec<_>>().join(","),
            is_rolled_out: is_rolled_out(object),
            is_paused: object.pointer("/spec/paused") == Some(&Value::Bool(true)),
            keeps_former_pods: keeps_former_pods(object),
            // A note that cannot be read is none: the next upgrade replaces it.
            noted: noted.and_then(|it| serde_json::from_str(it).ok()),
        })
    }

    /// Strategic merge patch with the note, and with this image if it changes.
    pub(super) fn patch(&self, noted: &NotedUpgrade, image: Option<&str>) -> Value {
        let note = serde_json::to_string(noted).unwrap_or_default();
        let mut patch = json!({
            "metadata": {
                "resourceVersion": self.resource_version,
                "annotations": { UPGRADE_ANNOTATION: note },
            },
        });
        if let (Some(image), Value::Object(patch)) = (image, &mut patch) {
            let version = match image == noted.image {
                true => &noted.version,
                false => &noted.former_version,
            };
            let containers = self.containers.iter();
            let containers = containers.map(|name| json!({ "name": name, "image": image }));
            let template = json!({
                "metadata": { "annotations": { VERSION_ANNOTATION: version } },
                "spec": { "containers": containers.collect::<Vec<_>>() },
            });
            let spec = Map::from_iter([("template".to_owned(), template)]);
            patch.insert("spec".to_owned(), Value::Object(spec));
        }
        patch
    }

    /// Note of an upgrade that begins now.
    pub(super) fn begin(
        &self,
        desired: &DesiredUpgrade,
        own_version: &str,
        now: OffsetDateTime,
    ) -> NotedUpgrade {
        NotedUpgrade {
            id: desired.id.clone(),
            version: desired.version.clone(),
            image: desired.image.clone(),
            former_image: self.image.clone(),
            former_version: own_version.to_owned(),
            deadline: now + time::Duration::seconds(i64::from(desired.timeout_seconds)),
            state: ClusterUpgradeState::Upgrading,
            cause: None,
        }
    }
}

/// As `kubectl rollout status` decides it: former pods are gone, new ones are available.
fn is_rolled_out(object: &Value) -> bool {
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let desired = object.pointer("/spec/replicas").and_then(Value::as_u64);
    let desired = desired.unwrap_or(1);
    let is_observed = number("/status/observedGeneration") >= number("/metadata/generation");
    let updated = number("/status/updatedReplicas");
    is_observed
        && updated >= desired
        && number("/status/replicas") <= updated
        && number("/status/availableReplicas") >= updated
}

fn keeps_former_pods(object: &Value) -> bool {
    let kind = object
        .pointer("/spec/strategy/type")
        .and_then(Value::as_str);
    let unavailable = object.pointer("/spec/strategy/rollingUpdate/maxUnavailable");
    let is_none = unavailable.is_some_and(|it| *it == 0 || *it == "0" || *it == "0%");
    kind.is_none_or(|it| it == "RollingUpdate") && is_none
}
