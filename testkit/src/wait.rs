//! Waiting with a deadline, and the settings of a test run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, timeout};

/// Deadline of every wait in a test. No test waits for it to pass.
pub const TEST_DEADLINE: Duration = Duration::from_secs(20);

/// Awaits a future for [`TEST_DEADLINE`] at most.
///
/// # Panics
/// It is not ready in time.
pub async fn soon<F: Future>(future: F) -> F::Output {
    timeout(TEST_DEADLINE, future)
        .await
        .expect("it takes too long")
}

/// Polls a condition that notifies nobody, for [`TEST_DEADLINE`] at most.
///
/// # Panics
/// It does not hold in time.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    const POLL_INTERVAL: Duration = Duration::from_millis(1);
    soon(async {
        while !holds().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
    .await;
}

/// Polls until there is an answer.
///
/// # Errors
/// No answer within `deadline`. The error names `what`.
pub async fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut answer: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    let end = Instant::now() + deadline;
    loop {
        // The last poll begins after the deadline: this process may have been stopped meanwhile.
        let is_last = Instant::now() >= end;
        if let Some(answer) = answer().await {
            return Ok(answer);
        }
        if is_last {
            bail!("not within {deadline:?}: {what}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Reads a setting of a test run, such as `FAIRLEAD_E2E_KILLS`; an empty one counts as absent.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the rigs have no configuration reader; their few settings are read here alone"
)]
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Folder of the binaries of this build, usually `target/debug`.
///
/// # Errors
/// The path of the running program is unknown.
pub fn build_folder() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the path of this program is unknown")?;
    let folder = test.parent().context("this program lies in no folder")?;
    // A test binary lies in `deps`, other binaries lie one level above.
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    Ok(above.unwrap_or(folder).to_owned())
}
