//! Outgoing body: polled from its source while there is capacity, framed, and written.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::Body as HttpBody;

use crate::{
    body::{Body, BodyError},
    framing::BodyEncoder,
    gather::Gather,
    outgoing::Outgoing,
};

pub(crate) struct Sending<B = Body> {
    body: B,
    encoder: BodyEncoder,
    gather: Option<Gather>,
}

/// Progress of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The body has ended, and its end is queued.
    Done,
    /// The output queue is full.
    Full,
    /// The source has no data at present.
    Waiting,
}

impl<B> Sending<B>
where
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    /// Body of a request, or of a response that was batched before. It is not batched, because its sender waits for capacity: batching would
    /// halve the rate over a fast path.
    pub(crate) fn new(body: B, encoder: BodyEncoder) -> Self {
        Sending {
            body,
            encoder,
            gather: None,
        }
    }

    /// Body of a response, which may be a LIST: batched.
    pub(crate) fn gathering(body: B, encoder: BodyEncoder) -> Self {
        Sending {
            gather: Some(Gather::default()),
            ..Sending::new(body, encoder)
        }
    }

    /// True without a body.
    pub(crate) fn is_done(&self) -> bool {
        self.encoder == BodyEncoder::Nothing
    }

    /// Polls the source and queues its data.
    ///
    /// # Errors
    ///
    /// Those of the source, or a length other than announced.
    pub(crate) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Result<Filled, BodyError> {
        while !self.encoder.is_full() {
            if out.is_full() {
                return Ok(Filled::Full);
            }
            if let Some(gather) = &mut self.gather
                && gather.poll(cx).is_pending()
            {
                return Ok(Filled::Waiting);
            }
            match Pin::new(&mut self.body).poll_frame(cx)? {
                Poll::Pending => {
                    if let Some(gather) = &mut self.gather {
                        gather.waits(cx);
                    }
                    return Ok(Filled::Waiting);
                }
                Poll::Ready(None) => self.encoder.end(out)?,
                Poll::Ready(Some(frame)) => {
                    match frame.into_data() {
                        Ok(data) => {
                            if let Some(gather) = &mut self.gather {
                                gather.came(data.len());
                            }
                            self.encoder.data(data, out)?;
                        }
                        Err(frame) => {
                            if let Some(trailers) = frame.trailers_ref() {
                                self.encoder.trailers(trailers, out);
                            }
                        }
                    }
                    if self.body.is_end_stream() {
                        self.encoder.end(out)?;
                    }
                }
            }
        }
        self.encoder = BodyEncoder::Nothing;
        Ok(Filled::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;

    const PIECE_BYTES: usize = 16 * 1024;
    const PIECE_COUNT: u64 = 64;

    /// A body without data after each piece, and with the next piece at once.
    fn in_pieces() -> Body {
        let mut left = 2 * PIECE_COUNT;
        let pieces = futures_util::stream::poll_fn(move |cx| {
            left = left.saturating_sub(1);
            cx.waker().wake_by_ref();
            match (left, left % 2) {
                (0, _) => Poll::Ready(None),
                (_, 0) => Poll::Pending,
                _ => {
                    let piece = Frame::data(Bytes::from_static(&[0; PIECE_BYTES]));
                    Poll::Ready(Some(Ok::<_, BodyError>(piece)))
                }
            }
        });
        Body::new(StreamBody::new(pieces))
    }

    /// Time until everything is sent to a peer without limits.
    async fn takes(mut sending: Sending) -> Duration {
        let start = Instant::now();
        let mut out = Outgoing::default();
        poll_fn(|cx| {
            loop {
                let filled = sending.fill(cx, &mut out).unwrap();
                out.advance(out.len());
                match filled {
                    Filled::Done => return Poll::Ready(()),
                    Filled::Full => {}
                    Filled::Waiting => return Poll::Pending,
                }
            }
        })
        .await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn response_in_pieces_is_batched_and_a_request_is_not() {
        let length = || BodyEncoder::Length(PIECE_COUNT * PIECE_BYTES as u64);
        assert!(takes(Sending::gathering(in_pieces(), length())).await > Duration::ZERO);
        let request = Sending::new(in_pieces(), length());
        assert_eq!(takes(request).await, Duration::ZERO);
    }
}
