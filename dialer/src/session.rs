//! The multiplexed connection of one agent: either side opens streams. One task drives each
//! session; callers hold handles. A slow consumer of one stream never blocks the others, and a
//! broken tunnel never looks like a clean end.

mod driver;
mod state;

use std::{future::poll_fn, io, sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};

use self::{driver::Driver, state::Shared};
pub use crate::mux::Stream;
use crate::{
    memory::MemoryBudget,
    mux::{INITIAL_WINDOW, Mux, Side},
    wire::{LinkState, SessionHandle, Wire},
};

/// Initial window of a stream, in bytes.
pub(crate) const INITIAL_WINDOW_BYTES: usize = INITIAL_WINDOW as usize;

/// A thousand user requests, and some streams for requests of hub and agent.
const DEFAULT_MAX_STREAMS: usize = 1000 + 56;
/// An agent without a certificate sends one request at a time, and may have abandoned earlier ones.
pub(crate) const MAX_UNAUTHENTICATED_STREAMS: usize = 4;

/// Bounds of one session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limit of open streams, both directions together. The lower limit of the two sides applies to
    /// opening.
    pub max_streams: usize,
    /// Bytes that a peer can make this side hold: the windows of all streams, and read-ahead of the
    /// link. At least 256 KiB per stream; the rest is for windows of fast readers to grow.
    pub receive_budget: usize,
    /// Deadline of each step of a dial or an accept.
    pub handshake: Duration,
    /// Capacity of the retransmit buffer in bytes, each way. When it is full, streams wait.
    pub unacknowledged: usize,
    /// Time that a session without a link waits for its agent. Zero: the session ends with its
    /// link.
    pub resume_window: Duration,
    /// Memory shared with the other sessions of the process: retransmit buffers beyond 256 KiB, and
    /// window growth.
    pub memory: MemoryBudget,
}

impl Default for Limits {
    /// 1,056 streams, their 264 MiB of windows plus 32 MiB of growth, 10 s, 4 MiB, 60 s, and no
    /// limit on all sessions together.
    fn default() -> Self {
        Limits {
            max_streams: DEFAULT_MAX_STREAMS,
            receive_budget: DEFAULT_MAX_STREAMS * INITIAL_WINDOW_BYTES + 32 * 1024 * 1024,
            handshake: Duration::from_secs(10),
            unacknowledged: 4 * 1024 * 1024,
            resume_window: Duration::from_secs(60),
            memory: MemoryBudget::default(),
        }
    }
}

impl Limits {
    /// Receive budget, raised to the initial windows of all streams.
    pub(crate) fn budget(&self) -> usize {
        self.receive_budget
            .max(self.max_streams * INITIAL_WINDOW_BYTES)
    }

    /// Limits for a peer without a certificate, which may only enrol.
    #[must_use]
    pub(crate) fn unauthenticated(&self) -> Self {
        Limits {
            max_streams: MAX_UNAUTHENTICATED_STREAMS,
            receive_budget: MAX_UNAUTHENTICATED_STREAMS * INITIAL_WINDOW_BYTES,
            ..self.clone()
        }
    }
}

/// One live session. Clones share it. When the last clone is dropped, the session is closed as
/// [`CloseReason::Done`], and open streams are reset.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

struct Handle {
    mux: Arc<Mux>,
    shared: Arc<Shared>,
    /// Held while waiting for a stream.
    accepting: Mutex<()>,
    link: Link,
}

enum Link {
    Resumable(Arc<SessionHandle>),
    /// The session ends with its link; the state never changes.
    Only(watch::Sender<LinkState>),
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.mux.request_close(CloseReason::Done);
    }
}

/// Reason for closing a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The hub shuts down.
    Draining,
    /// A newer session took its place.
    Replaced,
    /// The cluster was deleted.
    Deleted,
    /// The agent's certificate has expired.
    Expired,
    /// The peer broke the protocol or has no access.
    Protocol,
    /// The session is not needed any more.
    Done,
    /// The peer's identity is used in another cluster than the one it was issued for.
    Cloned,
}

impl CloseReason {
    /// Code in a link's CLOSE message.
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

    /// Reads the code of a CLOSE message. Unknown codes, as of a later version, map to `Done`.
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

/// Reason for the end of a session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// Closed by this side.
    #[error("closed by this side ({0:?})")]
    Here(CloseReason),
    /// Closed by the peer.
    #[error("closed by the peer ({0:?})")]
    Peer(CloseReason),
    /// No message of the peer for this time.
    #[error("the peer has been silent for {0:?}")]
    Silent(Duration),
    /// The link broke and was not resumed.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer broke the protocol; `rule` is a metric label.
    #[error("the peer broke the protocol: {what}")]
    Violation {
        /// Metric label of the rule.
        rule: &'static str,
        /// Description of the violation.
        what: String,
    },
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        io::Error::new(io::ErrorKind::ConnectionReset, error)
    }
}

/// Failure to open a stream.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The lower stream limit of both sides is reached.
    #[error("the peer accepts no more streams")]
    Full,
    /// The session has ended.
    #[error("the session ended")]
    Closed(#[source] SessionError),
}

/// Counters since the session began. Bytes are those of DATA messages: yamux headers and inner TLS
/// included.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Open streams.
    pub streams_open: usize,
    /// Streams opened since the session began.
    pub streams_total: u64,
    /// DATA bytes received.
    pub bytes_in: u64,
    /// DATA bytes sent.
    pub bytes_out: u64,
    /// Bytes received on streams and not yet read.
    pub unread: usize,
    /// Round trip of the last acknowledged probe.
    pub rtt: Option<Duration>,
}

impl Session {
    /// Takes over a secure channel and spawns its driver task.
    pub(crate) fn start(wire: Wire, side: Side, limits: &Limits) -> Self {
        let mux = Mux::new(side, limits, wire.peer_streams());
        let shared = Arc::new(Shared::new());
        let link = match wire.handle() {
            Some(handle) => Link::Resumable(handle),
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
            Link::Resumable(handle) => handle.state(),
            Link::Only(state) => state.subscribe(),
        }
    }

    /// True if the session has a link now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        match &self.handle.link {
            Link::Resumable(handle) => handle.is_up(),
            Link::Only(_) => true,
        }
    }

    pub(crate) fn resume_handle(&self) -> Option<&SessionHandle> {
        match &self.handle.link {
            Link::Resumable(handle) => Some(handle),
            Link::Only(_) => None,
        }
    }

    /// Opens a stream. The peer learns of it at once, before anything is written.
    ///
    /// # Errors
    ///
    /// [`OpenError::Full`] at the limit; the session and its other streams are unaffected.
    pub async fn open(&self) -> Result<Stream, OpenError> {
        self.handle.mux.open()
    }

    /// Next stream opened by the peer; `None` once the session has ended. Concurrent callers take
    /// turns.
    pub async fn accept(&self) -> Option<Stream> {
        let _turn = self.handle.accepting.lock().await;
        poll_fn(|cx| self.handle.mux.poll_accept(cx)).await
    }

    /// Ends the session and sends the reason to the peer. Open streams are reset. Returns at once;
    /// written data is flushed for two seconds at most.
    pub fn close(&self, reason: CloseReason) {
        self.handle.mux.request_close(reason);
    }

    /// Completes when the session has ended, with the reason. Any number of callers may wait.
    pub async fn closed(&self) -> SessionError {
        self.handle.shared.closed().await
    }

    /// Limit of open streams, both directions together: the lower one of the two sides.
    #[must_use]
    pub fn max_streams_open(&self) -> usize {
        self.handle.mux.max_streams_open()
    }

    /// Current counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.shared.stats(self.handle.mux.counts())
    }
}

#[cfg(test)]
mod tests;
