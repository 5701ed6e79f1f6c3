//! Supervisor of the modules' background work. A panic there is a bug of ours: it is logged and counted, and the work
//! restarts after a back-off. Without a restart the hub would serve outdated data.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_runtime::{Process, backoff::ExponentialDelay};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tracing::error;

use crate::{http::panic::message, metrics::Metrics, seam::Module};

/// Delay after the first panic; it doubles with each further one.
const REST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Runs the work of a module until the process drains.
pub(crate) async fn work(module: Arc<dyn Module>, process: Process, metrics: Arc<Metrics>) {
    let mut backoff = ExponentialDelay::new(REST, LONGEST);
    loop {
        let began = Instant::now();
        let run = AssertUnwindSafe(module.run(process.clone())).catch_unwind();
        let Err(panic) = run.await else { return };
        if began.elapsed() > LONGEST {
            backoff.reset();
        }
        let rest = backoff.next_delay();
        metrics.module_panicked(module.name());
        error!(
            module = module.name(),
            panic = message(panic.as_ref()),
            rest_seconds = rest.as_secs(),
            "the work of a module panicked, and begins anew after a rest"
        );
        tokio::select! {
            () = process.draining() => return,
            () = sleep(rest) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;

    /// Panics a number of times, and records each start.
    struct Clumsy {
        falls: usize,
        begun: Mutex<Vec<Instant>>,
    }

    #[async_trait]
    impl Module for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        async fn run(&self, process: Process) {
            let times = {
                let mut begun = self.begun.lock().unwrap();
                begun.push(Instant::now());
                begun.len()
            };
            assert!(times > self.falls, "fallen {times} times");
            process.draining().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_work_of_a_module_that_panics_begins_anew_after_a_rest_that_grows() {
        let process = Process::new();
        let metrics = Arc::new(Metrics::register(process.registry()).unwrap());
        let clumsy = Arc::new(Clumsy {
            falls: 8,
            begun: Mutex::default(),
        });
        let working = work(clumsy.clone(), process.clone(), Arc::clone(&metrics));
        let drain = async {
            sleep(Duration::from_secs(3600)).await;
            process.start_drain();
        };
        tokio::join!(working, drain);
        let begun = clumsy.begun.lock().unwrap();
        let rests = begun.windows(2).map(|two| (two[1] - two[0]).as_secs());
        assert_eq!(rests.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(metrics.module_panics("clumsy"), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_drains_waits_for_no_rest() {
        let process = Process::new();
        let metrics = Arc::new(Metrics::register(process.registry()).unwrap());
        let clumsy = Arc::new(Clumsy {
            falls: usize::MAX,
            begun: Mutex::default(),
        });
        process.start_drain();
        work(clumsy.clone(), process, metrics).await;
        assert_eq!(clumsy.begun.lock().unwrap().len(), 1);
    }
}
