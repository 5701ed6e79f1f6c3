//! What an agent needs to know to do its work, one document for each cluster: `GET /agent/v1/config` over its own session with
//! `If-None-Match`. It is given its own and no other's. That another one is there, the hub says on its probes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ClusterId;

/// Where an agent asks for its [`AgentConfig`]; the ETag is the document's revision.
pub const CONFIG_PATH: &str = "/agent/v1/config";
/// The largest document, in bytes of JSON.
pub const MAX_CONFIG_BYTES: usize = 256 * 1024;
/// On the hub's probes: the revision of the cluster's document as it is now, if the hub knows.
pub const DESIRED_REVISION_HEADER: &str = "fairlead-config-desired";
/// On the agent's `GET`: the revision by which it works, if there is any.
pub const APPLIED_REVISION_HEADER: &str = "fairlead-config-applied";

/// The whole document. Where a field is missing, nothing is said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentConfig {
    /// The catalog's repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    pub revisions: Revisions,
    /// Which version of the agent should run here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    pub facts: FactCollection,
    /// `host:port` that the hub may open plain TCP to. It narrows what the site operator allows, and never widens it. None:
    /// all of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_connect: Option<Vec<String>>,
}

/// How it stands with one cluster's document, as `GET /v1/agents` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfigStatus {
    pub cluster: ClusterId,
    /// Revision of the document as it is now.
    pub desired: String,
    /// Revision by which the agent works, once it has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// It works by another one than it should.
    pub outdated: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    pub url: String,
    /// In the form of `known_hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
}

/// Which states of the configuration repositories count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Revisions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The cluster's own, in the place of the above.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
}

/// How facts are collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FactCollection {
    /// Seconds between two looks; none: as the agent was started, or five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// Collectors that do not run, by name. Unknown ones are those of another version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_collectors: Vec<String>,
    /// Which annotations of namespaces are facts.
    pub annotation_prefixes: Vec<String>,
    /// Which of them say whom to ask.
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

/// The collectors, in the order in which they run: of two that tell a fact of one name, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectorKind {
    Version,
    OpenShift,
    Nodes,
    Hosts,
    Services,
    Helm,
    Definitions,
    Annotations,
    Additional,
}

impl CollectorKind {
    pub const ALL: [CollectorKind; 9] = [
        CollectorKind::Version,
        CollectorKind::OpenShift,
        CollectorKind::Nodes,
        CollectorKind::Hosts,
        CollectorKind::Services,
        CollectorKind::Helm,
        CollectorKind::Definitions,
        CollectorKind::Annotations,
        CollectorKind::Additional,
    ];

    /// As in [`FactCollection::disabled_collectors`].
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
            CollectorKind::Additional => "additional",
        }
    }
}

impl FactCollection {
    /// Whether this collector runs.
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
    fn a_document_of_another_version_is_read_as_far_as_it_is_known() {
        let text = r#"{"facts":{"disabledCollectors":["helm","tomorrow"],"new":1},"later":{}}"#;
        let config: AgentConfig = serde_json::from_str(text).unwrap();
        assert!(!config.facts.has(CollectorKind::Helm) && config.facts.has(CollectorKind::Nodes));
        assert_eq!(config.facts.contact_prefixes, ["a8r.io/"]);
        assert_eq!(config.allow_connect, None);
    }

    #[test]
    fn a_document_reads_back() {
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
