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

/// What became of two joined streams.
#[derive(Debug)]
pub struct Spliced {
    /// Bytes that went each way, whole or not.
    pub to_b: u64,
    pub to_a: u64,
    pub end: End,
}

/// How it ended.
#[derive(Debug)]
pub enum End {
    /// Both ways cleanly.
    Clean,
    /// The first stream failed.
    A(io::Error),
    /// The second one did.
    B(io::Error),
}

/// Copies both ways until both have ended. An error on either side drops both without a clean end.
pub async fn splice<A, B>(mut a: A, mut b: B) -> Spliced
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::new(), Direction::new());
    let end = poll_fn(|cx| {
        let one = there
            .poll(cx, &mut a, &mut b)
            .map_err(|broken| match broken {
                Broken::From(error) => End::A(error),
                Broken::To(error) => End::B(error),
            });
        let other = back
            .poll(cx, &mut b, &mut a)
            .map_err(|broken| match broken {
                Broken::From(error) => End::B(error),
                Broken::To(error) => End::A(error),
            });
        match (one, other) {
            (Poll::Ready(Err(end)), _) | (_, Poll::Ready(Err(end))) => Poll::Ready(end),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(End::Clean),
            _ => Poll::Pending,
        }
    });
    let end = end.await;
    Spliced {
        to_b: there.copied,
        to_a: back.copied,
        end,
    }
}

/// Which side of a direction failed.
enum Broken {
    From(io::Error),
    To(io::Error),
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
    ) -> Poll<Result<(), Broken>>
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
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::From(error))),
                        Poll::Pending => {
                            give_back(buffer);
                            if *unflushed {
                                let flushed = Pin::new(to).poll_flush(cx).map_err(Broken::To)?;
                                *unflushed = flushed.is_pending();
                            }
                            return Poll::Pending;
                        }
                    }
                }
                State::Writing(buffer, start, end) => {
                    let rest = buffer.get(*start..*end).unwrap_or_default();
                    let written = ready!(Pin::new(&mut *to).poll_write(cx, rest));
                    let taken = written.map_err(Broken::To)?;
                    if taken == 0 {
                        let full = io::ErrorKind::WriteZero.into();
                        return Poll::Ready(Err(Broken::To(full)));
                    }
                    self.copied += taken as u64;
                    *start += taken;
                    if start == end {
                        give_back(std::mem::take(buffer));
                        self.state = State::Reading { unflushed: true };
                    }
                }
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(Broken::To)?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
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
