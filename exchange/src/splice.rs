//! Copies bytes between two streams in both directions, half-close included. A clean end is passed
//! on as an end; an error is never passed on as one.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};

/// Size of a copy buffer. A direction borrows it from the first read until the write is done.
const BUFFER_BYTES: usize = 32 * 1024;
/// Buffers that a thread keeps.
const MAX_SPARE_BUFFERS: usize = 4;
/// Time for a client to receive the remaining bytes after its server has closed.
const LINGER_TIMEOUT: Duration = Duration::from_secs(600);

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Outcome of [`splice`].
#[derive(Debug)]
pub struct Spliced {
    /// Bytes copied towards `b`, including those of an incomplete copy.
    pub to_b: u64,
    /// Bytes copied towards `a`, including those of an incomplete copy.
    pub to_a: u64,
    /// Reason for the end.
    pub end: SpliceEnd,
}

/// Reason for the end of a splice.
#[derive(Debug)]
pub enum SpliceEnd {
    /// All data of the server (`b`) has arrived.
    Clean,
    /// The client's side (`a`) failed, or did not take all data.
    A(io::Error),
    /// The server's side (`b`) failed.
    B(io::Error),
}

/// Copies both ways until both directions have ended: `a` is the client's side, `b` the server's.
///
/// An error on either side drops both without a clean end, with one exception. A server may close
/// while its client still sends, as kube-apiserver does when kubectl pings. Its remaining data is
/// passed on, and the result of that is the result of the splice. Meanwhile the client's data is
/// read and dropped: closing a socket with unread data sends a reset, which would discard data the
/// client has not read yet.
///
/// A write that times out ends both directions at once: its side was given up, and its reader may never notice.
pub async fn splice<A, B>(a: A, b: B) -> Spliced
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    splice_watched(a, b, |_, _| Poll::Pending).await
}

/// As [`splice`], for a client's side whose end of input is not the end of its connection.
///
/// `watch` is polled after that end, while the other direction is open. Its error is a failure of `a`.
pub async fn splice_watched<A, B>(
    mut a: A,
    mut b: B,
    mut watch: impl FnMut(&mut A, &mut Context<'_>) -> Poll<io::Error>,
) -> Spliced
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::new(), Direction::new());
    let both = poll_fn(|cx| {
        let one = there.poll(cx, &mut a, &mut b);
        let other = back.poll(cx, &mut b, &mut a);
        if let Some(error) = back.timed_out() {
            return Poll::Ready(SpliceEnd::A(error));
        }
        if let Some(error) = there.timed_out() {
            return Poll::Ready(SpliceEnd::B(error));
        }
        match (one, other) {
            (Poll::Ready(Err(error)), _) => Poll::Ready(SpliceEnd::A(error)),
            (_, Poll::Ready(Err(error))) => Poll::Ready(SpliceEnd::B(error)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                // Data that `b` refused had no receiver: `b` had sent everything.
                Poll::Ready(back.refused.take().map_or(SpliceEnd::Clean, SpliceEnd::A))
            }
            (Poll::Ready(Ok(())), Poll::Pending) if there.refused.is_none() => {
                watch(&mut a, cx).map(SpliceEnd::A)
            }
            _ => Poll::Pending,
        }
    });
    let mut end = both.await;
    if there.refused.is_some() && matches!(end, SpliceEnd::Clean) {
        let rest = poll_fn(|cx| poll_drain(cx, &mut a));
        if let Ok(Err(error)) = timeout(LINGER_TIMEOUT, rest).await {
            end = SpliceEnd::A(error);
        }
    }
    Spliced {
        to_b: there.copied,
        to_a: back.copied,
        end,
    }
}

enum CopyState {
    /// Holds no buffer.
    Reading {
        unflushed: bool,
    },
    /// Bytes of `buffer` from `.1` to `.2` remain to be written.
    Writing(Vec<u8>, usize, usize),
    /// The source has ended.
    Ending,
    Ended,
}

struct Direction {
    state: CopyState,
    copied: u64,
    /// Error of the destination, if it did not take everything.
    refused: Option<io::Error>,
}

impl Direction {
    fn new() -> Self {
        Direction {
            state: CopyState::Reading { unflushed: false },
            copied: 0,
            refused: None,
        }
    }

    /// Fails if the source fails. An error of the destination is stored in `refused` and ends this
    /// direction.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            match &mut self.state {
                CopyState::Reading { unflushed } => {
                    let mut buffer = borrow();
                    match poll_fill(cx, from, &mut buffer) {
                        Poll::Ready(Ok(0)) => {
                            give_back(buffer);
                            self.state = CopyState::Ending;
                        }
                        Poll::Ready(Ok(filled)) => {
                            self.state = CopyState::Writing(buffer, 0, filled)
                        }
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {
                            give_back(buffer);
                            if *unflushed {
                                match Pin::new(to).poll_flush(cx) {
                                    Poll::Ready(Err(error)) => return self.refuse(error),
                                    flushed => *unflushed = flushed.is_pending(),
                                }
                            }
                            return Poll::Pending;
                        }
                    }
                }
                CopyState::Writing(buffer, start, end) => {
                    let rest = buffer.get(*start..*end).unwrap_or_default();
                    let taken = match ready!(Pin::new(&mut *to).poll_write(cx, rest)) {
                        Ok(0) => return self.refuse(io::ErrorKind::WriteZero.into()),
                        Ok(taken) => taken,
                        Err(error) => return self.refuse(error),
                    };
                    self.copied += taken as u64;
                    *start += taken;
                    if start == end {
                        give_back(std::mem::take(buffer));
                        self.state = CopyState::Reading { unflushed: true };
                    }
                }
                CopyState::Ending => {
                    if let Err(error) = ready!(Pin::new(&mut *to).poll_shutdown(cx)) {
                        return self.refuse(error);
                    }
                    self.state = CopyState::Ended;
                }
                CopyState::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// The error of a destination that was given up.
    fn timed_out(&mut self) -> Option<io::Error> {
        self.refused
            .take_if(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    fn refuse(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.state = CopyState::Ended;
        self.refused = Some(error);
        Poll::Ready(Ok(()))
    }
}

/// Reads `from` to its end and drops the data.
fn poll_drain<R: AsyncRead + Unpin>(cx: &mut Context<'_>, from: &mut R) -> Poll<io::Result<()>> {
    let mut buffer = borrow();
    let drained = loop {
        match poll_fill(cx, from, &mut buffer) {
            Poll::Ready(Ok(0)) => break Poll::Ready(Ok(())),
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
            Poll::Pending => break Poll::Pending,
        }
    };
    give_back(buffer);
    drained
}

fn poll_fill<R: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    from: &mut R,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buffer);
    ready!(Pin::new(from).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

fn borrow() -> Vec<u8> {
    SPARES
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| vec![0; BUFFER_BYTES])
}

fn give_back(buffer: Vec<u8>) {
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < MAX_SPARE_BUFFERS {
            spares.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests;
