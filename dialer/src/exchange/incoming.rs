//! What was read of a wire and not yet used: the piece that a head or a body goes on in, and the part of a head that has
//! come so far.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::{chunked::Piece, error::HttpError, framing::Decoder, head, wire::Wire};

#[derive(Default)]
pub(super) struct Incoming {
    rest: Bytes,
    /// Of a head that came in pieces; its end was looked for up to its length.
    partial: BytesMut,
    heard: bool,
}

impl Incoming {
    /// Whether anything came.
    pub(super) fn heard(&self) -> bool {
        self.heard
    }

    /// Whether nothing lies unread here.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.partial.is_empty()
    }

    /// Whether a head has begun and not ended.
    pub(super) fn is_in_head(&self) -> bool {
        !self.partial.is_empty()
    }

    pub(super) fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.rest)
    }

    /// One piece more; `false` at the peer's end. Asked for only when there is nothing left.
    pub(super) fn poll_fill<W: Wire>(
        &mut self,
        wire: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, HttpError>> {
        while self.rest.is_empty() {
            match ready!(wire.poll_read(cx))? {
                None => return Poll::Ready(Ok(false)),
                Some(piece) => self.rest = piece,
            }
        }
        self.heard = true;
        Poll::Ready(Ok(true))
    }

    /// The next head, whole; `None` if the peer has ended instead.
    pub(super) fn poll_head<W: Wire>(
        &mut self,
        wire: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, HttpError>> {
        loop {
            if !ready!(self.poll_fill(wire, cx))? {
                let ended = self.partial.is_empty().then_some(None);
                return Poll::Ready(ended.ok_or(HttpError::Cut));
            }
            if let Some(head) = self.head()? {
                return Poll::Ready(Ok(Some(head)));
            }
        }
    }

    fn head(&mut self) -> Result<Option<Bytes>, HttpError> {
        if self.partial.is_empty() {
            if let Some(end) = head::end(&self.rest, 0)? {
                return Ok(Some(self.rest.split_to(end)));
            }
            let begun = self.take_rest();
            self.partial.extend_from_slice(&begun);
            return Ok(None);
        }
        let had = self.partial.len();
        let rest = self.take_rest();
        self.partial.extend_from_slice(&rest);
        let Some(end) = head::end(&self.partial, had)? else {
            return Ok(None);
        };
        self.rest = rest.slice(end - had..);
        self.partial.truncate(end);
        Ok(Some(std::mem::take(&mut self.partial).freeze()))
    }

    /// The next piece of a body; never [`Piece::More`].
    pub(super) fn poll_body<W: Wire>(
        &mut self,
        wire: &mut W,
        decoder: &mut Decoder,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Piece, HttpError>> {
        loop {
            match decoder.next(&mut self.rest) {
                Ok(Piece::More) => {}
                Ok(piece) => return Poll::Ready(Ok(piece)),
                Err(error) => {
                    // Nothing behind this is ever read as if it were in its place.
                    if let HttpError::Malformed(reason) = error {
                        *decoder = Decoder::Broken(reason);
                    }
                    return Poll::Ready(Err(error));
                }
            }
            if !ready!(self.poll_fill(wire, cx))? {
                decoder.end()?;
            }
        }
    }
}
