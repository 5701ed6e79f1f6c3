//! Enrolment: from a join string to an identity. The key is stored before it is sent: after a lost answer the
//! same key is sent again, and the hub, with the token bound to that key, repeats its answer. Of several agents
//! with a shared store, one enrols and the others take the result.

use std::time::Duration;

use fairlead_api::{
    ClusterUid, Code, Failure, JoinString,
    enroll::{ENROLL_PATH, EnrollRequest, Issued},
};
use fairlead_certs::AgentKey;
use fairlead_dialer::{CloseReason, Session};
use fairlead_exchange::Exchanges;
use secrecy::SecretString;
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::{
    hub_request::{self, HubRequestError},
    identity::{
        Identity, JoinFingerprint,
        error::IdentityStoreError,
        store::{IdentityStore, StoredIdentity},
    },
};

/// Maximum wait for another agent's enrolment. That agent may have crashed.
const OTHER_AGENT_WAIT: Duration = Duration::from_secs(3);
const STORE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Result of reading the store.
pub(crate) enum EnrolmentKey {
    /// Key to enrol with.
    Key(AgentKey),
    /// Identity stored by another agent of this cluster.
    Enrolled(Box<Identity>),
}

/// Stored identities to ignore.
#[derive(Clone, Copy)]
pub(crate) enum ObsoleteIdentity<'a> {
    Nothing,
    /// Identity rejected by the hub.
    Refused(&'a Identity),
    /// Identities from other join strings.
    Superseded(&'a JoinFingerprint),
}

impl ObsoleteIdentity<'_> {
    fn covers(self, identity: &Identity) -> bool {
        match self {
            ObsoleteIdentity::Nothing => false,
            ObsoleteIdentity::Refused(refused) => refused.same_certificate(identity),
            ObsoleteIdentity::Superseded(origin) => identity.origin != *origin,
        }
    }
}

/// Key to enrol with: the pending one if it exists, so that a lost answer is repeated.
///
/// # Errors
///
/// The key cannot be stored; then it must not be used.
pub(crate) async fn obtain_key(
    store: &IdentityStore,
    mut stored: StoredIdentity,
    obsolete: ObsoleteIdentity<'_>,
) -> Result<EnrolmentKey, Failure> {
    if stored.pending.is_none() {
        let key = AgentKey::generate()?;
        match store.save_pending(&key, stored.version).await {
            Ok(()) => return Ok(EnrolmentKey::Key(key)),
            // Another agent of this cluster stored its key first; the token is bound to that key.
            Err(IdentityStoreError::Conflict(_)) => stored = store.load().await?,
            Err(error) => return Err(error.into()),
        }
    }
    let until = Instant::now() + OTHER_AGENT_WAIT;
    while store.is_shared() && Instant::now() < until {
        if let Some(identity) = usable_identity(&mut stored, obsolete) {
            return Ok(EnrolmentKey::Enrolled(identity));
        }
        sleep(STORE_POLL_INTERVAL).await;
        stored = store.load().await?;
    }
    if let Some(identity) = usable_identity(&mut stored, obsolete) {
        return Ok(EnrolmentKey::Enrolled(identity));
    }
    let Some(key) = stored.pending else {
        let detail = "the stored key is gone";
        return Err(Failure::because(Code::DataDir, detail));
    };
    info!("enrolment repeated with the pending key");
    Ok(EnrolmentKey::Key(key))
}

fn usable_identity(
    stored: &mut StoredIdentity,
    obsolete: ObsoleteIdentity<'_>,
) -> Option<Box<Identity>> {
    let identity = stored.identity.take()?;
    (!obsolete.covers(&identity)).then(|| Box::new(identity))
}

/// Exchanges the token for a certificate over a session without identity, and closes the session.
///
/// # Errors
///
/// [`HubRequestError`].
pub(crate) async fn request_certificate(
    session: Session,
    join: &JoinString,
    key: &AgentKey,
    version: &str,
    cluster_uid: Option<ClusterUid>,
) -> Result<Issued, Failure> {
    let request = EnrollRequest {
        token: join.token.clone(),
        csr: key.csr()?,
        agent_version: version.to_owned(),
        cluster_uid,
    };
    let json: SecretString = serde_json::to_string(&request)
        .map_err(|_| Failure::from(Code::Internal))?
        .into();
    let exchanges = Exchanges::new(session.clone());
    let issued = hub_request::post(&exchanges, ENROLL_PATH, json).await;
    session.close(CloseReason::Done);
    issued.map_err(HubRequestError::into)
}

/// Whether the hub will reject the same token again soon.
pub(crate) const fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::BootstrapUnknown
            | Code::BootstrapExpired
            | Code::BootstrapSpent
            | Code::BadCsr
            | Code::ForeignName
            | Code::ClusterDeleted
            | Code::NotEnrolled
            | Code::AdoptionOff
            | Code::AdoptionRefused
    )
}
