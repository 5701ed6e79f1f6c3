//! The hub's own resources as its API gives and takes them, JSON in camelCase, times in RFC 3339.
//!
//! `GET /api/v1/hub`; `GET|POST /api/v1/tenants`, `GET|DELETE /api/v1/tenants/{id}`; `GET|POST /api/v1/clusters`,
//! `GET|DELETE /api/v1/clusters/{id}`, `POST /api/v1/clusters/{id}/join-token`, `GET|PUT /api/v1/clusters/{id}/catalog`;
//! `GET|POST /api/v1/tokens`, `DELETE /api/v1/tokens/{id}`. Failures are `metav1.Status`.

use std::{fmt, net::IpAddr, str::FromStr};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;

use crate::{
    ClusterId, ClusterUid, Code, HubUrl, TenantId,
    hello::{Instance, Link},
};

/// What a hub says of itself, enough to write a kubeconfig.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubInfo {
    pub version: String,
    /// Where people and agents reach it.
    pub public_url: HubUrl,
    /// The domain under which each cluster has a name, like `clusters.hub.example`.
    pub cluster_domain: String,
    /// Whether the hub's certificate is valid for names under `cluster_domain`.
    pub names_covered: bool,
    /// The CA that a client needs to trust the hub's front, in PEM; none where the web's own does.
    pub ca: Option<String>,
    /// Who the token of this request stands for.
    pub caller: String,
}

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub id: TenantId,
    pub display_name: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Rises with every change; a change names the version it was made from.
    pub version: i64,
}

/// Body of `POST /api/v1/tenants`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTenant {
    /// Made up where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// One Kubernetes cluster, registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    pub version: i64,
    pub status: ClusterStatus,
    /// UID of its namespace `kube-system`, once an agent has told it: an agent of another one is refused (`FL-2112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<ClusterUid>,
    /// The last agent that was refused because it has this cluster's identity in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<CloneSeen>,
    /// While the bootstrap token is valid and unused, and to those who may see it.
    #[serde(
        rename = "installURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub install_url: Option<String>,
}

/// An agent with a cluster's identity in another Kubernetes cluster, refused. Forgotten at the next enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloneSeen {
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// Where its connection came from, which may be a proxy or a load balancer.
    pub from: IpAddr,
    /// Of its namespace `kube-system`.
    pub uid: ClusterUid,
}

/// Body of `POST /api/v1/clusters`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateCluster {
    /// Made up where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Shown to people and used as context name; the id where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// `t-default` where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Answer to `POST /api/v1/clusters` and to `POST /api/v1/clusters/{id}/join-token`. `join` and `installURL` hold the
/// same bootstrap token, good for one enrolment until `expires`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinInfo {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    #[serde(serialize_with = "exposed")]
    pub join: SecretString,
    #[serde(rename = "installURL", serialize_with = "exposed")]
    pub install_url: SecretString,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// How it stands with a cluster, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub state: State,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    pub last_error: Option<LastError>,
    /// When an agent of it answered last. Of a cluster that was lost with the hub, up to a minute before that.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    /// When its API server was last found ready, through the tunnel.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
}

/// One session of a cluster that serves now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSession {
    /// Where its connection came from at first, which may be a proxy or a load balancer.
    pub from: IpAddr,
    #[serde(with = "time::serde::rfc3339")]
    pub opened: OffsetDateTime,
    /// Which run of an agent's process, and which of its links; none of an agent of the version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Whether its link is up.
    pub up: bool,
    /// Whether its agent has shown that it is in the right Kubernetes cluster.
    pub recognised: bool,
    /// Requests that run on it.
    pub requests: usize,
    /// Round trip of its link in microseconds, once it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_micros: Option<u64>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
    /// When its certificate ends, unless it is renewed before.
    #[serde(with = "time::serde::rfc3339")]
    pub certificate_until: OffsetDateTime,
}

/// `Connected` means that a probe came back from the kube-apiserver through the tunnel within the last 15 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Never,
    Connected,
    ApiUnreachable,
    Lost,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a cluster was lost or its API server not reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    pub code: Code,
    pub cause: String,
}

/// What a caller may do, on one tenant or on all. Each role holds the ones below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Works in clusters.
    Operator,
    /// Registers and deletes, hands out tokens.
    Admin,
}

impl Role {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl Role {
    /// The ClusterRole that a site binds the group `fairlead:<role>` to when it joins; its operator may change that.
    #[must_use]
    pub const fn default_cluster_role(self) -> &'static str {
        match self {
            Role::Viewer => "view",
            Role::Operator => "edit",
            Role::Admin => "cluster-admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is none of the roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is admin, operator or viewer")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        [Role::Viewer, Role::Operator, Role::Admin]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}

/// A bearer token of the kubectl side; the token itself is shown once and not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    pub id: String,
    /// Whom it stands for; becomes the user `fairlead:<name>`.
    pub name: String,
    pub role: Role,
    /// None: on all tenants.
    pub tenant: Option<TenantId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// Body of `POST /api/v1/tokens`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// 1 minute to 1 year; 8 hours where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Answer to `POST /api/v1/tokens`, the one time the token is seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreatedToken {
    #[serde(flatten)]
    pub about: ApiToken,
    #[serde(serialize_with = "exposed")]
    pub token: SecretString,
}

/// A list, in the order of its ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List<T> {
    pub items: Vec<T>,
}

/// For the few answers that exist to hand a secret over.
pub(crate) fn exposed<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}
