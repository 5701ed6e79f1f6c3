//! Follows the framing of HTTP/1 requests, to find heads with an ambiguous length.
//!
//! hyper accepts a head with both `Content-Length` and `Transfer-Encoding`, or with the same length twice, and hides
//! the dropped field. RFC 9112, section 6.3, allows that. But its sender wants two servers to see two different
//! requests, so the gateway rejects it.
//!
//! The follower only detects ambiguity. It never decides where a request ends.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes kept of each line: enough for a header's name and a number.
const MAX_LINE_PREFIX: usize = 64;
/// Limit of heads that hyper has read but not served; it reads one buffer ahead.
const MAX_AHEAD: usize = 16 * 1024;

/// Observed framing of one connection; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Framing(Arc<Mutex<FramingFollower>>);

impl Framing {
    fn follower(&self) -> MutexGuard<'_, FramingFollower> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next request gave its length in two ways. Call it once for each request, in order.
    pub(crate) fn next_is_ambiguous(&self) -> bool {
        self.next().unwrap_or(false)
    }

    /// As [`Framing::next_is_ambiguous`]; `None` if no such request was observed.
    pub(crate) fn next(&self) -> Option<bool> {
        self.follower().ambiguous.pop_front()
    }

    /// Stops following: no more HTTP comes on this connection.
    pub(crate) fn stop(&self) {
        self.follower().position = Position::Blind;
    }
}

/// An IO with its reads followed.
pub(crate) struct FollowedIo<IO> {
    pub(crate) io: IO,
    pub(crate) framing: Framing,
}

impl<IO: AsyncRead + Unpin> AsyncRead for FollowedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Some(read) = buf.filled().get(before..)
            && !read.is_empty()
        {
            self.framing.follower().follow(read);
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for FollowedIo<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[derive(Default)]
struct FramingFollower {
    position: Position,
    line: Vec<u8>,
    ambiguous: VecDeque<bool>,
}

/// Position of the next byte in the framing.
enum Position {
    Head(Lengths),
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Blind,
}

impl Default for Position {
    fn default() -> Self {
        Position::Head(Lengths::default())
    }
}

/// The length of a body, as its head gives it.
#[derive(Default)]
struct Lengths {
    request_line: bool,
    lengths: u32,
    length: u64,
    chunked: bool,
}

impl FramingFollower {
    fn follow(&mut self, mut read: &[u8]) {
        while !read.is_empty() {
            read = match &mut self.position {
                Position::Blind => return,
                Position::Body(left) | Position::Chunk(left) => {
                    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
                    *left -= now as u64;
                    if *left == 0 {
                        self.position = match self.position {
                            Position::Chunk(_) => Position::ChunkEnd,
                            _ => Position::default(),
                        };
                    }
                    read.get(now..).unwrap_or_default()
                }
                _ => self.take_line(read),
            };
        }
    }

    /// Takes bytes up to the end of a line, and returns the rest.
    fn take_line<'a>(&mut self, read: &'a [u8]) -> &'a [u8] {
        let end = read.iter().position(|&byte| byte == b'\n');
        let (part, rest) = read.split_at(end.unwrap_or(read.len()));
        let room = MAX_LINE_PREFIX
            .saturating_sub(self.line.len())
            .min(part.len());
        self.line
            .extend_from_slice(part.get(..room).unwrap_or_default());
        if end.is_none() {
            return rest;
        }
        let line = std::mem::take(&mut self.line);
        self.end_of_line(line.strip_suffix(b"\r").unwrap_or(&line));
        self.line = line;
        self.line.clear();
        rest.get(1..).unwrap_or_default()
    }

    fn end_of_line(&mut self, line: &[u8]) {
        let next = match &mut self.position {
            Position::Head(head) if line.is_empty() && head.request_line => {
                let is_ambiguous = head.lengths > 1 || (head.lengths > 0 && head.chunked);
                let next = match (head.chunked, head.length) {
                    (true, _) => Position::ChunkSize,
                    (false, 0) => Position::default(),
                    (false, length) => Position::Body(length),
                };
                if self.ambiguous.len() < MAX_AHEAD {
                    self.ambiguous.push_back(is_ambiguous);
                    next
                } else {
                    Position::Blind
                }
            }
            Position::Head(head) => return head.line(line),
            Position::ChunkSize => match chunk_size(line) {
                None => Position::Blind,
                Some(0) => Position::Trailers,
                Some(size) => Position::Chunk(size),
            },
            Position::ChunkEnd => Position::ChunkSize,
            Position::Trailers if line.is_empty() => Position::default(),
            Position::Trailers | Position::Body(_) | Position::Chunk(_) | Position::Blind => return,
        };
        self.position = next;
    }
}

impl Lengths {
    fn line(&mut self, line: &[u8]) {
        if !self.request_line {
            // Skips empty lines before a request.
            self.request_line = !line.is_empty();
            return;
        }
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (
            parts.next().unwrap_or_default().trim_ascii(),
            parts.next().unwrap_or_default().trim_ascii(),
        );
        if name.eq_ignore_ascii_case(b"content-length") {
            self.lengths += 1;
            self.length = std::str::from_utf8(value)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(0);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        }
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line
        .split(|byte| !byte.is_ascii_hexdigit())
        .next()
        .and_then(|digits| std::str::from_utf8(digits).ok())?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ambiguous(sent: &str, piece: usize) -> Vec<bool> {
        let mut follower = FramingFollower::default();
        for part in sent.as_bytes().chunks(piece) {
            follower.follow(part);
        }
        follower.ambiguous.into()
    }

    #[test]
    fn ambiguous_lengths_are_detected_in_any_chunking() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\n";
        for (sent, expected) in [
            (format!("{head}\r\n"), vec![false]),
            (
                format!("{head}Content-Length: 3\r\n\r\nabc{head}\r\n"),
                vec![false, false],
            ),
            (
                format!("{head}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
                vec![true],
            ),
            (
                format!("{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                vec![true],
            ),
            (
                format!("{head}TRANSFER-ENCODING:chunked\r\ncontent-length:5\r\n\r\n0\r\n\r\n"),
                vec![true],
            ),
            (
                format!(
                    "{head}Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n\r\n\r\nb\r\n0\r\nT: v\r\n\r\n{head}\r\n"
                ),
                vec![false, false],
            ),
            (
                format!(
                    "\r\n{head}Content-Length: 2\r\n\r\n\n\n{head}Content-Length: 1\nTransfer-Encoding: chunked\n\n"
                ),
                vec![false, true],
            ),
            (
                format!(
                    "{head}X: {}\r\nContent-Length: 1\r\n\r\nx{head}\r\n",
                    "y".repeat(200)
                ),
                vec![false, false],
            ),
        ] {
            for piece in [1, 2, 7, 10_000] {
                assert_eq!(ambiguous(&sent, piece), expected, "{sent:?} by {piece}");
            }
        }
    }

    #[test]
    fn queue_of_unserved_heads_is_bounded() {
        let sent = "GET / HTTP/1.1\n\n".repeat(2 * MAX_AHEAD);
        assert_eq!(ambiguous(&sent, 4096).len(), MAX_AHEAD);
    }
}
