//! Named services of clusters.

use fairlead_api::{
    ClusterId,
    resources::{ServiceName, ServiceProtocol},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A named service, for which each hub of the store listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRecord {
    /// Name of the service.
    pub name: ServiceName,
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Target in the cluster, `HOST:PORT`.
    pub target: String,
    /// How the hub recognizes connections.
    pub protocol: ServiceProtocol,
    /// Port of the hub, for `tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Host name at the front, for `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Networks of clients.
    pub from: Vec<String>,
    /// True: a request needs a token of the hub.
    #[serde(default)]
    pub callers: bool,
    /// Name of the last author.
    pub created_by: String,
    /// Time of the last definition.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}
