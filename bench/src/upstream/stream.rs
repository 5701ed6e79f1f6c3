//! Bodies without an end: bytes as fast as they are read, and numbered lines at a steady pace.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{self, Interval, MissedTickBehavior};

use super::TICK;

/// How much is handed over at once.
const PIECE: usize = 64 * 1024;

pub(crate) enum Stream {
    Endless(Bytes),
    Ticks { clock: Interval, next: u64 },
}

impl Stream {
    pub(super) fn endless(from: Bytes) -> Self {
        Self::Endless(from.slice(..PIECE.min(from.len())))
    }

    pub(super) fn ticks() -> Self {
        let mut clock = time::interval(TICK);
        // A line that waited for its reader says when it was due, so no line is left out.
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self::Ticks { clock, next: 0 }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Endless(piece) => piece.clone(),
            Self::Ticks { clock, next } => {
                std::task::ready!(clock.poll_tick(context));
                let line = format!("{next}\n");
                *next += 1;
                Bytes::from(line)
            }
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
