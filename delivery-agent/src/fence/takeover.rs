//! End of earlier attempts.

use std::{collections::BTreeSet, time::Duration};

use fairlead_api::{BundleId, Code};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::info;

use super::{
    EarlierAttempts, Fences,
    account::{AccountName, DELIVERY_NAMESPACE},
    failure,
    lock::{self, LOCK_LABEL},
};
use crate::{
    engine::{FailureClass, RunFailure},
    journal::PendingRun,
    kube::{KubeError, Propagation},
    process::ProcessIdentity,
};

/// Waits after a lock is gone.
#[derive(Debug, Clone, Copy)]
pub struct FenceWaits {
    /// 10 s until the token is refused, and 34 s for a request that was accepted.
    pub unknown_process: Duration,
    /// If the process is dead: a closed connection ends its request.
    pub dead_process: Duration,
    /// Longest wait for a lock with a finalizer; then the deployment waits, and others go on.
    pub gone: Duration,
}

impl Default for FenceWaits {
    fn default() -> Self {
        Self {
            unknown_process: Duration::from_secs(45),
            dead_process: Duration::from_secs(11),
            gone: Duration::from_secs(20),
        }
    }
}

/// Interval of reads until a lock is gone.
const GONE_POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn take_over(
    fences: &Fences,
    bundle: &BundleId,
    account: Option<&AccountName>,
    earlier: EarlierAttempts<'_>,
) -> Result<(), RunFailure> {
    let EarlierAttempts { pending, may_live } = earlier;
    let wait_for = |other: Option<&ProcessIdentity>| match other {
        Some(other) if fences.process.knows_end_of(other) => fences.waits.dead_process,
        _ => fences.waits.unknown_process,
    };
    let mut wait = pending.map(|pending| wait_for(Some(&pending.process)));
    if may_live {
        wait = Some(fences.waits.unknown_process);
    }
    let mut locks = BTreeSet::from([(DELIVERY_NAMESPACE.to_owned(), lock::name_of(bundle))]);
    if let Some(PendingRun { lock, .. }) = pending {
        locks.insert((lock.namespace.clone(), lock.name.clone()));
    }
    if let Some(account) = account.filter(|it| !it.is_local()) {
        locks.extend(lock::slots().map(|slot| (account.namespace().to_owned(), slot)));
    }
    for (namespace, name) in locks {
        let found = end(fences, bundle, &namespace, &name).await?;
        if let Some(lock) = found {
            wait = wait.max(Some(wait_for(lock::process_of(&lock).as_ref())));
        }
    }
    if let Some(wait) = wait {
        info!(%bundle, seconds = wait.as_secs(), "earlier run is fenced");
        sleep(wait).await;
    }
    Ok(())
}

/// Deletes a lock of the bundle, and waits until it is gone. Returns the lock that was there.
async fn end(
    fences: &Fences,
    bundle: &BundleId,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, RunFailure> {
    let client = &fences.client;
    let path = lock::path(namespace, name);
    let subject = format!("Secret {namespace}/{name}");
    let read = |error: KubeError| failure(&error, &subject);
    let Some(found) = client.get_metadata(&path).await.map_err(read)? else {
        return Ok(None);
    };
    // A slot may belong to another bundle meanwhile.
    let label = found
        .pointer("/metadata/labels")
        .and_then(|it| it.get(LOCK_LABEL));
    if label.and_then(Value::as_str) != Some(bundle.as_str()) {
        return Ok(None);
    }
    let uid = found.pointer("/metadata/uid").and_then(Value::as_str);
    let deleted = client.delete(&path, uid, Propagation::Background).await;
    match deleted {
        // Another UID: the lock is gone.
        Ok(_) | Err(KubeError::Status { status: 409, .. }) => {}
        Err(error) => return Err(read(error)),
    }
    let deadline = Instant::now() + fences.waits.gone;
    loop {
        let live = client.get_metadata(&path).await.map_err(read)?;
        let is_same = |live: &Value| live.pointer("/metadata/uid").and_then(Value::as_str) == uid;
        let Some(live) = live.filter(is_same) else {
            return Ok(Some(found));
        };
        if Instant::now() >= deadline {
            let finalizers = live.pointer("/metadata/finalizers");
            let finalizers = finalizers.map_or_else(String::new, ToString::to_string);
            let sentence = format!(
                "waits until {subject} of an earlier run is gone; finalizers: {finalizers}"
            );
            let class = FailureClass::Waiting;
            return Err(RunFailure::new(class, Code::RunFenced, sentence));
        }
        sleep(GONE_POLL_INTERVAL).await;
    }
}
