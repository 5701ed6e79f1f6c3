//! Proof that an agent shows to its hubs: its identity, or the token of its join string.

use fairlead_api::{CaPins, HubUrl, JoinString, TenantId, hex};
use fairlead_certs::{AgentKey, csr_fingerprint};

use crate::{
    config::Config,
    identity::{Identity, JoinFingerprint, store::StoredIdentity},
};

/// Proof towards a hub.
pub(super) enum Proof {
    Identity(Box<Identity>),
    /// A join string, and the fingerprint of the key of an enrolment without an answer.
    Join {
        join: JoinString,
        key: Option<String>,
    },
    /// A person approves the agent later.
    Adoption,
    None,
}

impl Proof {
    /// Proof that an agent with these settings uses for its next dial.
    pub(super) fn of(config: &Config, stored: StoredIdentity) -> Self {
        let StoredIdentity {
            identity, pending, ..
        } = stored;
        let is_used = |it: &Identity| !it.is_superseded_by(config.join.as_ref());
        match (identity.filter(is_used), &config.join) {
            (Some(identity), _) => Proof::Identity(Box::new(identity)),
            (None, Some(join)) => Proof::Join {
                join: join.clone(),
                key: pending.as_ref().and_then(fingerprint),
            },
            (None, None) if config.adopt => Proof::Adoption,
            (None, None) => Proof::None,
        }
    }

    pub(super) fn hubs(&self) -> &[HubUrl] {
        match self {
            Proof::Identity(identity) => &identity.hubs,
            Proof::Join { join, .. } => &join.hubs,
            Proof::Adoption | Proof::None => &[],
        }
    }

    /// Whether the agent has an identity from this join string.
    pub(super) fn is_of(&self, join: &JoinFingerprint) -> bool {
        matches!(self, Proof::Identity(identity) if identity.origin == *join)
    }

    /// Pins of the hub's authorities; `None` before an adoption.
    pub(super) fn pins(&self) -> Option<CaPins> {
        match self {
            Proof::Identity(identity) => Some(identity.pins),
            Proof::Join { join, .. } => Some(join.ca_pins),
            Proof::Adoption | Proof::None => None,
        }
    }

    pub(super) fn tenant(&self) -> Option<TenantId> {
        match self {
            Proof::Identity(identity) => Some(identity.tenant.clone()),
            _ => None,
        }
    }
}

fn fingerprint(key: &AgentKey) -> Option<String> {
    let csr = key.csr().ok()?;
    csr_fingerprint(&csr).ok().map(|it| hex::encode(&it))
}
