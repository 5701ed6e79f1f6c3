//! Fences: each attempt of a run acts with a token that is bound to a Secret of its own.
//!
//! The Secret is the lock of the deployment. Without it the API server refuses the token within 10 s, and a request that
//! it accepted before ends within 34 s more.

mod account;
mod lock;
mod takeover;
mod token;

use std::sync::Arc;

use fairlead_api::{BundleId, Code, RunId};
use tokio::task::JoinHandle;

pub use self::{
    account::{AccountName, DELIVERY_NAMESPACE},
    lock::LockPlace,
    takeover::FenceWaits,
    token::RunToken,
};
use crate::{
    engine::{FailureClass, RunFailure},
    journal::PendingRun,
    kube::{KubeClient, KubeError, Propagation},
    process::ProcessIdentity,
};

/// Maker of fences. Clones share the client.
#[derive(Clone)]
pub struct Fences {
    client: KubeClient,
    process: Arc<ProcessIdentity>,
    waits: FenceWaits,
}

/// Attempt that a fence is for.
#[derive(Debug, Clone, Copy)]
pub struct FencedAttempt<'a> {
    /// The bundle.
    pub bundle: &'a BundleId,
    /// The run.
    pub run: &'a RunId,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Knowledge about earlier attempts of a deployment.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarlierAttempts<'a> {
    /// The attempt in the journal.
    pub pending: Option<&'a PendingRun>,
    /// True if a program may still send requests, although its agent is dead.
    pub may_live: bool,
}

/// Fence of one attempt. End it with [`Fences::release`]; a dropped one stays until the next attempt takes it over.
pub struct RunFence {
    /// Place of the Secret.
    pub lock: LockPlace,
    /// Client with the token.
    pub kube: KubeClient,
    /// The token.
    pub token: RunToken,
    /// User of the token.
    pub user: String,
    renewal: JoinHandle<()>,
}

impl Drop for RunFence {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

impl Fences {
    /// Fences of this process; `client` has the agent's own credential.
    #[must_use]
    pub fn new(client: KubeClient, process: Arc<ProcessIdentity>) -> Self {
        Self {
            client,
            process,
            waits: FenceWaits::default(),
        }
    }

    /// The same fences with other waits, for tests.
    #[must_use]
    pub fn with_waits(mut self, waits: FenceWaits) -> Self {
        self.waits = waits;
        self
    }

    /// This process.
    #[must_use]
    pub fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    /// Ends the effects of earlier attempts: deletes their locks, and waits until no request of theirs can be accepted.
    /// `account`: that of the next attempt.
    ///
    /// # Errors
    /// The API server is away, or a lock has a finalizer.
    pub async fn take_over(
        &self,
        bundle: &BundleId,
        account: Option<&AccountName>,
        earlier: EarlierAttempts<'_>,
    ) -> Result<(), RunFailure> {
        takeover::take_over(self, bundle, account, earlier).await
    }

    /// Makes lock and token of an attempt. Call [`Fences::take_over`] before.
    ///
    /// # Errors
    /// The account is missing or not allowed, all slots of its namespace are taken, or the API server is away.
    pub async fn acquire(
        &self,
        attempt: FencedAttempt<'_>,
        account: &AccountName,
    ) -> Result<RunFence, RunFailure> {
        let lock = lock::acquire(&self.client, &self.process, attempt, account).await?;
        let made = token::request(&self.client, account, Some(&lock)).await;
        let first = match made {
            Ok(first) => first,
            Err(failure) => {
                // The lock has no token, so that nothing is to be waited for.
                let _ = self.delete(&lock).await;
                return Err(failure);
            }
        };
        let bearer = first.bearer()?;
        let user_agent = format!("fairlead-delivery/{}", attempt.run);
        let kube = self.client.with_token(bearer, &user_agent);
        let (sender, token) = RunToken::new(&first);
        let renewal = token::Renewal {
            client: self.client.clone(),
            run: kube.clone(),
            account: account.clone(),
            lock: lock.clone(),
            sender,
        };
        Ok(RunFence {
            user: account.user(),
            kube,
            token,
            renewal: tokio::spawn(renewal.run()),
            lock,
        })
    }

    /// Ends a fence. The token is refused from 10 s later on.
    ///
    /// # Errors
    /// The API server is away. The next attempt takes the lock over.
    pub async fn release(&self, fence: RunFence) -> Result<(), KubeError> {
        fence.renewal.abort();
        self.delete(&fence.lock).await
    }

    /// Client that observes objects between runs. In the namespace of deliveries its token is bound to the journal.
    ///
    /// # Errors
    /// As for [`Fences::acquire`].
    pub async fn observer(
        &self,
        bundle: &BundleId,
        account: &AccountName,
        journal_uid: &str,
    ) -> Result<KubeClient, RunFailure> {
        let lock = account.is_local().then(|| LockPlace {
            namespace: DELIVERY_NAMESPACE.to_owned(),
            name: crate::journal::secret_name(bundle),
            uid: journal_uid.to_owned(),
        });
        let token = token::request(&self.client, account, lock.as_ref()).await?;
        let bearer = token.bearer()?;
        let user_agent = format!("fairlead-delivery/{bundle}");
        Ok(self.client.with_token(bearer, &user_agent))
    }

    async fn delete(&self, lock: &LockPlace) -> Result<(), KubeError> {
        let deleted = self
            .client
            .delete(&lock.path(), Some(&lock.uid), Propagation::Background)
            .await;
        match deleted {
            Ok(_) => Ok(()),
            // Another Secret with this name: ours is gone.
            Err(KubeError::Status { status: 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Failure of a request about locks and tokens.
fn failure(error: &KubeError, subject: &str) -> RunFailure {
    match error {
        error if error.is_unavailable() => RunFailure::of_kube(error),
        error => RunFailure::new(
            FailureClass::Retry,
            Code::AccountUnusable,
            format!("{subject}: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests;
