//! Batching of large bodies that arrive in small pieces.
//!
//! A Kubernetes API server writes a LIST a few kilobytes at a time. Each piece would wake every
//! process on its way to the client, so a flowing body is polled less often. A body that pauses, as
//! a watch does, is never delayed.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Bytes without a pause after which batching starts.
const BATCH_AFTER_BYTES: usize = 256 * 1024;
/// Time without data that counts as a pause.
const PAUSE_MIN_TIME: Duration = Duration::from_millis(20);
/// Bytes per turn that need no batching.
const LARGE_TURN_BYTES: usize = 64 * 1024;
/// Delay of a batch.
const BATCH_DELAY: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct Gather {
    /// Bytes since the last pause.
    flowed: usize,
    /// Bytes in this turn.
    turn: usize,
    /// Time when the source last had no data.
    last: Option<Instant>,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Gather {
    /// Ready when the source may be polled.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        Poll::Ready(())
    }

    pub(crate) fn came(&mut self, bytes: usize) {
        self.turn += bytes;
    }

    /// Handles a source without data, which wakes the task of `cx` later. So does the end of a
    /// delay.
    pub(crate) fn waits(&mut self, cx: &mut Context<'_>) {
        let turn = std::mem::take(&mut self.turn);
        if turn == 0 {
            return;
        }
        let now = Instant::now();
        let last = self.last.replace(now);
        let paused = last.is_some_and(|last| now - last > PAUSE_MIN_TIME);
        self.flowed = if paused { turn } else { self.flowed + turn };
        if self.flowed >= BATCH_AFTER_BYTES && turn < LARGE_TURN_BYTES {
            self.rest = Some(Box::pin(sleep(BATCH_DELAY)));
            let _ = self.poll(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    const PIECE_BYTES: usize = 4096;

    /// Delay after the source has returned a piece.
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
        for _ in 1..BATCH_AFTER_BYTES / PIECE_BYTES {
            assert_eq!(
                after_a_piece(&mut gather, PIECE_BYTES).await,
                Duration::ZERO
            );
        }
        gather
    }

    #[tokio::test(start_paused = true)]
    async fn large_body_in_small_pieces_is_batched() {
        let mut gather = flowing().await;
        for _ in 0..3 {
            assert_eq!(after_a_piece(&mut gather, PIECE_BYTES).await, BATCH_DELAY);
        }
        assert_eq!(
            after_a_piece(&mut gather, LARGE_TURN_BYTES).await,
            Duration::ZERO
        );
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_pauses_is_not_delayed() {
        let mut gather = flowing().await;
        assert_eq!(after_a_piece(&mut gather, PIECE_BYTES).await, BATCH_DELAY);
        advance(PAUSE_MIN_TIME + Duration::from_millis(1)).await;
        assert_eq!(
            after_a_piece(&mut gather, PIECE_BYTES).await,
            Duration::ZERO
        );
    }
}
