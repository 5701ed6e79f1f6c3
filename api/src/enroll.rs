//! Enrolment and renewal of an agent's identity. `POST /agent/v1/enroll` takes a bootstrap token and needs no identity;
//! `POST /agent/v1/renew` needs the identity to renew. Both are served on the agent's session only, never on the public
//! listener.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    CaPin, ClusterId, ClusterUid, TenantId,
    secret::{exposed, exposed_option},
};

/// Path of enrolment, the only route of a session without identity.
pub const ENROLL_PATH: &str = "/agent/v1/enroll";
/// Path of renewal, on a session with identity.
pub const RENEW_PATH: &str = "/agent/v1/renew";
/// Path of the report of [`StoredCa`], on a session with identity.
pub const CA_PATH: &str = "/agent/v1/ca";
/// Path of the check by `fairlead doctor`, on a session with or without identity. It changes nothing.
pub const CHECK_PATH: &str = "/agent/v1/check";
/// Limit of the request bodies, in bytes.
pub const MAX_ENROLL_BODY_BYTES: usize = 16 * 1024;

/// Body of `POST /agent/v1/enroll`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollRequest {
    /// Bootstrap token.
    #[serde(serialize_with = "exposed")]
    pub token: SecretString,
    /// PKCS#10 request in PEM. Only its public key is used; names other than the token's own are refused.
    pub csr: String,
    /// Version of the agent.
    pub agent_version: String,
    /// UID of the cluster, to which the identity is bound; `None` if the agent could not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
}

/// Body of `POST /agent/v1/renew`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// PKCS#10 request in PEM for the new key.
    pub csr: String,
    /// Version of the agent.
    pub agent_version: String,
}

/// Body of `POST /agent/v1/ca`: trust that the agent has stored. The answer is an empty JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCa {
    /// Pins of the CAs that the agent trusts.
    pub pins: Vec<CaPin>,
    /// Pin of the CA that signed its certificate.
    pub issuer: CaPin,
}

/// Response to a [`StoredCa`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StoredCaResponse {}

/// Body of `POST /agent/v1/check`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRequest {
    /// Bootstrap token, on a session without identity. It is not spent.
    #[serde(
        default,
        serialize_with = "exposed_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub token: Option<SecretString>,
    /// SHA-256 of the key of an enrolment without an answer, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Response to a [`CheckRequest`]: the token or the identity is accepted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResponse {
    /// Cluster of the token or of the identity.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// End of the token's or of the certificate's validity.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Version of the hub.
    pub hub_version: String,
}

/// Response to enrolment and renewal: the certificate for the key of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    /// Cluster of the identity.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Certificate chain in PEM, leaf first.
    pub certificate: String,
    /// CA of the hubs that the agent trusts from now on, in PEM; two certificates while the CA is rotated.
    pub ca: String,
    /// Pin of the CA that signed the certificate; `None` from hubs without rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<CaPin>,
    /// Start of the certificate's validity.
    #[serde(with = "time::serde::rfc3339")]
    pub not_before: OffsetDateTime,
    /// End of the certificate's validity.
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
}
