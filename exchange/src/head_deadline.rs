//! Timer of one connection for the deadlines of its heads.
//!
//! Each request moves that deadline. The timer stays where it is until it fires, and only then moves to the latest deadline, so a
//! request costs no timer.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Default)]
pub(crate) struct HeadDeadline(Option<ArmedTimer>);

struct ArmedTimer {
    timer: Pin<Box<Sleep>>,
    /// The task that the timer wakes.
    waker: Waker,
}

impl HeadDeadline {
    /// Ready at `due` or later.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        // A timer that fires too late is of no use.
        let armed = self.0.take().filter(|it| it.timer.deadline() <= due);
        let armed = self.0.insert(armed.unwrap_or_else(|| ArmedTimer {
            timer: Box::pin(sleep_until(due)),
            waker: Waker::noop().clone(),
        }));
        loop {
            // A poll of the timer costs more than these two reads.
            if armed.waker.will_wake(cx.waker()) && !armed.timer.is_elapsed() {
                return Poll::Pending;
            }
            armed.waker.clone_from(cx.waker());
            ready!(armed.timer.as_mut().poll(cx));
            if armed.timer.deadline() >= due {
                return Poll::Ready(());
            }
            armed.timer.as_mut().reset(due);
            armed.waker = Waker::noop().clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use tokio::time::advance;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    async fn is_pending(deadline: &mut HeadDeadline, due: Instant) -> bool {
        poll_fn(|cx| Poll::Ready(deadline.poll(cx, due).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_at_its_own_deadline() {
        let (mut deadline, begin) = (HeadDeadline::default(), Instant::now());
        for count in [10, 12, 30] {
            assert!(is_pending(&mut deadline, begin + seconds(count)).await);
            poll_fn(|cx| deadline.poll(cx, begin + seconds(count))).await;
            // Timers of tokio have milliseconds.
            let late = begin.elapsed() - seconds(count);
            assert!(late <= Duration::from_millis(1), "{late:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn later_deadline_keeps_the_timer_until_it_fires() {
        let (mut deadline, begin) = (HeadDeadline::default(), Instant::now());
        let armed = |deadline: &HeadDeadline| deadline.0.as_ref().map(|it| it.timer.deadline());
        assert!(is_pending(&mut deadline, begin + seconds(1)).await);
        assert!(is_pending(&mut deadline, begin + seconds(5)).await);
        assert_eq!(armed(&deadline), Some(begin + seconds(1)));
        advance(seconds(2)).await;
        assert!(is_pending(&mut deadline, begin + seconds(5)).await);
        assert_eq!(armed(&deadline), Some(begin + seconds(5)));
        advance(seconds(3)).await;
        assert!(!is_pending(&mut deadline, begin + seconds(5)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn earlier_deadline_moves_the_timer() {
        let (mut deadline, begin) = (HeadDeadline::default(), Instant::now());
        assert!(is_pending(&mut deadline, begin + seconds(9)).await);
        poll_fn(|cx| deadline.poll(cx, begin + seconds(1))).await;
        assert!(begin.elapsed() < seconds(2));
    }
}
