//! Tests of `supervisor`.

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
