//! The multiplexed connection of one agent: either side opens streams. One task drives each
//! session; callers hold handles. A slow consumer of one stream never blocks the others, and a
//! broken tunnel never looks like a clean end.

mod driver;
mod state;

use std::{future::poll_fn, sync::Arc};

use tokio::sync::{Mutex, watch};

pub use self::state::Stats;
use self::{driver::Driver, state::SharedSession};
use crate::{
    close::CloseReason,
    error::{OpenError, SessionError},
    limits::Limits,
    mux::{Mux, Side, Stream},
    wire::{LinkState, SessionHandle, Wire},
};

/// One live session. Clones share it. When the last clone is dropped, the session is closed as
/// [`CloseReason::Done`], and open streams are reset.
#[derive(Clone)]
pub struct Session {
    handle: Arc<SessionInner>,
}

struct SessionInner {
    mux: Arc<Mux>,
    shared: Arc<SharedSession>,
    /// Held while waiting for a stream.
    accepting: Mutex<()>,
    link: SessionLink,
}

enum SessionLink {
    Resumable(Arc<SessionHandle>),
    /// The session ends with its link; the state never changes.
    Only(watch::Sender<LinkState>),
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.mux.request_close(CloseReason::Done);
    }
}

impl Session {
    /// Takes over a secure channel and spawns its driver task.
    pub(crate) fn start(wire: Wire, side: Side, limits: &Limits) -> Self {
        let mux = Mux::new(side, limits, wire.peer_streams());
        let shared = Arc::new(SharedSession::new());
        let link = match wire.handle() {
            Some(handle) => SessionLink::Resumable(handle),
            None => SessionLink::Only(watch::Sender::new(LinkState::Up)),
        };
        // Owned by the session's handles: it ends with the last of them, or with the connection.
        drop(tokio::spawn(Driver::new(wire, mux.clone(), shared.clone())));
        Session {
            handle: Arc::new(SessionInner {
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
            SessionLink::Resumable(handle) => handle.state(),
            SessionLink::Only(state) => state.subscribe(),
        }
    }

    /// True if the session has a link now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        match &self.handle.link {
            SessionLink::Resumable(handle) => handle.is_up(),
            SessionLink::Only(_) => true,
        }
    }

    pub(crate) fn resume_handle(&self) -> Option<&SessionHandle> {
        match &self.handle.link {
            SessionLink::Resumable(handle) => Some(handle),
            SessionLink::Only(_) => None,
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
        let resumed = self.resume_handle().map(SessionHandle::resumed);
        let counts = self.handle.mux.counts();
        self.handle
            .shared
            .stats(counts, resumed.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
