//! Joins two byte streams, half-close both ways. An end is passed on as an end, and an error as no end at all.

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

/// Lent to a direction from the moment something can be read until it is written.
const BUFFER: usize = 32 * 1024;
/// How many buffers a thread keeps.
const SPARE: usize = 4;
/// How long a client may take for what is on its way to it, after its server has closed.
const LINGER: Duration = Duration::from_secs(600);

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
    /// All that the second stream, the server's, had to say has arrived.
    Clean,
    /// The first stream, the client's, failed or would not hear it all.
    A(io::Error),
    /// The second one failed.
    B(io::Error),
}

/// Copies both ways until both have ended: `a` is the client's side, `b` the server's. An error on either side drops both
/// without a clean end, but for one: a server that has said all it had to say may close while its client still speaks (to
/// kubectl's pings kube-apiserver does so). What it has said is passed on, and how that ends is the end. What the client
/// says meanwhile is read and dropped until it has ended, too: a socket that is closed with something unread, or gets
/// more, answers with a reset, and that takes what its peer has not read yet.
pub async fn splice<A, B>(mut a: A, mut b: B) -> Spliced
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::new(), Direction::new());
    let both = poll_fn(|cx| {
        let one = there.poll(cx, &mut a, &mut b);
        let other = back.poll(cx, &mut b, &mut a);
        match (one, other) {
            (Poll::Ready(Err(error)), _) => Poll::Ready(End::A(error)),
            (_, Poll::Ready(Err(error))) => Poll::Ready(End::B(error)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                // What `b` had no use for any more was for nobody: it has said all it had to say.
                Poll::Ready(back.refused.take().map_or(End::Clean, End::A))
            }
            _ => Poll::Pending,
        }
    });
    let mut end = both.await;
    if there.refused.is_some() && matches!(end, End::Clean) {
        let rest = poll_fn(|cx| poll_drain(cx, &mut a));
        if let Ok(Err(error)) = timeout(LINGER, rest).await {
            end = End::A(error);
        }
    }
    Spliced {
        to_b: there.copied,
        to_a: back.copied,
        end,
    }
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
    /// Why the destination took no more, if it did not take all.
    refused: Option<io::Error>,
}

impl Direction {
    fn new() -> Self {
        Direction {
            state: State::Reading { unflushed: false },
            copied: 0,
            refused: None,
        }
    }

    /// Fails if the source does. A destination that does is told in `refused`: nothing more goes this way.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
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
                State::Writing(buffer, start, end) => {
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
                        self.state = State::Reading { unflushed: true };
                    }
                }
                State::Ending => {
                    if let Err(error) = ready!(Pin::new(&mut *to).poll_shutdown(cx)) {
                        return self.refuse(error);
                    }
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    fn refuse(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.state = State::Ended;
        self.refused = Some(error);
        Poll::Ready(Ok(()))
    }
}

/// Reads to the end of `from`, for nobody.
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
