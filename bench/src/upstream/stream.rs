//! Bodies in pieces: a large one that yields to other answers, an endless one, numbered lines at a steady
//! pace, and events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    sync::watch,
    time::{self, Interval, MissedTickBehavior},
};

/// Size of an event, and of the small body of `/bytes/SIZE`.
pub(crate) const SMALL_BODY_BYTES: usize = 1024;
/// Interval of the lines of `/ticks`.
pub(super) const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes handed over at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a body that are sent before other answers have their turn. A loopback socket takes megabytes at
/// once, and the milliseconds of sealing them would delay the measured answers.
const YIELD_AFTER_BYTES: usize = 128 * 1024;
/// Digits of the time in an event.
const TIME_DIGITS: usize = 20;

pub(crate) enum UpstreamBody {
    Large { rest: Bytes, waits: bool },
    Endless(Bytes),
    Ticks { clock: Interval, next: u64 },
    Events(BoxStream<'static, Bytes>),
}

impl UpstreamBody {
    pub(super) fn large(body: Bytes) -> Self {
        Self::Large {
            rest: body,
            waits: false,
        }
    }

    pub(super) fn endless(from: Bytes) -> Self {
        Self::Endless(from.slice(..PIECE_BYTES.min(from.len())))
    }

    pub(super) fn ticks() -> Self {
        let mut clock = time::interval(TICK_INTERVAL);
        // A line that waited for its reader carries its due time, so no line is skipped.
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self::Ticks { clock, next: 0 }
    }

    pub(super) fn events(mut last: watch::Receiver<Bytes>) -> Self {
        last.mark_unchanged();
        let later = stream::unfold(last, async |mut last| {
            last.changed().await.ok()?;
            let event = last.borrow_and_update().clone();
            Some((event, last))
        });
        // The first line confirms that the watch receives all later events.
        Self::Events(stream::once(async { event() }).chain(later).boxed())
    }
}

/// An event: a line of 1 KiB that begins with the time.
pub(super) fn event() -> Bytes {
    let mut line = format!("{:0TIME_DIGITS$}", nanos()).into_bytes();
    line.resize(SMALL_BODY_BYTES - 1, b' ');
    line.push(b'\n');
    line.into()
}

/// Age of the event in this line; `None` if it is no event.
pub(crate) fn age(line: &[u8]) -> Option<Duration> {
    let stamp = std::str::from_utf8(line.get(..TIME_DIGITS)?).ok()?;
    let happened: u64 = stamp.parse().ok()?;
    Some(Duration::from_nanos(nanos().saturating_sub(happened)))
}

/// Time of the machine's clock, which all roles share, in nanoseconds.
fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Large { rest, .. } if rest.is_empty() => return Poll::Ready(None),
            Self::Large { rest, waits } => {
                *waits = !*waits;
                if !*waits {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                rest.split_to(YIELD_AFTER_BYTES.min(rest.len()))
            }
            Self::Endless(piece) => piece.clone(),
            Self::Ticks { clock, next } => {
                std::task::ready!(clock.poll_tick(context));
                let line = format!("{next}\n");
                *next += 1;
                Bytes::from(line)
            }
            Self::Events(events) => match std::task::ready!(events.poll_next_unpin(context)) {
                Some(event) => event,
                None => return Poll::Ready(None),
            },
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Large { rest, .. } if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Large { rest, .. } => SizeHint::with_exact(rest.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_carries_its_time() {
        let line = event();
        assert_eq!((line.len(), line.last()), (SMALL_BODY_BYTES, Some(&b'\n')));
        assert!(age(&line).unwrap() < Duration::from_secs(60));
        assert_eq!(age(b"short"), None);
    }

    #[tokio::test]
    async fn large_body_is_complete_and_yields_after_each_piece() {
        let mut body = UpstreamBody::large(Bytes::from(vec![b'f'; 2 * YIELD_AFTER_BYTES + 1]));
        assert_eq!(
            body.size_hint().exact(),
            Some(2 * YIELD_AFTER_BYTES as u64 + 1)
        );
        let (mut sizes, mut waits) = (Vec::new(), 0);
        std::future::poll_fn(|cx| {
            loop {
                match Pin::new(&mut body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => sizes.push(frame.into_data().unwrap().len()),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        waits += 1;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
        assert_eq!(
            (sizes, waits),
            (vec![YIELD_AFTER_BYTES, YIELD_AFTER_BYTES, 1], 2)
        );
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn watch_gets_a_line_at_once_and_one_per_event() {
        let sender = watch::Sender::new(event());
        let UpstreamBody::Events(mut events) = UpstreamBody::events(sender.subscribe()) else {
            panic!("events");
        };
        assert!(age(&events.next().await.unwrap()).is_some());
        sender.send_replace(Bytes::from_static(b"first\n"));
        assert_eq!(events.next().await.unwrap(), "first\n");
        sender.send_replace(Bytes::from_static(b"second\n"));
        assert_eq!(events.next().await.unwrap(), "second\n");
    }
}
