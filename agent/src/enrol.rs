//! From a join string to an identity. The key is made and kept before it is sent anywhere: if the answer is lost, the
//! same key asks again, and the hub, which has bound the token to it, answers again.

use std::sync::Arc;

use fairlead_api::{
    Code, Failure, JoinString,
    enroll::{ENROLL_PATH, EnrollRequest, Issued},
};
use fairlead_certs::AgentKey;
use fairlead_dialer::{CloseReason, Exchanges, Session};
use secrecy::SecretString;
use tracing::{info, warn};

use crate::{
    ask::{self, AskError},
    identity::{Identity, Store, StoreError, Stored},
};

/// The key to enrol with: the pending one where there is one, so that a lost answer can be had again.
///
/// # Errors
/// It cannot be kept; then it must not be used.
pub(crate) async fn key(store: &Store, stored: &mut Stored) -> Result<Arc<AgentKey>, Failure> {
    if let Some(key) = stored.pending.take() {
        info!("enrolling again with the key of an earlier try");
        return Ok(Arc::new(key));
    }
    let key = AgentKey::generate()?;
    match store.save_pending(&key).await {
        Ok(()) => Ok(Arc::new(key)),
        Err(error @ StoreError::Conflict(_)) => {
            // Another agent of this cluster was faster: its key is the one that the token gets bound to.
            *stored = store.load().await?;
            stored
                .pending
                .take()
                .map(Arc::new)
                .ok_or_else(|| error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Spends the token over a session without identity, and closes that.
///
/// # Errors
/// [`AskError`].
pub(crate) async fn ask(
    session: Session,
    join: &JoinString,
    key: &AgentKey,
    version: &str,
) -> Result<Issued, Failure> {
    let request = EnrollRequest {
        token: join.token.clone(),
        csr: key.csr()?,
        agent_version: version.to_owned(),
        cluster_uid: None,
    };
    let json: SecretString = serde_json::to_string(&request)
        .map_err(|_| Failure::from(Code::Internal))?
        .into();
    let exchanges = Exchanges::new(session.clone());
    let issued = ask::issue(&exchanges, ENROLL_PATH, json).await;
    session.close(CloseReason::Done);
    issued.map_err(AskError::into)
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

/// Keeps a new identity. One that cannot be kept is used all the same: the token is spent.
pub(crate) async fn keep(store: &Store, identity: &Identity) -> bool {
    match store.save(identity).await {
        Ok(()) => true,
        Err(error) => {
            let failure = Failure::from(error);
            warn!(code = %failure.code, cause = failure.cause, next = failure.code.next_step(),
                "the identity cannot be stored; trying again");
            false
        }
    }
}
