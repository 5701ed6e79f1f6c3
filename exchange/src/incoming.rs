//! Unprocessed input of a transport: the current piece, and the beginning of a head.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    chunked::Piece,
    error::{HttpError, malformed},
    framing::BodyDecoder,
    head,
    policy::HeadForm,
    transport::Transport,
};

#[derive(Default)]
pub(crate) struct Incoming {
    rest: Bytes,
    /// A head that arrived in pieces, searched for its end up to its length.
    partial: BytesMut,
    heard: bool,
    form: HeadForm,
}

impl Incoming {
    pub(crate) fn new(form: HeadForm) -> Self {
        Incoming {
            form,
            ..Incoming::default()
        }
    }

    /// True once anything was received.
    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    /// True without unprocessed input.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.partial.is_empty()
    }

    /// True within an incomplete head.
    pub(crate) fn is_in_head(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Drops the unprocessed input; returns its length.
    pub(crate) fn discard(&mut self) -> usize {
        self.partial.clear();
        self.take_rest().len()
    }

    pub(crate) fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.rest)
    }

    /// Reads one more piece; `false` at the peer's end. Only for empty input.
    pub(crate) fn poll_fill<W: Transport>(
        &mut self,
        transport: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, HttpError>> {
        while self.rest.is_empty() {
            match ready!(transport.poll_read(cx))? {
                None => return Poll::Ready(Ok(false)),
                Some(piece) => self.rest = piece,
            }
        }
        self.heard = true;
        Poll::Ready(Ok(true))
    }

    /// Next complete head; `None` if the peer has ended instead.
    pub(crate) fn poll_head<W: Transport>(
        &mut self,
        transport: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, HttpError>> {
        loop {
            if !ready!(self.poll_fill(transport, cx))? {
                let ended = self.partial.is_empty().then_some(None);
                return Poll::Ready(ended.ok_or(HttpError::Cut));
            }
            if let Some(head) = self.head()? {
                return Poll::Ready(Ok(Some(head)));
            }
        }
    }

    fn head(&mut self) -> Result<Option<Bytes>, HttpError> {
        if self.form.is_of_client {
            self.skip_empty_lines();
        }
        if self.partial.is_empty() {
            if let Some(end) = head::end(&self.rest, 0, self.form.max_bytes)? {
                return Ok(Some(self.rest.split_to(end)));
            }
            let begun = self.take_rest();
            // Bytes of another protocol may have no line at all.
            if begun.first().is_some_and(|it| !is_visible(*it)) {
                return malformed("the first line is invalid");
            }
            self.partial.extend_from_slice(&begun);
            return Ok(None);
        }
        let had = self.partial.len();
        let rest = self.take_rest();
        self.partial.extend_from_slice(&rest);
        let Some(end) = head::end(&self.partial, had, self.form.max_bytes)? else {
            return Ok(None);
        };
        self.rest = rest.slice(end - had..);
        self.partial.truncate(end);
        Ok(Some(std::mem::take(&mut self.partial).freeze()))
    }

    /// Drops empty lines before a head (RFC 9112, section 2.2).
    fn skip_empty_lines(&mut self) {
        if self.partial == b"\r"[..] && self.rest.starts_with(b"\n") {
            self.partial.clear();
            self.rest.advance(1);
        }
        while self.partial.is_empty() && self.rest.starts_with(b"\r\n") {
            self.rest.advance(2);
        }
    }

    /// Next piece of a body; never [`Piece::More`].
    pub(crate) fn poll_body<W: Transport>(
        &mut self,
        transport: &mut W,
        decoder: &mut BodyDecoder,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Piece, HttpError>> {
        loop {
            match decoder.next(&mut self.rest) {
                Ok(Piece::More) => {}
                Ok(piece) => return Poll::Ready(Ok(piece)),
                Err(error) => {
                    // Input after an error is never processed.
                    if let HttpError::Malformed(reason) = error {
                        *decoder = BodyDecoder::Broken(reason);
                    }
                    return Poll::Ready(Err(error));
                }
            }
            if !ready!(self.poll_fill(transport, cx))? {
                decoder.end()?;
            }
        }
    }
}

/// True for a byte that a head may begin with, or an empty line.
fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b'\r'
}
