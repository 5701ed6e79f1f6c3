//! Futures that a busy task waits for, and that seldom complete.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// A future that is polled only after its own wake-up, however often its task runs.
pub struct Seldom<F> {
    inner: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
    /// Waker of the task in the signal.
    task: Option<Waker>,
}

struct Signal {
    is_woken: AtomicBool,
    /// Stays here after a wake-up, so that the task need not bring it again.
    task: Mutex<Option<Waker>>,
}

impl Signal {
    fn set_task(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        *task = Some(waker.clone());
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First the flag: a task that brings another waker meanwhile reads the flag afterwards.
        self.is_woken.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let task = task.clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<F> Seldom<F> {
    /// Wraps a future, in a box.
    #[must_use]
    pub fn new(inner: F) -> Self {
        let signal = Arc::new(Signal {
            is_woken: AtomicBool::new(true),
            task: Mutex::default(),
        });
        Seldom {
            inner: Box::pin(inner),
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            task: None,
        }
    }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this
            .task
            .as_ref()
            .is_some_and(|it| it.will_wake(cx.waker()))
        {
            this.signal.set_task(cx.waker());
            this.task = Some(cx.waker().clone());
        }
        if !this.signal.is_woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.signal.is_woken.store(false, Ordering::Release);
        this.inner
            .as_mut()
            .poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    use tokio::sync::Notify;

    use super::*;

    /// Completes after two notifications; counts its polls.
    async fn twice(notify: Arc<Notify>, polls: Arc<AtomicUsize>) {
        for _ in 0..2 {
            let mut notified = std::pin::pin!(notify.notified());
            poll_fn(|cx| {
                polls.fetch_add(1, Ordering::SeqCst);
                notified.as_mut().poll(cx)
            })
            .await;
        }
    }

    #[tokio::test]
    async fn future_is_polled_once_per_wake_up() {
        let (notify, polls) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let seldom = Seldom::new(twice(Arc::clone(&notify), Arc::clone(&polls)));
        let mut seldom = std::pin::pin!(seldom);
        for _ in 0..10 {
            let pending = poll_fn(|cx| Poll::Ready(seldom.as_mut().poll(cx).is_pending())).await;
            assert!(pending);
        }
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        notify.notify_one();
        assert!(poll_fn(|cx| Poll::Ready(seldom.as_mut().poll(cx).is_pending())).await);
        // The end of the first wait, and the begin of the second one.
        assert_eq!(polls.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn wake_up_reaches_the_task_that_polled_last() {
        let notify = Arc::new(Notify::new());
        let seldom = Box::pin(Seldom::new(twice(Arc::clone(&notify), Arc::default())));
        let mut seldom = seldom;
        assert!(poll_fn(|cx| Poll::Ready(seldom.as_mut().poll(cx).is_pending())).await);
        let task = tokio::spawn(seldom);
        for _ in 0..2 {
            tokio::task::yield_now().await;
            notify.notify_one();
        }
        task.await.unwrap();
    }
}
