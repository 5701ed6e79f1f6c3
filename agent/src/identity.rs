//! Identity of the agent and its store. The identity is one document with key, certificate, and all data needed
//! for a dial. Before enrolment the store contains the pending key.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::{
    CaPin, CaPins, ClusterId, Code, Failure, HubUrl, JoinString, TenantId, enroll::Issued,
};
use fairlead_certs::{AgentKey, Leaf, ca_pins, sha256};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

pub(crate) mod dir;
pub(crate) mod error;
pub(crate) mod hubs;
pub(crate) mod secret;
pub(crate) mod store;

use error::IdentityStoreError;

/// Join string that an identity came from, as a hash of CA pin and token. The hash reveals neither. Hubs are
/// excluded: another address of the same hub makes no other join string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct JoinFingerprint(String);

impl JoinFingerprint {
    pub(crate) fn of(join: &JoinString) -> Self {
        let text = [
            &join.ca_pins.first().0,
            join.token.expose_secret().as_bytes(),
        ]
        .concat();
        JoinFingerprint(format!("sha256:{}", URL_SAFE_NO_PAD.encode(sha256(&text))))
    }
}

/// Identity of an agent.
pub(crate) struct Identity {
    pub(crate) origin: JoinFingerprint,
    pub(crate) cluster: ClusterId,
    pub(crate) tenant: TenantId,
    /// Hubs to dial, unless the configuration overrides them.
    pub(crate) hubs: Vec<HubUrl>,
    /// Pins of the authorities that issue the hubs' certificates: two while the CA is rotated.
    pub(crate) pins: CaPins,
    /// Authority that signed the certificate; `None` from hubs that do not report it.
    pub(crate) issuer: Option<CaPin>,
    pub(crate) key: AgentKey,
    /// Key and chain in the form for TLS.
    pub(crate) leaf: Leaf,
    pub(crate) not_before: OffsetDateTime,
    pub(crate) not_after: OffsetDateTime,
    certificate: String,
    ca: String,
}

/// Stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityDocument {
    join: JoinFingerprint,
    cluster: ClusterId,
    tenant: TenantId,
    hubs: Vec<HubUrl>,
    pin: String,
    key: String,
    certificate: String,
    ca: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<CaPin>,
    #[serde(with = "time::serde::rfc3339")]
    not_before: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    not_after: OffsetDateTime,
}

impl Identity {
    /// Checks that key, certificate and CA belong together.
    ///
    /// # Errors
    ///
    /// `FL-3107` if the certificate is for another key, or the CA is invalid.
    pub(crate) fn new(
        key: AgentKey,
        issued: Issued,
        hubs: Vec<HubUrl>,
        origin: JoinFingerprint,
    ) -> Result<Self, Failure> {
        Ok(Identity {
            origin,
            pins: ca_pins(&issued.ca)?,
            issuer: issued.issuer,
            leaf: key.with_certificate(&issued.certificate)?,
            cluster: issued.cluster,
            tenant: issued.tenant,
            hubs,
            key,
            not_before: issued.not_before,
            not_after: issued.not_after,
            certificate: issued.certificate,
            ca: issued.ca,
        })
    }

    /// Same agent with a newer certificate.
    ///
    /// # Errors
    ///
    /// `FL-3107` as [`Identity::new`], or if the certificate is for another cluster.
    pub(crate) fn renewed(&self, issued: Issued) -> Result<Self, Failure> {
        if issued.cluster != self.cluster || issued.tenant != self.tenant {
            return Err(Failure::because(
                Code::DialProtocol,
                "the hub renewed another cluster's identity",
            ));
        }
        let key = AgentKey::from_pem(self.key.to_pem().expose_secret())?;
        Identity::new(key, issued, self.hubs.clone(), self.origin.clone())
    }

    /// Whether the join string differs from the origin of this identity.
    pub(crate) fn is_superseded_by(&self, join: Option<&JoinString>) -> bool {
        join.is_some_and(|join| JoinFingerprint::of(join) != self.origin)
    }

    pub(crate) fn has_key_of(&self, other: &Identity) -> bool {
        self.key.to_pem().expose_secret() == other.key.to_pem().expose_secret()
    }

    /// Whether this is the same agent's identity with a certificate that expires later.
    pub(crate) fn outlives(&self, other: &Identity) -> bool {
        self.cluster == other.cluster && self.has_key_of(other) && self.not_after > other.not_after
    }

    pub(crate) fn same_certificate(&self, other: &Identity) -> bool {
        self.certificate == other.certificate
    }

    /// Whether it trusts exactly these authorities, oldest first, and is signed by the newest one. True for none: the
    /// hub has never rotated its CA.
    pub(crate) fn has_authorities(&self, pins: &[CaPin]) -> bool {
        pins.is_empty()
            || (self.pins.iter().eq(pins.iter().copied()) && self.issuer == pins.last().copied())
    }

    /// Stored form, in JSON.
    pub(crate) fn to_json(&self) -> Result<SecretString, IdentityStoreError> {
        let document = IdentityDocument {
            join: self.origin.clone(),
            cluster: self.cluster.clone(),
            tenant: self.tenant.clone(),
            hubs: self.hubs.clone(),
            pin: self.pins.first().to_string(),
            issuer: self.issuer,
            key: self.key.to_pem().expose_secret().to_owned(),
            certificate: self.certificate.clone(),
            ca: self.ca.clone(),
            not_before: self.not_before,
            not_after: self.not_after,
        };
        serde_json::to_string_pretty(&document)
            .map(Into::into)
            .map_err(|_| IdentityStoreError::Damaged("identity".to_owned()))
    }

    /// Parses the stored form.
    ///
    /// # Errors
    ///
    /// [`IdentityStoreError::Damaged`]. It never quotes the text.
    pub(crate) fn from_json(text: &SecretString) -> Result<Self, IdentityStoreError> {
        let damaged = |_| IdentityStoreError::Damaged("identity".to_owned());
        let document: IdentityDocument = serde_json::from_str(text.expose_secret())
            .map_err(|_| IdentityStoreError::Damaged("identity".to_owned()))?;
        let key = AgentKey::from_pem(&document.key).map_err(damaged)?;
        Ok(Identity {
            origin: document.join,
            leaf: key
                .with_certificate(&document.certificate)
                .map_err(damaged)?,
            pins: ca_pins(&document.ca).map_err(damaged)?,
            issuer: document.issuer,
            cluster: document.cluster,
            tenant: document.tenant,
            hubs: document.hubs,
            key,
            not_before: document.not_before,
            not_after: document.not_after,
            certificate: document.certificate,
            ca: document.ca,
        })
    }
}
