//! Tasks of an HTTP/2 connection: one per request, which ends with a reset of its stream if the client takes nothing.
//!
//! hyper polls a body first and then waits for the stream's window, so only its task can notice a closed window.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

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
    /// Record of the request that hyper has just passed to the service. Its task is the next one.
    begun: Mutex<Option<RequestRecord>>,
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
            begun: Mutex::default(),
        }))
    }

    /// Watches the task that hyper starts next.
    pub(crate) fn watch_next(&self, record: &RequestRecord) {
        *self.begun() = Some(record.clone());
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, Option<RequestRecord>> {
        self.0.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let begun = self.begun().take();
        match begun {
            Some(record) => self.0.process.spawn(StreamTask {
                task,
                watch: StallWatch::new(&self.0.stalls, record.connection(), self.0.stall_timeout),
                blocked_at: 0,
                record,
                metrics: Arc::clone(&self.0.metrics),
            }),
            None => self.0.process.spawn(task),
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
        metrics: Arc<Metrics>,
    }
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.task.poll(cx).is_ready() {
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
        this.metrics.stalled_reset(cause);
        Poll::Ready(())
    }
}
