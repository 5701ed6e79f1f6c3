//! How an agent comes to its identity. `POST /agent/v1/enroll` needs no identity and takes a bootstrap token;
//! `POST /agent/v1/renew` needs the identity that is renewed. Both over a stream of the agent's own session, never
//! over the hub's front.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{ClusterId, ClusterUid, TenantId, resources::exposed};

/// The one route open to a session without identity.
pub const ENROLL_PATH: &str = "/agent/v1/enroll";
/// Renewal, over a session with identity.
pub const RENEW_PATH: &str = "/agent/v1/renew";
/// The largest body either takes, in bytes.
pub const MAX_ENROLL_BODY_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollRequest {
    #[serde(serialize_with = "exposed")]
    pub token: SecretString,
    /// PKCS#10 in PEM. Only its public key is used; names in it are refused unless they are the token's own.
    pub csr: String,
    pub agent_version: String,
    /// Of the cluster that enrols, which the identity is bound to; none where the API server has not told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    pub csr: String,
    pub agent_version: String,
}

/// Answer to both: the certificate for the key in the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    pub cluster: ClusterId,
    pub tenant: TenantId,
    /// Leaf first, in PEM.
    pub certificate: String,
    /// The authority whose hubs the agent believes from now on, in PEM.
    pub ca: String,
    #[serde(with = "time::serde::rfc3339")]
    pub not_before: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
}
