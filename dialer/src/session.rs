//! The multiplexed connection of one agent: either side opens streams. One task drives each session; what callers hold
//! are handles. It must never let one stream's consumer keep the others waiting, nor let a broken tunnel look like a
//! clean end.

mod driver;
mod state;

use std::{future::poll_fn, io, sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};

use self::{driver::Driver, state::Shared};
pub use crate::mux::Stream;
use crate::{
    mux::{INITIAL, Mux, Side},
    reserve::Reserve,
    wire::{Line, LinkState, Wire},
};

/// What yamux gives each stream to start with, in bytes.
pub(crate) const WINDOW: usize = INITIAL as usize;

/// A thousand requests of people, and some streams for what hub and agent themselves ask.
const STREAMS: usize = 1000 + 56;
/// It asks one thing at a time, and may have given up what it asked before.
pub(crate) const STRANGERS_STREAMS: usize = 4;

/// Bounds of one session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Streams open at once, both directions together. The lower of the two sides' holds for opening.
    pub max_streams: usize,
    /// How many bytes a peer can make us hold: every stream's window, and what the link has read ahead. Never taken as
    /// less than 256 KiB a stream; what is above that, windows of streams with fast readers may grow by.
    pub receive_budget: usize,
    /// Deadline of each step of a dial or an accept.
    pub handshake: Duration,
    /// How many bytes may be on their way each way, sent and not acknowledged. They are kept for the case that the link
    /// breaks; beyond that, streams wait.
    pub unacknowledged: usize,
    /// How long a session without a link waits for its agent. Zero: it ends with its link.
    pub resume_window: Duration,
    /// What it shares with the other sessions of its process: all it keeps beyond 256 KiB, and what windows grow by.
    pub reserve: Reserve,
}

impl Default for Limits {
    /// 1,056 streams, their 264 MiB of windows and 32 MiB to grow, 10 s, 4 MiB, 60 s, and no bound on all sessions together.
    fn default() -> Self {
        Limits {
            max_streams: STREAMS,
            receive_budget: STREAMS * WINDOW + 32 * 1024 * 1024,
            handshake: Duration::from_secs(10),
            unacknowledged: 4 * 1024 * 1024,
            resume_window: Duration::from_secs(60),
            reserve: Reserve::default(),
        }
    }
}

impl Limits {
    /// What the budget is, with every stream's window in it.
    pub(crate) fn budget(&self) -> usize {
        self.receive_budget.max(self.max_streams * WINDOW)
    }

    /// Of a peer that has shown no certificate: it asks for one, on a stream, and whoever it is can make us hold little.
    #[must_use]
    pub(crate) fn of_a_stranger(&self) -> Self {
        Limits {
            max_streams: STRANGERS_STREAMS,
            receive_budget: STRANGERS_STREAMS * WINDOW,
            ..self.clone()
        }
    }
}

/// One live session; clones name the same. When the last clone is dropped, the session is closed as
/// [`CloseReason::Done`], and streams that are still open are reset.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

struct Handle {
    mux: Arc<Mux>,
    shared: Arc<Shared>,
    /// Held by who waits for a stream.
    accepting: Mutex<()>,
    link: Link,
}

enum Link {
    Resumable(Arc<Line>),
    /// The session ends with it: there is nothing to be told until then.
    Only(watch::Sender<LinkState>),
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.mux.ask_close(CloseReason::Done);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    Draining,
    Replaced,
    Deleted,
    Expired,
    Protocol,
    Done,
    /// The peer's identity is a copy, used in another place than the one it was issued for.
    Cloned,
}

impl CloseReason {
    /// As it stands in a link's CLOSE.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            CloseReason::Draining => 1,
            CloseReason::Replaced => 2,
            CloseReason::Deleted => 3,
            CloseReason::Expired => 4,
            CloseReason::Protocol => 5,
            CloseReason::Done => 6,
            CloseReason::Cloned => 7,
        }
    }

    /// A code of a later version is `Done`: the session is over, the reason is not known here.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => CloseReason::Draining,
            2 => CloseReason::Replaced,
            3 => CloseReason::Deleted,
            4 => CloseReason::Expired,
            5 => CloseReason::Protocol,
            7 => CloseReason::Cloned,
            _ => CloseReason::Done,
        }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    #[error("closed by this side ({0:?})")]
    Here(CloseReason),
    #[error("closed by the peer ({0:?})")]
    Peer(CloseReason),
    #[error("the peer has been silent for {0:?}")]
    Silent(Duration),
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer did what no peer may; `rule` is a word to count it by.
    #[error("the peer broke the protocol: {what}")]
    Violation { rule: &'static str, what: String },
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        io::Error::new(io::ErrorKind::ConnectionReset, error)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// As many streams are open as the lower limit of both sides allows.
    #[error("the peer accepts no more streams")]
    Full,
    #[error("the session ended")]
    Closed(#[source] SessionError),
}

/// Counts since the session began. Bytes are those of the link's DATA: with yamux' headers and the inner TLS.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    pub streams_open: usize,
    pub streams_total: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Of what came on its streams, what nobody has read yet.
    pub unread: usize,
    /// Of the last mark that was answered.
    pub rtt: Option<Duration>,
}

impl Session {
    /// Takes over a secure channel and spawns the task that drives it.
    pub(crate) fn start(wire: Wire, side: Side, limits: &Limits) -> Self {
        let mux = Mux::new(side, limits, wire.peer_streams());
        let shared = Arc::new(Shared::new());
        let link = match wire.line() {
            Some(line) => Link::Resumable(line),
            None => Link::Only(watch::Sender::new(LinkState::Up)),
        };
        // Owned by the session's handles: it ends with the last of them, or with the connection.
        drop(tokio::spawn(Driver::new(wire, mux.clone(), shared.clone())));
        Session {
            handle: Arc::new(Handle {
                mux,
                shared,
                accepting: Mutex::new(()),
                link,
            }),
        }
    }

    /// State of the session's link. A session that ends with its link stays `Up` until then.
    #[must_use]
    pub fn link(&self) -> watch::Receiver<LinkState> {
        match &self.handle.link {
            Link::Resumable(line) => line.state(),
            Link::Only(state) => state.subscribe(),
        }
    }

    /// Whether the session has a link now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        match &self.handle.link {
            Link::Resumable(line) => line.is_up(),
            Link::Only(_) => true,
        }
    }

    pub(crate) fn line(&self) -> Option<&Line> {
        match &self.handle.link {
            Link::Resumable(line) => Some(line),
            Link::Only(_) => None,
        }
    }

    /// Opens a stream. The peer learns of it at once, before anything is written.
    ///
    /// # Errors
    /// [`OpenError::Full`] at the limit, which costs the session and its other streams nothing.
    pub async fn open(&self) -> Result<Stream, OpenError> {
        self.handle.mux.open()
    }

    /// The next stream that the peer opened; `None` once the session has ended. Callers take turns.
    pub async fn accept(&self) -> Option<Stream> {
        let _turn = self.handle.accepting.lock().await;
        poll_fn(|cx| self.handle.mux.poll_accept(cx)).await
    }

    /// Ends the session; the peer is told why. Streams that are still open are reset. Returns at once; what is already
    /// written is flushed for two seconds at most.
    pub fn close(&self, reason: CloseReason) {
        self.handle.mux.ask_close(reason);
    }

    /// Completes when the session has ended, with the reason. Any number of callers may wait.
    pub async fn closed(&self) -> SessionError {
        self.handle.shared.closed().await
    }

    /// How many streams may be open at once, both directions together: the lower of the two sides' limits.
    #[must_use]
    pub fn most_streams(&self) -> usize {
        self.handle.mux.most_streams()
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.shared.stats(self.handle.mux.counts())
    }
}

#[cfg(test)]
mod tests;
