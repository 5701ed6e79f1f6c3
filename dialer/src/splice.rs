//! Joins two byte streams, half-close both ways. An end is passed on as an end, and an error as no end at all.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Lent to a direction from the moment something can be read until it is written.
const BUFFER: usize = 32 * 1024;
/// How many buffers a thread keeps.
const SPARE: usize = 4;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// How many bytes went each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spliced {
    pub to_b: u64,
    pub to_a: u64,
}

/// Copies both ways until both have ended. An error on either side drops both without a clean end.
///
/// # Errors
/// The first one of either side.
pub async fn splice<A, B>(mut a: A, mut b: B) -> io::Result<Spliced>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::new(), Direction::new());
    poll_fn(|cx| {
        let one = there.poll(cx, &mut a, &mut b)?;
        let other = back.poll(cx, &mut b, &mut a)?;
        match (one, other) {
            (Poll::Ready(to_b), Poll::Ready(to_a)) => Poll::Ready(Ok(Spliced { to_b, to_a })),
            _ => Poll::Pending,
        }
    })
    .await
}

enum State {
    /// Nothing is held.
    Reading {
        unflushed: bool,
    },
    /// Bytes of `buffer` from `.1` to `.2` are to be written.
    Writing(Vec<u8>, usize, usize),
    /// The source has ended.
    Ending,
    Ended,
}

struct Direction {
    state: State,
    copied: u64,
}

impl Direction {
    fn new() -> Self {
        Direction {
            state: State::Reading { unflushed: false },
            copied: 0,
        }
    }

    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            match &mut self.state {
                State::Reading { unflushed } => {
                    let mut buffer = borrow();
                    match poll_fill(cx, from, &mut buffer) {
                        Poll::Ready(Ok(0)) => {
                            give_back(buffer);
                            self.state = State::Ending;
                        }
                        Poll::Ready(Ok(filled)) => self.state = State::Writing(buffer, 0, filled),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {
                            give_back(buffer);
                            if *unflushed && Pin::new(to).poll_flush(cx)?.is_ready() {
                                *unflushed = false;
                            }
                            return Poll::Pending;
                        }
                    }
                }
                State::Writing(buffer, start, end) => {
                    let rest = buffer.get(*start..*end).unwrap_or_default();
                    let taken = ready!(Pin::new(&mut *to).poll_write(cx, rest))?;
                    if taken == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.copied += taken as u64;
                    *start += taken;
                    if start == end {
                        give_back(std::mem::take(buffer));
                        self.state = State::Reading { unflushed: true };
                    }
                }
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(self.copied)),
            }
        }
    }
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
        .unwrap_or_else(|| vec![0; BUFFER])
}

fn give_back(buffer: Vec<u8>) {
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARE {
            spares.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests;
