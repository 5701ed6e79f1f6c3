//! The rig of the end-to-end tests: a real Kubernetes, the real kubectl, the built `fairlead`.
//!
//! Nothing here mocks. Everything that is started ends with the test process, also when that is killed, and
//! every wait has a deadline.

pub mod admin;
pub mod fleet;
pub mod kube;
pub mod kubectl;
pub mod link;
pub mod netns;
pub mod pod;
mod postgres;
pub mod process;
pub mod pty;
pub mod raw;

mod spawner;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::Instant;

pub use admin::Metrics;
pub use fleet::{Hub, Joining, Site};
pub use kube::Cluster;
pub use kubectl::{Kubectl, Output, Running, Transport};
pub use netns::NetNs;
pub use pod::Pod;
pub use postgres::Postgres;
pub use process::{Launch, Process, Usage};
pub use pty::Terminal;
pub use raw::{End, Front};

/// Asks until there is an answer; the only place of the rig where time is waited for.
///
/// # Errors
/// There is none within `deadline`; the error says `what` was waited for.
pub async fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut answer: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    const REST: Duration = Duration::from_millis(20);
    let end = Instant::now() + deadline;
    loop {
        if let Some(answer) = answer().await {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("not within {deadline:?}: {what}");
        }
        tokio::time::sleep(REST).await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the rig has no configuration reader; its few settings are read here alone"
)]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A setting of a test run, as `FAIRLEAD_E2E_KILLS`, if it is set.
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    env(name)
}

/// The folder of the binaries of this build, `target/debug` as a rule: a test binary lies in its `deps`, others in itself.
pub(crate) fn build_folder() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("where is this program")?;
    let folder = test.parent().context("this program lies in no folder")?;
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    Ok(above.unwrap_or(folder).to_owned())
}
