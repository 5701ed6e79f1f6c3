//! What stands between yamux and the secure channel. It does what the yamux crate (0.14) leaves out, on the wire as the
//! yamux specification has it:
//!
//! * a stream is announced (SYN) when it is opened and acknowledged (ACK) when it arrives, each by an empty window
//!   update, so that 256 streams that nobody has used yet do not stall the 257th;
//! * a stream over the limit is refused (RST) before yamux sees it, where yamux would end the session;
//! * a stream dropped before both directions were finished is reset, also where yamux sends FIN or nothing;
//! * a reset that comes in is told from an end.
//!
//! And it gathers: yamux writes each header and body apart and flushes after every frame; here they become messages of up
//! to [`ROOM`] bytes, sent when one is full or when the session's poll ends.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use super::state::{Fin, Shared};
use crate::{
    link::{MESSAGE, io::Link},
    lock,
};

const HEADER: usize = 12;
/// What a TLS 1.3 record adds: header 5, content type 1, tag 16.
const RECORD: usize = 22;
/// The plaintext of one message: MESSAGE (16,376) - link tag (1) - record (22) = 16,353.
const ROOM: usize = MESSAGE - 1 - RECORD;
/// The largest body of a yamux frame: 16,353 - 12 = 16,341, so that a full frame is a full message.
pub(super) const SPLIT: usize = ROOM - HEADER;
/// Nothing more is read while this many bytes of refusals and acknowledgements wait to be written.
const MOST_OWED: usize = 64 * 1024;

const DATA: u8 = 0;
const WINDOW_UPDATE: u8 = 1;
const SYN: u16 = 1;
const ACK: u16 = 2;
const FIN: u16 = 4;
const RST: u16 = 8;

/// A yamux header, as far as it matters here.
#[derive(Clone, Copy)]
struct Header {
    kind: u8,
    flags: u16,
    stream: u32,
    length: u32,
}

impl Header {
    fn read(&[_, kind, f1, f0, s3, s2, s1, s0, l3, l2, l1, l0]: &[u8; HEADER]) -> Self {
        Header {
            kind,
            flags: u16::from_be_bytes([f1, f0]),
            stream: u32::from_be_bytes([s3, s2, s1, s0]),
            length: u32::from_be_bytes([l3, l2, l1, l0]),
        }
    }

    fn empty_update(stream: u32, flags: u16) -> Self {
        Header {
            kind: WINDOW_UPDATE,
            flags,
            stream,
            length: 0,
        }
    }

    fn put(self, out: &mut BytesMut) {
        out.put_u8(0);
        out.put_u8(self.kind);
        out.put_u16(self.flags);
        out.put_u32(self.stream);
        out.put_u32(self.length);
    }

    /// How many bytes follow.
    fn body(self) -> usize {
        if self.kind == DATA {
            self.length as usize
        } else {
            0
        }
    }

    fn concerns_a_stream(self) -> bool {
        matches!(self.kind, DATA | WINDOW_UPDATE)
    }
}

/// Where the incoming bytes stand.
enum Incoming {
    /// In a header of which this many bytes are here.
    Header([u8; HEADER], usize),
    /// A header of which yamux has had this many bytes.
    Given([u8; HEADER], usize),
    /// In a body of which this many bytes are to come.
    Body(usize),
    /// In the body of a refused stream's first frame.
    Refused(usize),
}

/// The secure channel, with what goes over it under way. Shared by yamux and the session's driver, which run in one
/// task: its lock is never contended.
pub(super) struct Wire<IO> {
    tls: TlsStream<Link<IO>>,
    shared: Arc<Shared>,
    out: BytesMut,
    /// Bytes of the outgoing frame's body that yamux has yet to write.
    out_body: usize,
    /// Whole frames of our own, which go out between two of yamux'.
    owed: BytesMut,
    incoming: Incoming,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    pub(super) fn new(tls: TlsStream<Link<IO>>, shared: Arc<Shared>) -> Self {
        Wire {
            tls,
            shared,
            out: BytesMut::new(),
            out_body: 0,
            owed: BytesMut::new(),
            incoming: Incoming::Header([0; HEADER], 0),
        }
    }

    pub(super) fn link(&mut self) -> &mut Link<IO> {
        match &mut self.tls {
            TlsStream::Client(tls) => tls.get_mut().0,
            TlsStream::Server(tls) => tls.get_mut().0,
        }
    }

    /// Tells the peer of a stream that was opened here.
    pub(super) fn announce(&mut self, stream: u32) {
        Header::empty_update(stream, SYN).put(&mut self.owed);
    }

    /// Tells the peer that its stream has arrived.
    pub(super) fn acknowledge(&mut self, stream: u32) {
        Header::empty_update(stream, ACK).put(&mut self.owed);
    }

    pub(super) fn reset(&mut self, stream: u32) {
        Header::empty_update(stream, RST).put(&mut self.owed);
    }

    /// Hands what has gathered to the secure channel.
    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out.has_remaining() {
            let taken = ready!(Pin::new(&mut self.tls).poll_write(cx, &self.out))?;
            self.out.advance(taken);
        }
        Poll::Ready(Ok(()))
    }

    /// Appends our own frames, where a frame of yamux' is not half-way.
    fn poll_pay(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out_body == 0 && self.owed.has_remaining() {
            if self.out.len() + HEADER > ROOM {
                ready!(self.poll_push(cx))?;
            }
            let frame = self.owed.split_to(HEADER.min(self.owed.len()));
            self.out.put_slice(&frame);
        }
        Poll::Ready(Ok(()))
    }

    /// Everything out, down to the socket.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pay(cx))?;
        ready!(self.poll_push(cx))?;
        if self.out.capacity() > 0 && self.out_body == 0 {
            // An idle session holds no buffer.
            self.out = BytesMut::new();
        }
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Pin::new(self.link()).poll_shutdown(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.out_body == 0 {
            // yamux hands over each header whole, and apart from its body.
            let Ok(header) = data.try_into() else {
                return Poll::Ready(Err(io::Error::other("yamux wrote half a header")));
            };
            ready!(self.poll_pay(cx))?;
            if self.out.len() + HEADER > ROOM {
                ready!(self.poll_push(cx))?;
            }
            self.frame_out(Header::read(header));
            return Poll::Ready(Ok(HEADER));
        }
        if self.out.len() >= ROOM {
            ready!(self.poll_push(cx))?;
        }
        let room = (ROOM - self.out.len()).min(self.out_body);
        let body = data.get(..room).unwrap_or(data);
        self.out.reserve(body.len());
        self.out.put_slice(body);
        self.out_body -= body.len();
        Poll::Ready(Ok(body.len()))
    }

    fn frame_out(&mut self, mut header: Header) {
        let stream = header.stream;
        self.out_body = header.body();
        if header.concerns_a_stream() && header.flags != 0 {
            // It was announced when it was opened.
            header.flags &= !SYN;
            if header.flags & RST != 0 {
                self.shared.rst_out(stream);
            } else if header.flags & FIN != 0 {
                match self.shared.fin_out(stream) {
                    Fin::Pass => {}
                    Fin::Reset => header.flags = (header.flags & !FIN) | RST,
                    Fin::PassThenReset => self.reset(stream),
                }
            }
        }
        self.out.reserve(HEADER + self.out_body.min(SPLIT));
        header.put(&mut self.out);
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.incoming {
                Incoming::Header(header, have) => {
                    if self.owed.len() > MOST_OWED {
                        // What frees it is a write, which wakes this same task.
                        return Poll::Pending;
                    }
                    let rest = header.get_mut(*have..).unwrap_or_default();
                    let got = ready!(read_some(&mut self.tls, cx, rest))?;
                    if got == 0 {
                        return Poll::Ready(Ok(()));
                    }
                    *have += got;
                    if *have == HEADER {
                        let header = *header;
                        self.frame_in(header);
                    }
                }
                Incoming::Given(header, given) => {
                    let rest = header.get(*given..).unwrap_or_default();
                    let part = rest.get(..buf.remaining()).unwrap_or(rest);
                    buf.put_slice(part);
                    *given += part.len();
                    if *given == HEADER {
                        self.incoming = after(Header::read(header).body());
                    }
                    return Poll::Ready(Ok(()));
                }
                Incoming::Body(left) => {
                    let most = buf.remaining().min(*left);
                    let part = buf.initialize_unfilled_to(most);
                    let got = ready!(read_some(&mut self.tls, cx, part))?;
                    buf.advance(got);
                    self.incoming = after(*left - got);
                    return Poll::Ready(Ok(()));
                }
                Incoming::Refused(left) => {
                    let mut scratch = [0; 2048];
                    let most = scratch.len().min(*left);
                    let part = scratch.get_mut(..most).unwrap_or_default();
                    let got = ready!(read_some(&mut self.tls, cx, part))?;
                    if got == 0 {
                        return Poll::Ready(Ok(()));
                    }
                    self.incoming = match *left - got {
                        0 => Incoming::Header([0; HEADER], 0),
                        left => Incoming::Refused(left),
                    };
                }
            }
        }
    }

    /// A whole header has arrived: yamux gets it, or the stream is refused.
    fn frame_in(&mut self, bytes: [u8; HEADER]) {
        let header = Header::read(&bytes);
        self.incoming = Incoming::Given(bytes, 0);
        if !header.concerns_a_stream() || header.flags & (SYN | FIN | RST) == 0 {
            return;
        }
        let stream = header.stream;
        if header.flags & RST != 0 {
            self.shared.rst_in(stream);
            return;
        }
        if header.flags & SYN != 0 && !self.shared.admit(stream) {
            self.reset(stream);
            self.incoming = match header.body() {
                0 => Incoming::Header([0; HEADER], 0),
                left => Incoming::Refused(left),
            };
            return;
        }
        if header.flags & FIN != 0 {
            self.shared.fin_in(stream);
        }
    }
}

fn after(left: usize) -> Incoming {
    match left {
        0 => Incoming::Header([0; HEADER], 0),
        left => Incoming::Body(left),
    }
}

fn read_some<R: AsyncRead + Unpin>(
    from: &mut R,
    cx: &mut Context<'_>,
    into: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(into);
    ready!(Pin::new(from).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// yamux' hand on the wire.
pub(super) struct Tap<IO>(pub(super) Arc<Mutex<Wire<IO>>>);

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tap<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_read(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tap<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_write(cx, data)
    }

    /// The driver flushes at the end of its poll.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
