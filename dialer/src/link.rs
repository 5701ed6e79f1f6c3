//! One live WebSocket between an agent and a hub: its messages ([`frame`]) and the reasons for its
//! end. It counts the bytes each way, so that a session can be resumed over another link. Ack
//! probes on these counts measure the round trip and prove that the peer is alive.
//!
//! Nothing in a link is secret or trusted. It runs outside our own TLS, so a proxy that intercepts
//! the outer TLS can read and forge it. Such a proxy can end the session, as it could anyway; the
//! reason in a CLOSE is a hint. Resuming a session takes a proof that only its two ends can make.

mod end;
pub mod frame;

pub(crate) use self::end::{InvalidCount, LinkEnd};
