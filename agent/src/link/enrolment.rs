//! From a join string to an identity. The key is made and kept before it is sent anywhere: if the answer is lost, the
//! same key asks again, and the hub, which has bound the token to it, answers again. Of several agents that share a store,
//! one enrols and the others take what it stores.

use std::time::Duration;

use fairlead_api::{
    ClusterUid, Code, Failure, JoinString,
    enroll::{ENROLL_PATH, EnrollRequest, Issued},
};
use fairlead_certs::AgentKey;
use fairlead_dialer::{CloseReason, Exchanges, Session};
use secrecy::SecretString;
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::{
    hub_request::{self, HubRequestError},
    identity::{
        Identity, Origin,
        error::StoreError,
        store::{IdentityStore, StoredIdentity},
    },
};

/// How long an agent that has begun to enrol is waited for. It may have died half-way.
const OTHER_AGENT_WAIT: Duration = Duration::from_secs(3);
const STORE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// What to go on with.
pub(crate) enum EnrolmentKey {
    /// The key to enrol with.
    Key(AgentKey),
    /// Another agent of this cluster has enrolled.
    Enrolled(Box<Identity>),
}

/// Identities in the store that are of no use.
#[derive(Clone, Copy)]
pub(crate) enum ObsoleteIdentity<'a> {
    Nothing,
    /// The hub takes this one no more.
    Refused(&'a Identity),
    /// All that came from other join strings.
    Superseded(&'a Origin),
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

/// The key to enrol with: the pending one where there is one, so that a lost answer can be had again.
///
/// # Errors
/// It cannot be kept; then it must not be used.
pub(crate) async fn obtain_key(
    store: &IdentityStore,
    mut stored: StoredIdentity,
    obsolete: ObsoleteIdentity<'_>,
) -> Result<EnrolmentKey, Failure> {
    if stored.pending.is_none() {
        let key = AgentKey::generate()?;
        match store.save_pending(&key, stored.version).await {
            Ok(()) => return Ok(EnrolmentKey::Key(key)),
            // Another agent of this cluster was faster: its key is the one that the token gets bound to.
            Err(StoreError::Conflict(_)) => stored = store.load().await?,
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
    info!("enrolling again with the key of an earlier try");
    Ok(EnrolmentKey::Key(key))
}

fn usable_identity(
    stored: &mut StoredIdentity,
    obsolete: ObsoleteIdentity<'_>,
) -> Option<Box<Identity>> {
    let identity = stored.identity.take()?;
    (!obsolete.covers(&identity)).then(|| Box::new(identity))
}

/// Spends the token over a session without identity, and closes that.
///
/// # Errors
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

/// Whether asking again soon with the same token can only be refused again.
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
    )
}
