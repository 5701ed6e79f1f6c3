//! Timer of one HTTP/1 connection, for hyper's deadline of the next head.
//!
//! Each request moves that deadline. The timer stays where it is until it fires, and only then moves to the latest
//! deadline: so a request costs no timer.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use fairlead_runtime::Seldom;
use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, sleep_until};

/// Timer of one connection, which waits for one deadline at a time.
#[derive(Default)]
pub(crate) struct HeadTimer(Arc<Mutex<Option<ArmedTimer>>>);

struct ArmedTimer {
    due: Instant,
    timer: Seldom<tokio::time::Sleep>,
}

/// Wait for a deadline, with the timer of the connection.
struct HeadSleep {
    deadline: Instant,
    armed: Arc<Mutex<Option<ArmedTimer>>>,
}

impl HeadTimer {
    fn until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadSleep {
            deadline,
            armed: Arc::clone(&self.0),
        })
    }
}

#[expect(clippy::disallowed_types, reason = "hyper's trait has the type")]
impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.until(deadline.into())
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // One that is due earlier fires too early, and moves then.
            if armed.as_ref().is_some_and(|it| it.due > deadline) {
                *armed = None;
            }
            let current = armed.get_or_insert_with(|| ArmedTimer {
                due: deadline,
                timer: Seldom::new(sleep_until(deadline)),
            });
            ready!(Pin::new(&mut current.timer).poll(cx));
            let due = current.due;
            *armed = None;
            if due == deadline {
                return Poll::Ready(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    async fn is_pending(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_at_its_own_deadline() {
        let (timer, begin) = (HeadTimer::default(), Instant::now());
        for count in [10, 12, 30] {
            let mut abandoned = timer.until(begin + seconds(9));
            assert!(begin.elapsed() >= seconds(9) || is_pending(&mut abandoned).await);
            drop(abandoned);
            timer.until(begin + seconds(count)).await;
            // Timers of tokio have milliseconds.
            let late = begin.elapsed() - seconds(count);
            assert!(late <= Duration::from_millis(1), "{late:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn later_deadline_keeps_the_timer() {
        let (timer, begin) = (HeadTimer::default(), Instant::now());
        let due = |timer: &HeadTimer| timer.0.lock().unwrap().as_ref().map(|it| it.due);
        let mut first = timer.until(begin + seconds(1));
        assert!(is_pending(&mut first).await);
        drop(first);
        let mut second = timer.until(begin + seconds(5));
        assert!(is_pending(&mut second).await);
        assert_eq!(due(&timer), Some(begin + seconds(1)));
        tokio::time::advance(seconds(2)).await;
        assert!(is_pending(&mut second).await);
        assert_eq!(due(&timer), Some(begin + seconds(5)));
        tokio::time::advance(seconds(3)).await;
        assert!(!is_pending(&mut second).await);
    }

    #[tokio::test(start_paused = true)]
    async fn earlier_deadline_moves_the_timer() {
        let (timer, begin) = (HeadTimer::default(), Instant::now());
        let mut first = timer.until(begin + seconds(9));
        assert!(is_pending(&mut first).await);
        drop(first);
        timer.until(begin + seconds(1)).await;
        assert!(begin.elapsed() < seconds(2));
    }
}
