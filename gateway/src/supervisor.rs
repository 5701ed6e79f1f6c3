//! Supervisor of the modules' background work. A panic there is a bug of ours: it is logged and counted, and the work
//! restarts after a back-off. Without a restart the hub would serve outdated data.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_runtime::{Process, backoff::ExponentialDelay};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tracing::error;

use crate::{http::panic::message, metrics::Metrics, seam::Module};

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
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;

    /// Panics a number of times, and records each start.
    struct PanickingModule {
        panics: usize,
        starts: Mutex<Vec<Instant>>,
    }

    #[async_trait]
    impl Module for PanickingModule {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        async fn run(&self, process: Process) {
            let times = {
                let mut starts = self.starts.lock().unwrap();
                starts.push(Instant::now());
                starts.len()
            };
            assert!(times > self.panics, "fallen {times} times");
            process.draining().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn panicking_module_restarts_with_back_off() {
        let process = Process::new();
        let metrics = Arc::new(Metrics::register(process.registry()).unwrap());
        let module = Arc::new(PanickingModule {
            panics: 8,
            starts: Mutex::default(),
        });
        let working = supervise(module.clone(), process.clone(), Arc::clone(&metrics));
        let drain = async {
            sleep(Duration::from_secs(3600)).await;
            process.start_drain();
        };
        tokio::join!(working, drain);
        let starts = module.starts.lock().unwrap();
        let delays = starts.windows(2).map(|two| (two[1] - two[0]).as_secs());
        assert_eq!(delays.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(metrics.module_panics("clumsy"), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn drain_interrupts_the_back_off() {
        let process = Process::new();
        let metrics = Arc::new(Metrics::register(process.registry()).unwrap());
        let module = Arc::new(PanickingModule {
            panics: usize::MAX,
            starts: Mutex::default(),
        });
        process.start_drain();
        supervise(module.clone(), process, metrics).await;
        assert_eq!(module.starts.lock().unwrap().len(), 1);
    }
}
