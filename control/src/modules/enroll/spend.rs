//! Spends a bootstrap token and signs a certificate in one transaction.

use fairlead_api::{ClusterId, ClusterUid, TenantId};
use fairlead_certs::{CertsError, Registration};
use fairlead_store::{
    Actor, Draft, Refusal, Store, StoreError,
    model::{Binding, Cluster, hex},
};
use time::OffsetDateTime;

/// An authentic token, and the key that spends it.
#[derive(Debug, Clone)]
pub struct TokenClaim {
    /// Cluster named by the token.
    pub cluster: ClusterId,
    /// Registration of the cluster; a token does not outlive it.
    pub registration: Registration,
    /// Generation of the token; a newer one voids it.
    pub generation: i64,
    /// Expiry encoded in the token.
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spends it.
    pub fingerprint: [u8; 32],
    /// UID of the enrolling Kubernetes cluster, if known.
    pub uid: Option<ClusterUid>,
}

/// A rejected bootstrap token.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    /// No bootstrap token of the cluster's current generation.
    #[error("unknown token, or replaced by a newer one")]
    Unknown,
    /// Valid signature, past its expiry.
    #[error("the token has expired")]
    Expired,
    /// Single use: spent for a different public key.
    #[error("the token was spent by another key")]
    Spent,
    /// Nothing is spent if signing fails.
    #[error("signing the certificate failed")]
    Sign(#[source] CertsError),
    /// Nothing is spent if the store fails.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl Refusal for SpendError {}

/// Result of spending a token.
#[derive(Debug)]
pub struct Enrolled<T> {
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Output of the signing closure.
    pub signed: T,
    /// True if the same key spent the token before: its first response was lost.
    pub again: bool,
}

/// Spends a token and signs, atomically. The same key may repeat the call until the token expires,
/// because its first response may be lost. The enrolling Kubernetes cluster becomes the bound one.
///
/// # Errors
/// [`SpendError`]; nothing has changed then.
pub async fn spend<T, Sign>(
    store: &Store,
    claim: TokenClaim,
    now: OffsetDateTime,
    sign: Sign,
) -> Result<Enrolled<T>, SpendError>
where
    T: Send + 'static,
    Sign: Fn(&Cluster) -> Result<T, CertsError> + Send + 'static,
{
    let actor = Actor::Agent(claim.cluster.clone());
    let decide = move |draft: &mut Draft| {
        let id = &claim.cluster;
        let cluster = draft.cluster(id).cloned().ok_or(SpendError::Unknown)?;
        let again = may_spend(&cluster.value.binding, &claim, now)?;
        let signed = sign(&cluster.value).map_err(SpendError::Sign)?;
        if !again {
            draft.amend_cluster(id, |cluster| {
                let binding = &mut cluster.binding;
                let key = hex::encode(&claim.fingerprint);
                binding.bootstrap.spent_by = Some(key.clone());
                binding.agent_key = Some(key);
                binding.ca = None;
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

/// True if this key has spent the token already.
pub(super) fn may_spend(
    binding: &Binding,
    claim: &TokenClaim,
    now: OffsetDateTime,
) -> Result<bool, SpendError> {
    let current = &binding.bootstrap;
    let is_current = (binding.registration, current.generation, current.expires)
        == (claim.registration, claim.generation, claim.expires);
    if !is_current || current.revoked {
        return Err(SpendError::Unknown);
    }
    if now >= current.expires {
        return Err(SpendError::Expired);
    }
    match &current.spent_by {
        None => Ok(false),
        // Unless the key was revoked or replaced since.
        Some(by)
            if *by == hex::encode(&claim.fingerprint) && binding.agent_key.as_ref() == Some(by) =>
        {
            Ok(true)
        }
        Some(_) => Err(SpendError::Spent),
    }
}
