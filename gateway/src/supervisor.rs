//! Supervisor of the modules' background work. A panic there is a bug of ours: it is logged and counted, and the work
//! restarts after a back-off. Without a restart the hub would serve outdated data.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_runtime::{Process, backoff::ExponentialDelay};
use fairlead_seam::Module;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tracing::error;

use crate::{http::panic::message, metrics::Metrics};

/// Delay after the first panic; it doubles with each further one.
const RESTART_DELAY_MIN: Duration = Duration::from_secs(1);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(60);

/// Runs the work of a module until the process drains.
pub(crate) async fn supervise(module: Arc<dyn Module>, process: Process, metrics: Arc<Metrics>) {
    let mut backoff = ExponentialDelay::new(RESTART_DELAY_MIN, RESTART_DELAY_MAX);
    loop {
        let started = Instant::now();
        let run = AssertUnwindSafe(module.run(process.clone())).catch_unwind();
        let Err(panic) = run.await else { return };
        if started.elapsed() > RESTART_DELAY_MAX {
            backoff.reset();
        }
        let delay = backoff.next_delay();
        metrics.module_panicked(module.name());
        error!(
            module = module.name(),
            panic = message(panic.as_ref()),
            delay_seconds = delay.as_secs(),
            "module panicked, restarting it"
        );
        tokio::select! {
            () = process.draining() => return,
            () = sleep(delay) => {}
        }
    }
}

#[cfg(test)]
mod tests;
