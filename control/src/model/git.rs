//! Git repositories as data. Nobody makes them here yet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A configuration repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default)]
    pub kind: RepoKind,
    /// In the form of `known_hosts`, several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
    /// By name; `steward` is the one that the cluster's agent reads with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deploy_keys: BTreeMap<String, DeployKey>,
    #[serde(default)]
    pub state: RepoState,
}

/// Who looks after a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoKind {
    #[default]
    Auto,
    Unmanaged,
}

/// A public key that may read, or write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployKey {
    /// `<type> <base64>`, with a final newline where it came with one.
    pub key: String,
    #[serde(default)]
    pub write_access: bool,
}

/// How it stands with a repository on its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoState {
    #[serde(default)]
    pub phase: RepoPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoPhase {
    Created,
    Failed,
    /// Nobody has looked.
    #[default]
    Unknown,
}
