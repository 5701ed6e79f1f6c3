//! Tasks of an HTTP/2 connection: one per request, which ends with a reset of its stream if the client takes nothing, and
//! one per upgraded request, which ends with a reset if the hub breaks the stream off.
//!
//! hyper polls a body first and then waits for the stream's window, so only its task can notice a closed window. An upgraded
//! stream that is dropped would end cleanly, because hyper has no other message for it.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use fairlead_api::resources::RequestKind;
use fairlead_runtime::Process;
use pin_project_lite::pin_project;

use crate::{
    front::{
        record::RequestRecord,
        stalls::{StallWatch, Stalls},
    },
    metrics::{Metrics, RequestEnd},
};

/// Runs hyper's background futures of one connection as tasks of the process.
#[derive(Clone)]
pub(crate) struct StreamExecutor(Arc<ExecutorState>);

struct ExecutorState {
    process: Process,
    stalls: Stalls,
    stall_timeout: Duration,
    metrics: Arc<Metrics>,
    next: Mutex<Option<NextTask>>,
}

/// Meaning of the task that hyper starts next. All tasks of a connection run on one thread.
enum NextTask {
    /// That of the request that hyper has just passed to the service.
    Request(RequestRecord),
    /// That of the upgraded stream of the request whose task runs now.
    Upgrade(RequestRecord),
}

impl StreamExecutor {
    pub(crate) fn new(
        process: &Process,
        stalls: &Stalls,
        stall_timeout: Duration,
        metrics: &Arc<Metrics>,
    ) -> Self {
        StreamExecutor(Arc::new(ExecutorState {
            process: process.clone(),
            stalls: stalls.clone(),
            stall_timeout,
            metrics: Arc::clone(metrics),
            next: Mutex::default(),
        }))
    }

    /// Watches the task that hyper starts next.
    pub(crate) fn watch_next(&self, record: &RequestRecord) {
        *self.next() = Some(NextTask::Request(record.clone()));
    }

    /// Runs a step of the task of a request that may be upgraded.
    fn watch_upgrade<T>(&self, record: &RequestRecord, step: impl FnOnce() -> T) -> T {
        *self.next() = Some(NextTask::Upgrade(record.clone()));
        let done = step();
        self.next().take();
        done
    }

    fn next(&self) -> MutexGuard<'_, Option<NextTask>> {
        self.0.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let next = self.next().take();
        let state = &self.0;
        match next {
            Some(NextTask::Request(record)) => state.process.spawn(StreamTask {
                task,
                watch: StallWatch::new(&state.stalls, record.connection(), state.stall_timeout),
                blocked_at: 0,
                record,
                executor: self.clone(),
            }),
            Some(NextTask::Upgrade(record)) => state.process.spawn(UpgradeTask { task, record }),
            None => state.process.spawn(task),
        }
    }
}

pin_project! {
    /// Task of one stream. Its end without the end of the answer resets the stream.
    struct StreamTask<F> {
        #[pin]
        task: F,
        record: RequestRecord,
        watch: StallWatch,
        blocked_at: u32,
        executor: StreamExecutor,
    }
}

pin_project! {
    /// Task that sends the bytes of an upgraded stream. Its end before theirs resets the stream.
    struct UpgradeTask<F> {
        #[pin]
        task: F,
        record: RequestRecord,
    }
}

impl<F: Future<Output = ()>> Future for UpgradeTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // First, because the task would end the dropped stream cleanly.
        if this.record.flow().is_broken() {
            return Poll::Ready(());
        }
        this.task.poll(cx)
    }
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let task = this.task;
        let polled = match this.record.kind() {
            RequestKind::Tcp => this.executor.watch_upgrade(this.record, || task.poll(cx)),
            _ => task.poll(cx),
        };
        if polled.is_ready() {
            return Poll::Ready(());
        }
        match this.record.flow().blocked() {
            None => {
                this.watch.progress();
                return Poll::Pending;
            }
            Some(count) if count != *this.blocked_at => {
                this.watch.progress();
                *this.blocked_at = count;
            }
            Some(_) => {}
        }
        let cause = ready!(this.watch.poll_stalled(cx));
        this.record.set_outcome(RequestEnd::Left);
        this.executor.0.metrics.stalled_reset(cause);
        Poll::Ready(())
    }
}
