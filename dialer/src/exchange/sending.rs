//! A body on its way out: taken from its source as far as there is room, framed, and written.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http_body::Body as _;

use super::{Body, BodyError, framing::Encoder, gather::Gather, outgoing::Outgoing};

pub(super) struct Sending {
    body: Body,
    encoder: Encoder,
    gather: Gather,
}

/// How far the source has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The body has ended, and what ends it is in line.
    Done,
    /// There is no room for more.
    Full,
    /// The source has nothing at present.
    Waiting,
}

impl Sending {
    pub(super) fn new(body: Body, encoder: Encoder) -> Self {
        Sending {
            body,
            encoder,
            gather: Gather::default(),
        }
    }

    /// Whether there is nothing to send.
    pub(super) fn is_done(&self) -> bool {
        self.encoder == Encoder::Nothing
    }

    /// # Errors
    /// The source's own, or that it yields more or less than was said.
    pub(super) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Result<Filled, BodyError> {
        while !self.encoder.is_full() {
            if out.is_full() {
                return Ok(Filled::Full);
            }
            if self.gather.poll(cx).is_pending() {
                return Ok(Filled::Waiting);
            }
            match Pin::new(&mut self.body).poll_frame(cx)? {
                Poll::Pending => {
                    self.gather.waits(cx);
                    return Ok(Filled::Waiting);
                }
                Poll::Ready(None) => self.encoder.end(out)?,
                Poll::Ready(Some(frame)) => {
                    match frame.into_data() {
                        Ok(data) => {
                            self.gather.came(data.len());
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
        self.encoder = Encoder::Nothing;
        Ok(Filled::Done)
    }
}
