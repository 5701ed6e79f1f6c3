//! The life of the process: its tasks, its readiness, its end.
//!
//! SIGTERM or SIGINT start the drain: not ready, no new connections, running work may finish within the drain timeout.
//! A second signal ends the process at once.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prometheus::core::Collector;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{metrics::Registry, seldom::Seldom, service::ServiceManager, trim, workers::Workers};

/// Handle to the running process; clones share it.
#[derive(Clone, Default)]
pub struct Process {
    drain: CancellationToken,
    end: CancellationToken,
    tasks: TaskTracker,
    ready: Arc<AtomicBool>,
    registry: Registry,
    workers: Workers,
    service_manager: ServiceManager,
    last: Arc<Mutex<Vec<LastWork>>>,
}

/// Work after the drain.
type LastWork = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Process {
    /// A process on the caller's runtime alone.
    #[must_use]
    pub fn new() -> Self {
        Process::default()
    }

    /// A process spread over these cores.
    #[must_use]
    pub fn on(workers: Workers) -> Self {
        Process {
            workers,
            ..Process::default()
        }
    }

    /// The same process, with a service manager to notify of its start and its drain.
    #[must_use]
    pub fn with_service_manager(self, service_manager: ServiceManager) -> Self {
        Process {
            service_manager,
            ..self
        }
    }

    /// Notifies the service manager that the start is complete.
    pub fn started(&self) {
        self.service_manager.started();
    }

    /// The registry for the metrics of all parts of this process.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Registers a collector, unless it is registered already: restarted work keeps its metrics.
    ///
    /// # Errors
    /// Another metric has the same name.
    pub fn measure(&self, what: impl Collector + 'static) -> prometheus::Result<()> {
        match self.registry.register(Box::new(what)) {
            Err(prometheus::Error::AlreadyReg) => Ok(()),
            registered => registered,
        }
    }

    /// Runs a task of the process: the drain waits for it, and the end of the process cancels it.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(self.owned(task));
    }

    /// As [`Process::spawn`], on the next core in turn. Tasks spawned by the task stay on that core.
    pub fn spawn_spread<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(self.workers.next(), task);
    }

    /// As [`Process::spawn_spread`], on this core ([`crate::workers::core()`]).
    pub fn spawn_at<F>(&self, core: usize, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(self.workers.at(core), task);
    }

    fn spawn_on<F>(&self, core: Option<&Handle>, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match core {
            Some(core) => self.tasks.spawn_on(self.owned(task), core),
            None => self.tasks.spawn(self.owned(task)),
        };
    }

    fn owned<F>(&self, task: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let end = self.end.clone();
        // Boxed before it is moved into the future, which would reserve its size twice otherwise.
        let task = Box::pin(task);
        async move {
            tokio::select! {
                biased;
                () = task => {}
                () = Seldom::new(async move { end.cancelled().await }) => {}
            }
        }
    }

    /// Runs work after the drain, as the last spans of requests. It is left out if the process is ended at once.
    pub fn run_last<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.last_work().push(Box::pin(work));
    }

    fn last_work(&self) -> MutexGuard<'_, Vec<LastWork>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the process starts to drain.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Whether the drain has started.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Starts the drain, as a signal does.
    pub fn start_drain(&self) {
        self.set_ready(false);
        if !self.is_draining() {
            self.service_manager.stopping();
        }
        self.drain.cancel();
    }

    /// Sets whether `/readyz` reports ready.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Whether `/readyz` reports ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Drains: waits for all tasks up to `timeout`, then cancels the rest. True if all tasks ended by themselves.
    pub async fn finish(&self, timeout: Duration) -> bool {
        self.start_drain();
        let is_ended = self.end.is_cancelled();
        self.tasks.close();
        let clean = tokio::select! {
            () = self.tasks.wait() => true,
            () = tokio::time::sleep(timeout) => false,
            () = self.end.cancelled() => false,
        };
        if !clean {
            warn!(tasks = self.tasks.len(), "canceling unfinished tasks");
        }
        self.end.cancel();
        self.tasks.wait().await;
        let last = std::mem::take(&mut *self.last_work());
        for work in last {
            if !is_ended {
                work.await;
            }
        }
        clean
    }

    /// Turns SIGTERM and SIGINT into a drain, and a second one into the end.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    fn watch_signals(&self) -> std::io::Result<()> {
        let (mut term, mut int) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let process = self.clone();
        // Not in the tracker: it must outlive the drain that waits for the tracker.
        tokio::spawn(async move {
            for ends in [false, true] {
                let name = tokio::select! {
                    _ = term.recv() => "SIGTERM",
                    _ = int.recv() => "SIGINT",
                };
                if ends {
                    warn!(signal = name, "ending at once");
                    process.end.cancel();
                } else {
                    info!(signal = name, "draining");
                    process.start_drain();
                }
            }
        });
        Ok(())
    }
}

/// Runs `main` until it returns, then drains for at most `drain_timeout`.
///
/// # Errors
/// The error of `main`, or that of installing the signal handlers.
pub async fn run<F, T, E>(process: Process, drain_timeout: Duration, main: F) -> Result<T, E>
where
    F: AsyncFnOnce(Process) -> Result<T, E>,
    E: From<std::io::Error>,
{
    process.watch_signals()?;
    let drains = process.clone();
    process.spawn(async move {
        tokio::select! {
            () = drains.draining() => {}
            () = trim::run() => {}
        }
    });
    let end = process.end.clone();
    let result = tokio::select! {
        result = main(process.clone()) => result,
        () = end.cancelled() => Err(E::from(std::io::Error::from(std::io::ErrorKind::Interrupted))),
    };
    process.finish(drain_timeout).await;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn drain_waits_for_tasks_and_then_cancels_them() {
        let process = Process::new();
        process.set_ready(true);
        let draining = process.clone();
        process.spawn(async move { draining.draining().await });
        assert!(
            process.finish(Duration::from_secs(5)).await,
            "a task that ends by itself is waited for"
        );
        assert!(!process.is_ready());

        let (done, mut end) = tokio::sync::oneshot::channel();
        let last = Process::new();
        last.run_last(async move { done.send(()).unwrap() });
        assert!(end.try_recv().is_err());
        last.finish(Duration::from_secs(5)).await;
        assert!(end.try_recv().is_ok(), "work after the drain");

        let stuck = Process::new();
        stuck.spawn(std::future::pending());
        assert!(
            !stuck.finish(Duration::from_secs(5)).await,
            "a stuck task is cut off"
        );
    }
}
