//! `kubectl exec` in the real cluster: each runs for some seconds, and is started again at its end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::Kubectl;
use tokio::time::sleep;

use crate::tally::PhaseTally;

/// Number of concurrent calls.
pub(crate) const EXEC_COUNT: usize = 20;
/// Length of a call, in seconds: less than the drain timeout of the hubs.
const LENGTH_SECONDS: usize = 25;
/// Calls begin one after the other, because each start takes processor time.
const START_INTERVAL: Duration = Duration::from_millis(500);
/// Pause before the next call.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Calls until it is stopped.
pub(crate) async fn run(
    kubectl: Kubectl,
    number: usize,
    tally: Arc<PhaseTally>,
    stop: Arc<AtomicBool>,
) {
    sleep(START_INTERVAL * u32::try_from(number).unwrap_or_default()).await;
    while !stop.load(Ordering::Relaxed) {
        let cut = call(&kubectl).await.err();
        tally.exec(cut.map(|error| format!("{error:#}")));
        sleep(RETRY_DELAY).await;
    }
}

async fn call(kubectl: &Kubectl) -> anyhow::Result<()> {
    let script = format!(
        "i=0; while [ $i -lt {LENGTH_SECONDS} ]; do echo tick $i; i=$((i+1)); sleep 1; done; echo end"
    );
    let mut exec = kubectl
        .clone()
        .args(["exec", "deploy/demo", "--", "sh", "-c", &script])
        .spawn()?;
    let mut lines = Vec::new();
    while let Some(line) = exec.next_line().await? {
        lines.push(line);
    }
    let status = exec.wait().await?;
    let stderr = exec.stderr();
    // The last line has the cause, those before it each stream.
    let cause = stderr.trim().lines().last().unwrap_or_default();
    let last = lines.last().context("no output");
    let last = last.with_context(|| format!("{status}: {cause}"))?;
    ensure!(
        status.success() && last == "end" && lines.len() == LENGTH_SECONDS + 1,
        "{status} after {} lines: {cause}",
        lines.len()
    );
    Ok(())
}
