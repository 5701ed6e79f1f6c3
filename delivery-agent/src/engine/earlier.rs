//! End of earlier runs of a deployment: first their programs, then their locks.

use std::sync::Arc;

use fairlead_api::BundleId;

use super::{executor::Executor, failure::RunFailure};
use crate::{
    fence::{AccountName, EarlierAttempts, Fences},
    journal::JournalRecord,
};

/// Ends programs and locks of earlier runs, and waits until none of their requests can be accepted.
/// `account`: that of the next run. Without an executor nobody can end a program.
///
/// # Errors
/// The API server is away, or a lock has a finalizer.
pub(crate) async fn end_earlier_runs(
    fences: &Fences,
    executor: Option<&Arc<dyn Executor>>,
    bundle: &BundleId,
    account: Option<&AccountName>,
    record: &JournalRecord,
) -> Result<(), RunFailure> {
    let earlier = EarlierAttempts {
        pending: record.pending.as_ref(),
        // Programs live apart from the agent, so that the end of its process proves nothing about them.
        may_live: !programs_ended(executor, record).await,
    };
    fences.take_over(bundle, account, earlier).await
}

/// Ends programs of earlier runs. False if one may still run.
pub(crate) async fn programs_ended(
    executor: Option<&Arc<dyn Executor>>,
    record: &JournalRecord,
) -> bool {
    match executor {
        Some(executor) => executor.end_programs(record).await,
        None => record.helm.step.is_none(),
    }
}
