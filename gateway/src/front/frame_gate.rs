//! A client's upgraded connection, with counted bytes. When the hub ends the request, no input passes, and the output stops
//! between two frames.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use fairlead_exchange::frames::{Frames, Protocol};
use fairlead_protocols::ForwardStreams;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::front::record::RequestRecord;

/// A client's connection after its upgrade.
pub(crate) struct FrameGate<IO> {
    io: IO,
    /// Position in the frames to the client; `None` for unknown protocols.
    frames: Option<Frames>,
    /// Streams of a port-forward, if its last bytes need them.
    streams: Option<ForwardStreams>,
    record: RequestRecord,
}

impl<IO> FrameGate<IO> {
    pub(crate) fn new(
        io: IO,
        protocol: Option<Protocol>,
        streams: Option<ForwardStreams>,
        record: RequestRecord,
    ) -> Self {
        FrameGate {
            io,
            frames: protocol.map(Frames::new),
            streams,
            record,
        }
    }

    /// The connection and its streams, if a frame may begin.
    pub(crate) fn into_boundary(self) -> Option<(IO, Option<ForwardStreams>)> {
        let is_at_boundary = self.frames.is_some_and(|frames| frames.may_begin());
        is_at_boundary.then_some((self.io, self.streams))
    }

    /// Bytes of the current frame that are still to be written; 0 at a boundary, and for unknown protocols.
    fn rest(&self) -> usize {
        let Some(frames) = self.frames else {
            return 0;
        };
        let streams = self.streams.as_ref();
        match frames.may_begin() {
            // A frame within a tunnel continues in the next frame of the tunnel.
            true => streams.is_some_and(ForwardStreams::is_within_frame).into(),
            false => frames.rest(),
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for FrameGate<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.record.is_ending() {
            // The writer wakes this task while it completes a frame.
            return match self.rest() {
                0 => Poll::Ready(Err(io::Error::other("the hub ended the request"))),
                _ => Poll::Pending,
            };
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        if let Some(streams) = &mut self.streams {
            streams.follow_client(read);
        }
        self.record.add_bytes(read.len() as u64, 0);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for FrameGate<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.record.is_ending() {
            let rest = self.rest().min(buf.len());
            if rest == 0 {
                // The reader reports the end.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            buf = buf.get(..rest).unwrap_or_default();
        }
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        let written = buf.get(..taken).unwrap_or_default();
        if let Some(frames) = &mut self.frames {
            frames.follow(written);
        }
        if let Some(streams) = &mut self.streams {
            streams.follow_server(written);
        }
        self.record.add_bytes(0, taken as u64);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(frames) = &mut self.frames {
            frames.close();
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
