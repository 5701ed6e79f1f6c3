//! State that a session's wire shares with its handles: name, link state, and the slot for a new
//! link. Also the hub's list of resumable sessions.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
};

use futures_util::task::AtomicWaker;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use super::{
    hello::{self, Agreed},
    resume::{self, Exchange, ResumeSecret},
    socket::Socket,
};
use crate::{
    close::CloseReason,
    link::{
        LinkEnd,
        frame::{self, Frame, SessionId},
    },
    sync::lock,
    websocket::SocketRole,
};

/// State of a session's link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// The session has a link.
    Up,
    /// The session waits for its agent.
    Down {
        /// Time when the link was lost.
        since: Instant,
        /// Time of the last message of the peer.
        heard: Instant,
        /// Reason for the loss.
        last_error: String,
    },
}

pub(crate) struct SessionHandle {
    id: SessionId,
    secret: ResumeSecret,
    state: watch::Sender<LinkState>,
    /// Count of received bytes when the link was lost.
    received: AtomicU64,
    resumptions: AtomicU64,
    repeated: AtomicU64,
    /// A slot for one link. A channel would hold memory for 32 during the whole session.
    next: Mutex<Next>,
    driver: AtomicWaker,
    /// Only one resumption at a time.
    resuming: tokio::sync::Mutex<()>,
}

/// Slot for the next link of the wire.
enum Next {
    Nothing,
    Link(Box<Takeover>),
    /// The wire is gone.
    Over,
}

/// New link whose peer has proved itself, to be taken over by the wire.
pub(super) struct Takeover {
    pub(super) socket: Socket,
    pub(super) body: usize,
    /// Count of bytes received by the peer.
    pub(super) received: u64,
    /// The hub sends its proof last, with its count when it gives up the old link.
    pub(super) answer: Option<Exchange>,
    pub(super) outcome: oneshot::Sender<Result<(), LinkEnd>>,
}

impl SessionHandle {
    pub(super) fn new(id: SessionId, secret: ResumeSecret) -> Arc<Self> {
        Arc::new(SessionHandle {
            id,
            secret,
            state: watch::Sender::new(LinkState::Up),
            received: AtomicU64::new(0),
            resumptions: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            next: Mutex::new(Next::Nothing),
            driver: AtomicWaker::new(),
            resuming: tokio::sync::Mutex::new(()),
        })
    }

    /// Takes the new link, if there is one. The driver is woken when one comes.
    pub(super) fn takeover(&self, driver: &Waker) -> Option<Box<Takeover>> {
        self.driver.register(driver);
        let mut next = lock(&self.next);
        match std::mem::replace(&mut *next, Next::Nothing) {
            Next::Link(takeover) => Some(takeover),
            other => {
                *next = other;
                None
            }
        }
    }

    /// Marks the wire as gone.
    pub(super) fn mark_gone(&self) {
        // Dropped outside the lock.
        let last = std::mem::replace(&mut *lock(&self.next), Next::Over);
        drop(last);
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn secret(&self) -> &ResumeSecret {
        &self.secret
    }

    pub(crate) fn state(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    pub(crate) fn is_up(&self) -> bool {
        *self.state.borrow() == LinkState::Up
    }

    pub(super) fn down(&self, received: u64, heard: Instant, last_error: String) {
        self.received.store(received, Ordering::Release);
        self.state.send_replace(LinkState::Down {
            since: Instant::now(),
            heard,
            last_error,
        });
    }

    /// Notes a new link, over which `repeated` bytes are sent again.
    pub(super) fn up(&self, repeated: u64) {
        self.resumptions.fetch_add(1, Ordering::Relaxed);
        self.repeated.fetch_add(repeated, Ordering::Relaxed);
        self.state.send_replace(LinkState::Up);
    }

    /// Number of resumptions, and DATA bytes that this end sent again for them.
    pub(crate) fn resumed(&self) -> (u64, u64) {
        (
            self.resumptions.load(Ordering::Relaxed),
            self.repeated.load(Ordering::Relaxed),
        )
    }

    /// The agent's end: resumes this session, which the hub's HELLO has named.
    pub(crate) async fn resume(&self, mut socket: Socket, agreed: &Agreed) -> Result<(), LinkEnd> {
        let Ok(_alone) = self.resuming.try_lock() else {
            return Err(LinkEnd::Protocol(
                "the session is being resumed already".to_owned(),
            ));
        };
        let &Frame::Challenge(hub) = &decode(socket.receive().await?)? else {
            return Err(LinkEnd::Protocol("no challenge received".to_owned()));
        };
        let exchange = Exchange {
            session: self.id,
            hub,
            agent: resume::nonce()?,
        };
        let received = self.received.load(Ordering::Acquire);
        let proof = Frame::Proof {
            nonce: exchange.agent,
            received,
            mac: exchange.prove(&self.secret, SocketRole::Agent, received),
        };
        hello::send_frame(&mut socket, &proof).await?;
        let Frame::Resumed { received, mac } = decode(socket.receive().await?)? else {
            return Err(LinkEnd::Protocol("no proof received".to_owned()));
        };
        if !exchange.proved(&self.secret, SocketRole::Hub, received, &mac) {
            return Err(LinkEnd::Unproved);
        }
        self.hand_over(socket, agreed, received, None).await
    }

    /// The hub's end: verifies the agent's proof and hands the link over.
    pub(crate) async fn accept_resumption(
        &self,
        mut socket: Socket,
        agreed: &Agreed,
    ) -> Result<(), LinkEnd> {
        let hub = resume::nonce()?;
        hello::send_frame(&mut socket, &Frame::Challenge(hub)).await?;
        let Frame::Proof {
            nonce,
            received,
            mac,
        } = decode(socket.receive().await?)?
        else {
            return Err(LinkEnd::Protocol("no proof received".to_owned()));
        };
        let exchange = Exchange {
            session: self.id,
            hub,
            agent: nonce,
        };
        if !exchange.proved(&self.secret, SocketRole::Agent, received, &mac) {
            return Err(LinkEnd::Unproved);
        }
        self.hand_over(socket, agreed, received, Some(exchange))
            .await
    }

    async fn hand_over(
        &self,
        socket: Socket,
        agreed: &Agreed,
        received: u64,
        answer: Option<Exchange>,
    ) -> Result<(), LinkEnd> {
        let over = || LinkEnd::Protocol("the session has ended".to_owned());
        let (outcome, done) = oneshot::channel();
        let takeover = Box::new(Takeover {
            socket,
            body: agreed.body,
            received,
            answer,
            outcome,
        });
        // Of two concurrent links the later one stays.
        let earlier = {
            let mut next = lock(&self.next);
            if matches!(*next, Next::Over) {
                return Err(over());
            }
            std::mem::replace(&mut *next, Next::Link(takeover))
        };
        drop(earlier);
        self.driver.wake();
        done.await.map_err(|_| over())?
    }
}

fn decode(message: &[u8]) -> Result<Frame<'_>, LinkEnd> {
    match frame::decode(message) {
        Ok(Frame::Close(code)) => Err(LinkEnd::Closed(CloseReason::from_code(code))),
        Ok(frame) => Ok(frame),
        Err(error) => Err(LinkEnd::Protocol(error.to_string())),
    }
}

/// Resumable sessions of a hub. Their names are known to the agent and to middleboxes only.
#[derive(Clone, Default)]
pub struct Resumable {
    sessions: Arc<Mutex<HashMap<SessionId, Weak<SessionHandle>>>>,
}

impl Resumable {
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<SessionHandle>> {
        let handle = lock(&self.sessions).get(id)?.upgrade()?;
        // An ended session may still have handles.
        let is_over = matches!(*lock(&handle.next), Next::Over);
        (!is_over).then_some(handle)
    }

    pub(crate) fn enter(&self, handle: &Arc<SessionHandle>) {
        let mut sessions = lock(&self.sessions);
        // Removes ended sessions before the table grows.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|_, handle| handle.strong_count() > 0);
        }
        sessions.insert(handle.id, Arc::downgrade(handle));
    }
}

impl std::fmt::Debug for Resumable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resumable").finish_non_exhaustive()
    }
}
