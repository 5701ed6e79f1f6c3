//! Configuration of an agent, one document per cluster. The agent fetches the document of its own cluster over its session,
//! `GET /agent/v1/config` with `If-None-Match`. The hub's probes announce a new revision, and their answers report the applied one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CaPin, ClusterId, gitops::GitOpsConfig, schema, upgrade::DesiredUpgrade};

/// Path from which an agent fetches its [`AgentConfig`]; the ETag is the document's revision.
pub const CONFIG_PATH: &str = "/agent/v1/config";
/// Limit of a document, in bytes of JSON.
pub const MAX_CONFIG_BYTES: usize = 256 * 1024;
/// Header of the hub's probes: desired revision of the cluster's document.
pub const DESIRED_REVISION_HEADER: &str = "fairlead-config-desired";
/// Header of the answers to the hub's probes: revision that the agent has applied.
pub const APPLIED_REVISION_HEADER: &str = "fairlead-config-applied";

/// Configuration document. A missing field leaves the setting to the agent's own flags and defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentConfig {
    /// Repository of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Revisions of the configuration repositories.
    pub revisions: Revisions,
    /// Desired version of the agent, as a note: an agent acts on `upgrade` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Upgrade that the agent carries out, until it has reported a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<DesiredUpgrade>,
    /// Settings of fact collection.
    pub facts: FactCollection,
    /// Addresses (`host:port`) for plain TCP connections. They restrict the addresses that the site operator allows, and
    /// never add to them. `None` is no restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_connect: Option<Vec<String>>,
    /// Pins of the hub's CAs, oldest first. An agent with other ones renews its identity, which brings them. Empty
    /// before the first rotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub ca: Vec<CaPin>,
    /// GitOps tool of the cluster, and the agent's SSH key for it.
    #[serde(skip_serializing_if = "GitOpsConfig::is_off")]
    pub gitops: GitOpsConfig,
}

/// Configuration status of one cluster's agent, as listed by `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfigStatus {
    /// Cluster of the agent.
    pub cluster: ClusterId,
    /// Desired revision: that of the current document.
    pub desired: String,
    /// Revision that the agent has reported as applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// True if the applied revision differs from the desired one.
    pub outdated: bool,
}

/// Repository of a cluster's catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    /// URL to clone from.
    pub url: String,
    /// Host keys of the server in `known_hosts` format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
}

/// Revisions of the configuration repositories to compile from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Revisions {
    /// Revision of the global repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<String>,
    /// Revision of the tenant's repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Overrides of the cluster, by the name of the repository.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
}

/// Settings of fact collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FactCollection {
    /// Seconds between two collections; `None` is the agent's own setting, else five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, minimum = 1, maximum = 4_294_967_295_u64)]
    pub interval_seconds: Option<u32>,
    /// Names of disabled collectors. Unknown names are ignored: they may be those of another version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = schema::collectors)]
    pub disabled_collectors: Vec<String>,
    /// Prefixes of the namespace annotations to collect as facts.
    #[schema(schema_with = schema::prefixes)]
    pub annotation_prefixes: Vec<String>,
    /// Prefixes of the namespace annotations to collect as contacts.
    #[schema(schema_with = schema::prefixes)]
    pub contact_prefixes: Vec<String>,
}

impl Default for FactCollection {
    fn default() -> Self {
        FactCollection {
            interval_seconds: None,
            disabled_collectors: Vec::new(),
            annotation_prefixes: Vec::new(),
            contact_prefixes: vec!["a8r.io/".to_owned()],
        }
    }
}

/// Collectors of facts in the order in which they run. The first collector of a fact name takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectorKind {
    /// Version of Kubernetes.
    Version,
    /// Version and distribution of OpenShift.
    OpenShift,
    /// Nodes with their capacity.
    Nodes,
    /// Host names of ingresses and routes.
    Hosts,
    /// Services and charts, by the labels of workloads.
    Services,
    /// Releases of Helm.
    Helm,
    /// Custom resource definitions.
    Definitions,
    /// Annotations of namespaces.
    Annotations,
    /// State of the SSH key for the GitOps tool.
    GitOps,
    /// Components of GitOps tools.
    Components,
    /// Public keys of the tokens of service accounts.
    ServiceAccounts,
    /// ConfigMap with facts of the site operator.
    Additional,
}

impl CollectorKind {
    /// All collectors, in their order.
    pub const ALL: [CollectorKind; 12] = [
        CollectorKind::Version,
        CollectorKind::OpenShift,
        CollectorKind::Nodes,
        CollectorKind::Hosts,
        CollectorKind::Services,
        CollectorKind::Helm,
        CollectorKind::Definitions,
        CollectorKind::Annotations,
        CollectorKind::GitOps,
        CollectorKind::Components,
        CollectorKind::ServiceAccounts,
        CollectorKind::Additional,
    ];

    /// Name, as in [`FactCollection::disabled_collectors`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CollectorKind::Version => "version",
            CollectorKind::OpenShift => "openshift",
            CollectorKind::Nodes => "nodes",
            CollectorKind::Hosts => "hosts",
            CollectorKind::Services => "services",
            CollectorKind::Helm => "helm",
            CollectorKind::Definitions => "definitions",
            CollectorKind::Annotations => "annotations",
            CollectorKind::GitOps => "gitops",
            CollectorKind::Components => "components",
            CollectorKind::ServiceAccounts => "serviceaccounts",
            CollectorKind::Additional => "additional",
        }
    }
}

impl FactCollection {
    /// True if this collector is enabled.
    #[must_use]
    pub fn has(&self, kind: CollectorKind) -> bool {
        !self
            .disabled_collectors
            .iter()
            .any(|name| name == kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_of_a_document_are_ignored() {
        let text = r#"{"facts":{"disabledCollectors":["helm","tomorrow"],"new":1},"later":{}}"#;
        let config: AgentConfig = serde_json::from_str(text).unwrap();
        assert!(!config.facts.has(CollectorKind::Helm) && config.facts.has(CollectorKind::Nodes));
        assert_eq!(config.facts.contact_prefixes, ["a8r.io/"]);
        assert_eq!(config.allow_connect, None);
    }

    #[test]
    fn document_survives_a_round_trip() {
        let config = AgentConfig {
            repository: Some(Repository {
                url: "ssh://git@git.example.com/c-demo.git".to_owned(),
                host_keys: None,
            }),
            agent_version: Some("0.2.0".to_owned()),
            ..AgentConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<AgentConfig>(&text).unwrap(), config);
    }
}
