//! Two wires joined by pipes that can be cut, each with a driver that knows plaintext only.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Limits, LinkIo,
    link::{LinkEnd, frame::SessionId},
    rig::{OURS, agent_inner, hub_inner},
    sync::lock,
    websocket::SocketRole,
    wire::{Channel, LinkState, Resumable, SessionHandle, Socket, VERSIONS, Wire, choose, offer},
};

/// One end of a pipe that breaks after so many bytes, both directions together.
pub(super) struct Fragile {
    io: Option<DuplexStream>,
    left: usize,
    /// Breaks with an error, or with an end that looks clean.
    reset: bool,
}

impl Fragile {
    pub(super) fn new(io: DuplexStream, left: usize, reset: bool) -> Self {
        let io = Some(io);
        Fragile { io, left, reset }
    }

    fn broken(&mut self) -> io::Result<()> {
        self.io = None;
        match self.reset {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Fragile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left;
        let Some(io) = self.io.as_mut().filter(|_| left > 0) else {
            return Poll::Ready(self.broken());
        };
        let mut part = vec![0; left.min(buf.remaining())];
        let mut part = ReadBuf::new(&mut part);
        let outcome = Pin::new(io).poll_read(cx, &mut part);
        buf.put_slice(part.filled());
        self.left -= part.filled().len();
        outcome
    }
}

impl AsyncWrite for Fragile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let left = self.left;
        let Some(io) = self.io.as_mut().filter(|_| left > 0) else {
            self.io = None;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let outcome = Pin::new(io).poll_write(cx, &data[..data.len().min(left)]);
        if let Poll::Ready(Ok(written)) = outcome {
            self.left -= written;
        }
        outcome
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io = None;
        Poll::Ready(Ok(()))
    }
}

pub(super) fn limits() -> Limits {
    Limits::default()
}

pub(super) fn socket(io: impl Into<LinkIo>, role: SocketRole) -> Socket {
    Socket::new(io, &[], role)
}

/// Both ends of a session, as far as they get over this pipe.
pub(super) async fn begin(
    agent: impl Into<LinkIo>,
    hub: impl Into<LinkIo>,
    limits: (&Limits, &Limits),
    known: &Resumable,
) -> (Result<Wire, LinkEnd>, Result<Wire, LinkEnd>) {
    begin_with(agent, hub, limits, (VERSIONS, VERSIONS), Some(known)).await
}

pub(super) async fn begin_with(
    agent: impl Into<LinkIo>,
    hub: impl Into<LinkIo>,
    limits: (&Limits, &Limits),
    versions: ((u8, u8), (u8, u8)),
    known: Option<&Resumable>,
) -> (Result<Wire, LinkEnd>, Result<Wire, LinkEnd>) {
    let at_agent = async {
        let mut socket = socket(agent, SocketRole::Agent);
        let agreed = offer(&mut socket, versions.0, limits.0, None).await?;
        let channel = Channel::client(agent_inner(&OURS, Some(&OURS))).unwrap();
        let mut wire = Wire::new(socket, agreed, channel, SocketRole::Agent, limits.0);
        wire.handshake().await?;
        assert_eq!(wire.first_byte().await?, 1);
        wire.make_resumable(None)?;
        Ok(wire)
    };
    let at_hub = async {
        let mut socket = socket(hub, SocketRole::Hub);
        let none_known = known.map(|_| |_: &SessionId| false);
        let agreed = choose(&mut socket, versions.1, limits.1, none_known).await?;
        let channel = Channel::server(hub_inner(&OURS)).unwrap();
        let mut wire = Wire::new(socket, agreed, channel, SocketRole::Hub, limits.1);
        wire.handshake().await?;
        wire.send_now(&[1]).await?;
        wire.make_resumable(known)?;
        Ok(wire)
    };
    tokio::join!(at_agent, at_hub)
}

/// A wire in its task: accepts output, and collects input.
pub(super) struct WireEnd {
    pub(super) handle: Option<Arc<SessionHandle>>,
    out: Arc<Mutex<Out>>,
    got: watch::Receiver<Vec<u8>>,
    pub(super) ended: watch::Receiver<Option<LinkEnd>>,
    /// The most bytes ever kept, and the limit.
    pub(super) kept: watch::Receiver<(usize, usize)>,
    received: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Out {
    bytes: VecDeque<u8>,
    waker: Option<Waker>,
}

impl WireEnd {
    pub(super) fn drive(mut wire: Wire, piece: usize) -> Self {
        let out: Arc<Mutex<Out>> = Arc::default();
        let (got_in, got) = watch::channel(Vec::new());
        let (end_in, ended) = watch::channel(None);
        let (kept_in, kept) = watch::channel((0, 0));
        let (received_in, received) = watch::channel(wire.counts().0);
        let (handle, source) = (wire.handle(), Arc::clone(&out));
        let round = move |cx: &mut Context<'_>| -> Result<(), LinkEnd> {
            if wire.poll_fill(cx, tokio::time::Instant::now())?.is_ready() {
                cx.waker().wake_by_ref();
                while let Some(bytes) = wire.next()? {
                    got_in.send_modify(|got| got.extend_from_slice(&bytes));
                }
            }
            let mut source = lock(&source);
            source.waker = Some(cx.waker().clone());
            while wire.room() > 0 && !source.bytes.is_empty() {
                let size = source.bytes.len().min(piece);
                wire.seal(tokio::time::Instant::now(), &mut |out| {
                    out.extend(source.bytes.drain(..size))
                });
            }
            received_in.send_replace(wire.counts().0);
            let (size, limit) = wire.retransmit.size();
            kept_in.send_modify(|kept| *kept = (kept.0.max(size), limit));
            if let Poll::Ready(outcome) = wire.poll_flush(cx, tokio::time::Instant::now()) {
                outcome?;
            }
            Ok(())
        };
        let mut round = round;
        let task = tokio::spawn(async move {
            let end = poll_fn(|cx| match round(cx) {
                Ok(()) => Poll::Pending,
                Err(end) => Poll::Ready(end),
            });
            end_in.send_replace(Some(end.await));
        });
        WireEnd {
            handle,
            out,
            got,
            ended,
            kept,
            received,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(super) fn put(&self, bytes: &[u8]) {
        let mut out = lock(&self.out);
        out.bytes.extend(bytes);
        if let Some(waker) = out.waker.take() {
            waker.wake();
        }
    }

    /// Waits until so many bytes have arrived.
    pub(super) async fn got(&self, bytes: usize) -> Vec<u8> {
        let mut got = self.got.clone();
        let got = got.wait_for(|got| got.len() >= bytes).await;
        got.expect("the driver has ended").clone()
    }

    pub(super) async fn end(&self) -> LinkEnd {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.unwrap().clone();
        end.unwrap()
    }

    /// Number of DATA bytes received.
    pub(super) fn count(&self) -> u64 {
        *self.received.borrow()
    }

    pub(super) fn handle(&self) -> Arc<SessionHandle> {
        self.handle.clone().expect("resumable")
    }

    pub(super) async fn down(&self) {
        let mut state = self.handle().state();
        let down = |state: &LinkState| matches!(state, LinkState::Down { .. });
        drop(state.wait_for(down).await.unwrap());
    }

    pub(super) fn is_up(&self) -> bool {
        *self.handle().state().borrow() == LinkState::Up
    }
}

/// A session whose first link is `pipe` bytes wide and breaks after `left`.
pub(super) async fn session(
    known: &Resumable,
    limits: &Limits,
    left: usize,
    piece: usize,
) -> (WireEnd, WireEnd) {
    let (agent, hub) = duplex(64 * 1024);
    let fragile = Fragile::new(agent, usize::MAX, false);
    let fragile = Handle::new(fragile);
    let (a, h) = begin(fragile.clone(), hub, (limits, limits), known).await;
    fragile.break_after(left);
    (
        WireEnd::drive(a.unwrap(), piece),
        WireEnd::drive(h.unwrap(), piece),
    )
}

/// A pipe's end that the test may break later.
#[derive(Clone)]
pub(super) struct Handle(Arc<Mutex<Fragile>>, Arc<Mutex<Vec<Waker>>>);

impl Handle {
    pub(super) fn new(fragile: Fragile) -> Self {
        Handle(Arc::new(Mutex::new(fragile)), Arc::default())
    }

    pub(super) fn break_after(&self, left: usize) {
        lock(&self.0).left = left;
        for waker in lock(&self.1).drain(..) {
            waker.wake();
        }
    }
}

impl AsyncRead for Handle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.1).push(cx.waker().clone());
        Pin::new(&mut *lock(&self.0)).poll_read(cx, buf)
    }
}

impl AsyncWrite for Handle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(cx)
    }
}

/// A new link between the two, as dialer and hub would make it.
pub(super) async fn resume(
    agent: impl Into<LinkIo>,
    hub: impl Into<LinkIo>,
    handle: &SessionHandle,
    known: &Resumable,
) -> (Result<(), LinkEnd>, Result<(), LinkEnd>) {
    let at_agent = async {
        let mut socket = socket(agent, SocketRole::Agent);
        let agreed = offer(&mut socket, VERSIONS, &limits(), Some(handle.id())).await?;
        assert!(agreed.resumes(handle.id()));
        handle.resume(socket, &agreed).await
    };
    tokio::join!(at_agent, answer(hub, known))
}

pub(super) async fn answer(hub: impl Into<LinkIo>, known: &Resumable) -> Result<(), LinkEnd> {
    let mut socket = socket(hub, SocketRole::Hub);
    let is_known = |id: &[u8; 16]| known.get(id).is_some();
    let agreed = choose(&mut socket, VERSIONS, &limits(), Some(is_known)).await?;
    let handle = known.get(&agreed.session).ok_or(LinkEnd::Unproved)?;
    handle.accept_resumption(socket, &agreed).await
}
