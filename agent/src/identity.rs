//! Who this agent is, and where that is kept: one document with key, certificate and all that is needed to dial as
//! itself; and, before there is one, the key that an enrolment was or will be asked for with.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::{
    CaPin, ClusterId, Code, Failure, HubUrl, JoinString, TenantId, enroll::Issued, error_chain,
};
use fairlead_certs::{AgentKey, Leaf, ca_pin, sha256};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::proxy::upstream::UpstreamError;

pub(crate) mod dir;
pub(crate) mod secret;

use dir::DirStore;
use secret::{Found, SecretStore};

/// The join string that an identity came from: a hash of its CA pin and its token, from which neither can be had. The hubs are
/// left out: another address of the same hub is no other join string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Origin(String);

impl Origin {
    pub(crate) fn of(join: &JoinString) -> Self {
        let text = [&join.ca_pin.0, join.token.expose_secret().as_bytes()].concat();
        Origin(format!("sha256:{}", URL_SAFE_NO_PAD.encode(sha256(&text))))
    }
}

/// An agent's identity.
pub(crate) struct Identity {
    pub(crate) origin: Origin,
    pub(crate) cluster: ClusterId,
    pub(crate) tenant: TenantId,
    /// Where to dial, unless the configuration says otherwise.
    pub(crate) hubs: Vec<HubUrl>,
    /// Of the authority whose hubs are believed.
    pub(crate) pin: CaPin,
    pub(crate) key: AgentKey,
    /// Key and chain as TLS takes them.
    pub(crate) leaf: Leaf,
    pub(crate) not_before: OffsetDateTime,
    pub(crate) not_after: OffsetDateTime,
    certificate: String,
    ca: String,
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    join: Origin,
    cluster: ClusterId,
    tenant: TenantId,
    hubs: Vec<HubUrl>,
    pin: String,
    key: String,
    certificate: String,
    ca: String,
    #[serde(with = "time::serde::rfc3339")]
    not_before: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    not_after: OffsetDateTime,
}

impl Identity {
    /// # Errors
    /// `FL-3107` if the certificate is not one for this key, or the CA is none.
    pub(crate) fn new(
        key: AgentKey,
        issued: Issued,
        hubs: Vec<HubUrl>,
        origin: Origin,
    ) -> Result<Self, Failure> {
        Ok(Identity {
            origin,
            pin: ca_pin(&issued.ca)?,
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

    /// The same agent with a newer certificate.
    ///
    /// # Errors
    /// `FL-3107` as [`Identity::new`], or if the hub gave the certificate of another cluster.
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

    /// Whether the join string is another one than this identity came from.
    pub(crate) fn is_superseded_by(&self, join: Option<&JoinString>) -> bool {
        join.is_some_and(|join| Origin::of(join) != self.origin)
    }

    fn has_key_of(&self, other: &Identity) -> bool {
        self.key.to_pem().expose_secret() == other.key.to_pem().expose_secret()
    }

    /// Whether this is the same agent's with a certificate that is good for longer.
    fn outlives(&self, other: &Identity) -> bool {
        self.cluster == other.cluster && self.has_key_of(other) && self.not_after > other.not_after
    }

    pub(crate) fn same_certificate(&self, other: &Identity) -> bool {
        self.certificate == other.certificate
    }

    /// As it is kept, in JSON.
    pub(crate) fn write(&self) -> Result<SecretString, StoreError> {
        let document = Document {
            join: self.origin.clone(),
            cluster: self.cluster.clone(),
            tenant: self.tenant.clone(),
            hubs: self.hubs.clone(),
            pin: self.pin.to_string(),
            key: self.key.to_pem().expose_secret().to_owned(),
            certificate: self.certificate.clone(),
            ca: self.ca.clone(),
            not_before: self.not_before,
            not_after: self.not_after,
        };
        serde_json::to_string_pretty(&document)
            .map(Into::into)
            .map_err(|_| StoreError::Damaged("identity".to_owned()))
    }

    /// # Errors
    /// [`StoreError::Damaged`]; the text is not repeated.
    pub(crate) fn read(text: &SecretString) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged("identity".to_owned());
        let document: Document = serde_json::from_str(text.expose_secret())
            .map_err(|_| StoreError::Damaged("identity".to_owned()))?;
        let key = AgentKey::from_pem(&document.key).map_err(damaged)?;
        Ok(Identity {
            origin: document.join,
            leaf: key
                .with_certificate(&document.certificate)
                .map_err(damaged)?,
            pin: document
                .pin
                .parse()
                .map_err(|_| StoreError::Damaged("identity".to_owned()))?,
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

/// What a store holds.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) identity: Option<Identity>,
    /// Made for an enrolment whose answer has not been seen: it must be asked for with the same key again.
    pub(crate) pending: Option<AgentKey>,
    /// What a change is a change of.
    pub(crate) seen: Seen,
}

/// The version of a store's content that was read; of a folder there is none.
#[derive(Default)]
pub(crate) struct Seen(Option<Found>);

/// How an identity that is to be kept was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Enrolled,
    /// With the key it had before.
    Renewed,
}

/// Why the identity cannot be read or kept. It is never a reason to end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{path}: {cause}")]
    File { path: String, cause: String },
    #[error("the stored {0} is damaged")]
    Damaged(String),
    #[error("the API server cannot be asked for the Secret {0}")]
    Unreachable(String, #[source] UpstreamError),
    #[error("the API server answered {status} to {verb} of the Secret {name}")]
    Refused {
        verb: &'static str,
        name: String,
        status: u16,
    },
    #[error("the Secret {0} has changed meanwhile")]
    Conflict(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let cause = error_chain(&error);
        match error {
            StoreError::File { .. } => {
                Failure::with_cause(Code::DataDir, cause).next("Check the folder of `--state`: this user must own it and be able to write there.")
            }
            StoreError::Damaged(_) => Failure::with_cause(Code::DataDir, cause).next(
                "Delete it, and start the agent with a new join string (`fairlead cluster token renew`).",
            ),
            StoreError::Refused { status: 401 | 403, .. } => {
                Failure::with_cause(Code::ApiUnreachable, cause).next(
                    "Apply the current install manifest: its Role allows the agent to keep this Secret.",
                )
            }
            StoreError::Unreachable(..) | StoreError::Refused { .. } | StoreError::Conflict(_) => {
                Failure::with_cause(Code::ApiUnreachable, cause)
            }
        }
    }
}

/// How often a change is tried again that another agent was faster than.
const TRIES: usize = 3;

/// Where the identity is kept.
pub(crate) enum Store {
    Dir(DirStore),
    Secret(SecretStore),
}

impl Store {
    /// # Errors
    /// [`StoreError`]; nothing stored is no error.
    pub(crate) async fn load(&self) -> Result<Stored, StoreError> {
        let (identity, pending, seen) = match self {
            Store::Dir(store) => {
                let (identity, pending) = store.load().await?;
                (identity, pending, None)
            }
            Store::Secret(store) => store.load().await?,
        };
        let identity = identity.as_ref().map(Identity::read).transpose();
        Ok(Stored {
            identity: identity.map_err(|error| self.name(error))?,
            pending: pending
                .map(|pem| AgentKey::from_pem(pem.expose_secret()))
                .transpose()
                .map_err(|_| self.name(StoreError::Damaged("key".to_owned())))?,
            seen: Seen(seen),
        })
    }

    /// The place of a damaged document, so that it can be found.
    fn name(&self, error: StoreError) -> StoreError {
        match (self, error) {
            (Store::Dir(store), StoreError::Damaged(what)) => {
                StoreError::Damaged(format!("{what} in {}", store.dir().display()))
            }
            (Store::Secret(_), StoreError::Damaged(what)) => {
                StoreError::Damaged(format!("{what} in the Secret {}", secret::NAME))
            }
            (_, error) => error,
        }
    }

    /// Whether several agents keep one identity here.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Store::Secret(_))
    }

    /// Keeps the key that enrolment will be asked for with. Done before it is asked for.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the content is another one than was `seen`.
    pub(crate) async fn save_pending(&self, key: &AgentKey, seen: Seen) -> Result<(), StoreError> {
        match self {
            Store::Dir(store) => store.save_pending(key.to_pem()).await,
            Store::Secret(store) => store.save_pending(key.to_pem(), seen.0).await,
        }
    }

    /// Keeps the identity, whole or not at all, unless another agent has kept one that is good for longer, or has enrolled
    /// since with another key; a pending key is forgotten.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn save(&self, identity: &Identity, news: News) -> Result<(), StoreError> {
        let text = identity.write()?;
        let better = |kept: Option<&SecretString>| {
            let kept = kept.and_then(|kept| Identity::read(kept).ok());
            kept.is_some_and(|kept| match news {
                News::Enrolled => kept.outlives(identity),
                News::Renewed => kept.outlives(identity) || !kept.has_key_of(identity),
            })
        };
        let store = match self {
            Store::Secret(store) => store,
            Store::Dir(store) => {
                return match store.load().await {
                    Ok((kept, _)) if better(kept.as_ref()) => Ok(()),
                    _ => store.save(text).await,
                };
            }
        };
        let mut tries = TRIES;
        loop {
            let (kept, _, found) = store.load().await?;
            if better(kept.as_ref()) {
                return Ok(());
            }
            tries -= 1;
            match store.save(text.clone(), found).await {
                Err(StoreError::Conflict(_)) if tries > 0 => {}
                done => return done,
            }
        }
    }
}
