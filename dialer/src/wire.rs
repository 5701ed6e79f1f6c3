//! What is below a session's streams, as its driver sees it: plaintext in, messages of plaintext out, and everything that
//! stands between them and the socket (our TLS, the link, the WebSocket). It spawns nothing: the session's task polls it.

pub mod ws;

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsStream;
use tokio_util::io::poll_read_buf;

use crate::{
    link::{LinkEnd, io::Link},
    session::CloseReason,
};

/// What one round reads at most.
const BLOCK: usize = 128 * 1024;
/// What one read may bring: the plaintext of a TLS record.
const RECORD: usize = 16 * 1024;
/// What may wait for the socket before no more is sealed.
const UNSENT: usize = 128 * 1024;

pub(crate) struct Wire<IO> {
    tls: TlsStream<Link<IO>>,
    incoming: VecDeque<Bytes>,
    /// The end that was met while reading, behind what is in `incoming`.
    end: Option<LinkEnd>,
    unsent: BytesMut,
    /// How long each message in `unsent` is: each becomes one TLS record.
    messages: VecDeque<usize>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    pub(crate) fn new(tls: TlsStream<Link<IO>>) -> Self {
        Wire {
            tls,
            incoming: VecDeque::new(),
            end: None,
            unsent: BytesMut::new(),
            messages: VecDeque::new(),
        }
    }

    fn link(&self) -> &Link<IO> {
        match &self.tls {
            TlsStream::Client(tls) => tls.get_ref().0,
            TlsStream::Server(tls) => tls.get_ref().0,
        }
    }

    fn link_mut(&mut self) -> &mut Link<IO> {
        match &mut self.tls {
            TlsStream::Client(tls) => tls.get_mut().0,
            TlsStream::Server(tls) => tls.get_mut().0,
        }
    }

    /// How many streams the peer wants at most.
    pub(crate) fn peer_streams(&self) -> usize {
        self.link().peer_streams()
    }

    /// Bytes that came and went.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.link().counts()
    }

    /// Of the last mark that was answered.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.link().rtt()
    }

    /// Reads what is there, up to 128 KiB. Ready: ask [`Wire::next`] until it has nothing, then call again.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        let mut got = 0;
        while got < BLOCK && self.end.is_none() {
            let mut piece = BytesMut::with_capacity(RECORD);
            match poll_read_buf(Pin::new(&mut self.tls), cx, &mut piece) {
                Poll::Ready(Ok(0)) => self.end = Some(LinkEnd::Eof),
                Poll::Ready(Ok(more)) => {
                    got += more;
                    self.incoming.push_back(piece.freeze());
                }
                Poll::Ready(Err(error)) => self.end = Some(ended(&error)),
                Poll::Pending => break,
            }
        }
        match &self.end {
            _ if got > 0 => Poll::Ready(Ok(())),
            Some(end) => Poll::Ready(Err(end.clone())),
            None => Poll::Pending,
        }
    }

    /// The next piece of the peer's plaintext.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, LinkEnd> {
        Ok(self.incoming.pop_front())
    }

    /// How many bytes of plaintext may be sealed now. The driver is woken when none may and that changes.
    pub(crate) fn room(&self) -> usize {
        UNSENT.saturating_sub(self.unsent.len())
    }

    /// Of these, how many may be bulk.
    pub(crate) fn bulk_room(&self) -> usize {
        self.room()
    }

    /// Seals one message: what `fill` appends, 16,320 bytes at most. If that is nothing, nothing is sent.
    pub(crate) fn seal(&mut self, fill: &mut dyn FnMut(&mut BytesMut)) {
        let before = self.unsent.len();
        fill(&mut self.unsent);
        let message = self.unsent.len() - before;
        if message > 0 {
            self.messages.push_back(message);
        }
    }

    /// Marks, deadlines, and all that is sealed, down to the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.link_mut().poll_marks(cx)?;
        self.poll_write(cx).map_err(|error| ended(&error))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(message) = self.messages.front_mut() {
            let part = self.unsent.get(..*message).unwrap_or_default();
            let taken = ready!(Pin::new(&mut self.tls).poll_write(cx, part))?;
            self.unsent.advance(taken);
            *message -= taken;
            if *message == 0 {
                self.messages.pop_front();
            }
        }
        // An idle session holds no buffer.
        self.unsent = BytesMut::new();
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    /// The last words: what is sealed, then why.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, reason: CloseReason) -> Poll<()> {
        if ready!(self.poll_write(cx)).is_err() {
            return Poll::Ready(());
        }
        self.link_mut().close_with(reason);
        Pin::new(self.link_mut()).poll_shutdown(cx).map(drop)
    }
}

fn ended(error: &io::Error) -> LinkEnd {
    LinkEnd::find(error)
        .cloned()
        .unwrap_or_else(|| LinkEnd::Broken(error.to_string()))
}
