//! Spending a bootstrap token and signing for it: one change, both or neither.

use fairlead_api::{ClusterId, ClusterUid, Failure, TenantId};
use time::OffsetDateTime;

use crate::{
    model::{Bootstrap, Cluster, hex},
    store::{Actor, Draft, Refusal, Store, StoreError},
};

/// A token that this hub has made, and the key it is to be spent for.
#[derive(Debug, Clone)]
pub struct Claim {
    pub cluster: ClusterId,
    pub generation: i64,
    /// As the token says.
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spends it.
    pub fingerprint: [u8; 32],
    /// Which Kubernetes cluster it is spent in, if whoever spends it can tell.
    pub uid: Option<ClusterUid>,
}

/// Why a bootstrap token is not honoured.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    #[error("there is no such token, or a newer one has taken its place")]
    Unknown,
    #[error("it has expired")]
    Expired,
    #[error("another key has spent it")]
    Spent,
    #[error("nothing could be signed for it")]
    Sign(#[source] Failure),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl Refusal for SpendError {}

/// What spending a token has led to.
#[derive(Debug)]
pub struct Enrolled<T> {
    pub tenant: TenantId,
    pub signed: T,
    /// The same key has asked before: its first answer was lost.
    pub again: bool,
}

/// Spends a token and signs, both or neither. The same key may come again until the token expires: its first answer may
/// have been lost. Whoever spends it says which Kubernetes cluster it is from now on.
///
/// # Errors
/// [`SpendError`]; then nothing has changed.
pub async fn spend<T, Sign>(
    store: &Store,
    claim: Claim,
    now: OffsetDateTime,
    sign: Sign,
) -> Result<Enrolled<T>, SpendError>
where
    T: Send + 'static,
    Sign: Fn(&Cluster) -> Result<T, Failure> + Send + 'static,
{
    let actor = Actor::Agent(claim.cluster.clone());
    let decide = move |draft: &mut Draft| {
        let id = &claim.cluster;
        let cluster = draft.cluster(id).cloned().ok_or(SpendError::Unknown)?;
        let again = may_spend(&cluster.value.binding.bootstrap, &claim, now)?;
        let signed = sign(&cluster.value).map_err(SpendError::Sign)?;
        if !again {
            draft.amend_cluster(id, |cluster| {
                let binding = &mut cluster.binding;
                let key = hex::encode(&claim.fingerprint);
                binding.bootstrap.spent_by = Some(key.clone());
                binding.agent_key = Some(key);
                binding.uid.clone_from(&claim.uid);
                binding.clone = None;
            })?;
        }
        Ok::<_, SpendError>(Enrolled {
            tenant: cluster.value.tenant.clone(),
            signed,
            again,
        })
    };
    Ok(store.change(actor, decide).await?.value)
}

/// Whether this key has spent it already.
fn may_spend(current: &Bootstrap, claim: &Claim, now: OffsetDateTime) -> Result<bool, SpendError> {
    if (current.generation, current.expires) != (claim.generation, claim.expires) || current.revoked
    {
        return Err(SpendError::Unknown);
    }
    if now >= current.expires {
        return Err(SpendError::Expired);
    }
    match &current.spent_by {
        None => Ok(false),
        Some(by) if *by == hex::encode(&claim.fingerprint) => Ok(true),
        Some(_) => Err(SpendError::Spent),
    }
}
