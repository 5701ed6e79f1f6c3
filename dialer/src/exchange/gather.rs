//! When a source is asked again that brings a large body in small pieces: a Kubernetes API server writes a LIST a few
//! kilobytes at a time, and each piece that leaves by itself costs the way to the client a wake-up of every process on it.
//! So what flows is left to gather for a moment. A body that pauses, as a watch does, is never kept waiting.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// What has come without a pause before anything is left to gather.
const FLOWING: usize = 256 * 1024;
/// A source that has nothing for so long has paused.
const PAUSE: Duration = Duration::from_millis(20);
/// A turn that brings so much is large enough.
const ENOUGH: usize = 64 * 1024;
/// How long a flow is left to gather.
const REST: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(super) struct Gather {
    /// What has come since the last pause.
    flowed: usize,
    /// Of it, what this turn has brought.
    turn: usize,
    /// When the source had nothing more.
    last: Option<Instant>,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Gather {
    /// Ready when the source may be asked.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        Poll::Ready(())
    }

    pub(super) fn came(&mut self, bytes: usize) {
        self.turn += bytes;
    }

    /// The source has nothing more at present, and wakes the task of `cx` when it has. So does the end of a rest.
    pub(super) fn waits(&mut self, cx: &mut Context<'_>) {
        let turn = std::mem::take(&mut self.turn);
        if turn == 0 {
            return;
        }
        let now = Instant::now();
        let last = self.last.replace(now);
        let paused = last.is_some_and(|last| now - last > PAUSE);
        self.flowed = if paused { turn } else { self.flowed + turn };
        if self.flowed >= FLOWING && turn < ENOUGH {
            self.rest = Some(Box::pin(sleep(REST)));
            let _ = self.poll(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    const PIECE: usize = 4096;

    /// How long the source is left alone after it has brought a piece.
    async fn after_a_piece(gather: &mut Gather, bytes: usize) -> Duration {
        let began = Instant::now();
        gather.came(bytes);
        poll_fn(|cx| {
            gather.waits(cx);
            gather.poll(cx)
        })
        .await;
        began.elapsed()
    }

    async fn flowing() -> Gather {
        let mut gather = Gather::default();
        for _ in 1..FLOWING / PIECE {
            assert_eq!(after_a_piece(&mut gather, PIECE).await, Duration::ZERO);
        }
        gather
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_in_small_pieces_is_left_to_gather() {
        let mut gather = flowing().await;
        for _ in 0..3 {
            assert_eq!(after_a_piece(&mut gather, PIECE).await, REST);
        }
        assert_eq!(after_a_piece(&mut gather, ENOUGH).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_pauses_is_not_kept_waiting() {
        let mut gather = flowing().await;
        assert_eq!(after_a_piece(&mut gather, PIECE).await, REST);
        advance(PAUSE + Duration::from_millis(1)).await;
        assert_eq!(after_a_piece(&mut gather, PIECE).await, Duration::ZERO);
    }
}
