//! The one task of a session. Each poll: what was asked for, then yamux, then the link, then one flush of all that came
//! together. It waits for nobody: not for a stream's consumer, not for whoever accepts streams, not for the socket.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{Sleep, sleep},
};
use tokio_rustls::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use tracing::debug;
use yamux::{Config, Connection, Mode};

use super::{
    CloseReason, Limits, OpenError, Opening, SessionError, Side, Stream, WINDOW,
    state::Shared,
    tap::{SPLIT, Tap, Wire},
};
use crate::{
    link::{LinkEnd, io::Link},
    lock,
};

/// How long a session that ends may take to write what is left.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Streams beyond our own limit that yamux may still hold: those that ended but of which it has not heard yet. At its
/// limit yamux ends the session, so this one is never reached.
const SLACK: usize = 16 * 1024;

pub(super) struct Driver<IO> {
    phase: Phase<IO>,
    wire: Arc<Mutex<Wire<IO>>>,
    shared: Arc<Shared>,
    openings: mpsc::Receiver<Opening>,
    /// The caller whose stream yamux holds back, until the peer acknowledges some.
    held_back: Option<Opening>,
    accepts: mpsc::Sender<Stream>,
    resets: Vec<u32>,
}

enum Phase<IO> {
    Running(Box<Connection<Compat<Tap<IO>>>>),
    Closing(Pin<Box<Sleep>>),
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    pub(super) fn new(
        tls: TlsStream<Link<IO>>,
        side: Side,
        limits: &Limits,
        shared: Arc<Shared>,
        openings: mpsc::Receiver<Opening>,
        accepts: mpsc::Sender<Stream>,
    ) -> Self {
        let wire = Arc::new(Mutex::new(Wire::new(tls, shared.clone())));
        let mode = match side {
            Side::Agent => Mode::Client,
            Side::Hub => Mode::Server,
        };
        let connection = Connection::new(Tap(wire.clone()).compat(), config(limits), mode);
        Driver {
            phase: Phase::Running(Box::new(connection)),
            wire,
            shared,
            openings,
            held_back: None,
            accepts,
            resets: Vec::new(),
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Result<(), SessionError> {
        self.shared.take_resets(&mut self.resets);
        for stream in self.resets.drain(..) {
            lock(&self.wire).reset(stream);
        }
        self.open(cx)?;
        self.accept(cx)?;
        // A stream that ended may have made room, and yamux may have learned of it just now.
        self.open(cx)?;
        self.tend(cx)
    }

    /// Streams that callers asked for.
    fn open(&mut self, cx: &mut Context<'_>) -> Result<(), SessionError> {
        let Phase::Running(connection) = &mut self.phase else {
            return Ok(());
        };
        loop {
            let opening = match self.held_back.take() {
                Some(opening) => opening,
                None => match self.openings.poll_recv(cx) {
                    Poll::Ready(Some(opening)) => opening,
                    Poll::Ready(None) | Poll::Pending => return Ok(()),
                },
            };
            if opening.is_closed() {
                continue;
            }
            if !self.shared.may_open() {
                let _ = opening.send(Err(OpenError::Full));
                continue;
            }
            match connection.poll_new_outbound(cx) {
                Poll::Ready(Ok(stream)) => {
                    let id = stream.id().val();
                    let admitted = self.shared.admit(id);
                    lock(&self.wire).announce(id);
                    let stream = Stream::new(stream, self.shared.clone());
                    // A caller that is gone drops it, which resets it.
                    let _ = opening.send(if admitted {
                        Ok(stream)
                    } else {
                        Err(OpenError::Full)
                    });
                }
                Poll::Ready(Err(error)) => return Err(self.why(&error)),
                Poll::Pending => {
                    self.held_back = Some(opening);
                    return Ok(());
                }
            }
        }
    }

    /// Lets yamux read and write, and hands on the streams that the peer opened.
    fn accept(&mut self, cx: &mut Context<'_>) -> Result<(), SessionError> {
        let Phase::Running(connection) = &mut self.phase else {
            return Ok(());
        };
        loop {
            match connection.poll_next_inbound(cx) {
                Poll::Ready(Some(Ok(stream))) => {
                    lock(&self.wire).acknowledge(stream.id().val());
                    let stream = Stream::new(stream, self.shared.clone());
                    // If nobody accepts, it is dropped here, which resets it.
                    if self.accepts.try_send(stream).is_err() {
                        debug!("a stream that nobody accepted was reset");
                    }
                }
                Poll::Ready(Some(Err(error))) => return Err(self.why(&error)),
                Poll::Ready(None) => {
                    return Err(self.why(&"the peer ended the session without a reason"));
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// The link: reads ahead, keeps time, and sends all that this poll has gathered.
    fn tend(&mut self, cx: &mut Context<'_>) -> Result<(), SessionError> {
        let mut wire = lock(&self.wire);
        if wire.link().pump(cx) {
            // yamux was not reading, or has not seen this yet.
            cx.waker().wake_by_ref();
        }
        wire.link().poll_marks(cx)?;
        if let Poll::Ready(Err(error)) = wire.poll_flush(cx) {
            return Err(broken(wire.link().ended(), &error));
        }
        let (counts, rtt) = (wire.link().counts(), wire.link().rtt());
        self.shared.count(counts, rtt);
        Ok(())
    }

    /// Why yamux gave up. What the link says is nearer to the cause.
    fn why(&self, error: &dyn std::fmt::Display) -> SessionError {
        broken(lock(&self.wire).link().ended(), error)
    }

    /// All streams are broken from here on; the peer is told why, if it can still be.
    fn end(&mut self, error: SessionError, reason: CloseReason) {
        debug!(%error, "session ended");
        self.shared.end(error);
        self.openings.close();
        lock(&self.wire).link().close_with(reason);
        self.phase = Phase::Closing(Box::pin(sleep(LAST_WORDS)));
    }

    fn last_words(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Closing(deadline) = &mut self.phase else {
            return Poll::Pending;
        };
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        lock(&self.wire).poll_shutdown(cx).map(drop)
    }
}

fn broken(end: Option<&LinkEnd>, error: &dyn std::fmt::Display) -> SessionError {
    end.map_or_else(
        || SessionError::Broken(error.to_string()),
        |end| end.clone().into(),
    )
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Future for Driver<IO> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        driver.shared.driver().register(cx.waker());
        if let Phase::Running(_) = driver.phase {
            match (driver.run(cx), driver.shared.close_asked()) {
                (Err(error), _) => driver.end(error, CloseReason::Protocol),
                // What the streams had written before this is on the wire by now.
                (Ok(()), Some(reason)) => driver.end(SessionError::Here(reason), reason),
                (Ok(()), None) => return Poll::Pending,
            }
        }
        driver.last_words(cx)
    }
}

/// A task that is aborted with its runtime ends its session too.
impl<IO> Drop for Driver<IO> {
    fn drop(&mut self) {
        let gone = SessionError::Broken("the session's task was stopped".to_owned());
        self.shared.end(gone);
    }
}

fn config(limits: &Limits) -> Config {
    let streams = limits.max_streams + SLACK;
    let growth = limits.budget() - limits.max_streams * WINDOW;
    let mut config = Config::default();
    // In this order: the setters assert that the window suffices for the streams. yamux reckons with its own, larger
    // number of streams, so the sum grows by as much; what counts is `growth`.
    config
        .set_max_connection_receive_window(None)
        .set_max_num_streams(streams)
        .set_max_connection_receive_window(Some(streams * WINDOW + growth))
        .set_split_send_size(SPLIT);
    config
}
