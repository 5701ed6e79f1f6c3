//! Refusals of HTTP/1 heads that hyper cannot read.
//!
//! hyper answers them by itself, without a body. [`CodedRefusals`] writes an answer with code, cause and next step in
//! place of that. It must never touch bytes of another answer: a cluster could have sent them.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use fairlead_api::{Code, Failure};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{front::connection::ConnectionState, http::failure::render_last};

/// End of each answer that hyper makes by itself, ahead of its date.
const EMPTY_BODY: &[u8] = b"content-length: 0\r\n";

/// Connection below hyper with coded refusals.
pub(crate) struct CodedRefusals<IO> {
    io: IO,
    state: Arc<ConnectionState>,
    /// Number of requests when all answers were written. hyper writes by itself only if it is unchanged.
    answered: Option<u32>,
    /// Unwritten rest of a refusal.
    refusal: Bytes,
}

impl<IO> CodedRefusals<IO> {
    pub(crate) fn new(io: IO, state: Arc<ConnectionState>) -> Self {
        CodedRefusals {
            io,
            state,
            answered: Some(0),
            refusal: Bytes::new(),
        }
    }

    pub(crate) fn into_inner(self) -> IO {
        self.io
    }

    /// Starts a refusal if `head` is one of hyper's own.
    fn replaces(&mut self, head: &[u8]) -> bool {
        if !self.refusal.is_empty() {
            return true;
        }
        let (begun, _) = self.state.counts();
        if self.answered != Some(begun) || self.state.is_upgraded() {
            return false;
        }
        let Some(failure) = refused_by_hyper(head) else {
            return false;
        };
        self.refusal = render_last(&failure).into();
        true
    }
}

/// The failure in an answer that hyper made by itself.
fn refused_by_hyper(head: &[u8]) -> Option<Failure> {
    let status = head.strip_prefix(b"HTTP/1.1 ")?.get(..4)?;
    let failure = match status {
        b"400 " => Failure::because(Code::BadRequest, "its head is no HTTP/1.1"),
        b"414 " | b"431 " => Failure::new(Code::HeadTooLarge),
        _ => return None,
    };
    let bare = head.windows(EMPTY_BODY.len()).any(|it| it == EMPTY_BODY);
    (bare && head.ends_with(b"\r\n\r\n")).then_some(failure)
}

impl<IO: AsyncWrite + Unpin> CodedRefusals<IO> {
    /// Writes the refusal; `replaced` is the length of hyper's answer.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, replaced: usize) -> Poll<io::Result<usize>> {
        while !self.refusal.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.refusal))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.advance(written);
        }
        Poll::Ready(Ok(replaced))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for CodedRefusals<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for CodedRefusals<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.replaces(buf) {
            true => self.poll_refusal(cx, buf.len()),
            false => Pin::new(&mut self.io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [head, rest @ ..] = bufs
            && rest.iter().all(|it| it.is_empty())
            && self.replaces(head)
        {
            return self.poll_refusal(cx, head.len());
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has written all that it has.
        let (begun, ended) = self.state.counts();
        self.answered = (begun == ended).then_some(begun);
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
