//! The wire, both ends: WebSocket, link, secure channel, session, stream, and HTTP exchanges on streams. It has no
//! knowledge of HTTP routes, Kubernetes or databases.
//!
//! ```text
//! TCP, or CONNECT through a proxy     dial/tcp, dial/proxy
//! outer TLS                           dial (the hub's front has its own), on read_ahead
//! WebSocket                           dial/upgrade, accept, then wire/socket, wire/ws
//! link                                link, link/frame, wire/link
//! inner TLS 1.3                       secure, wire/channel
//! yamux                               mux, session, session/driver (joined to the layers below by wire)
//! stream                              mux/stream
//! HTTP/1.1                            exchange, exchange/client, exchange/server, exchange/head, exchange/framing
//! ```

#![warn(missing_docs, reason = "this crate is an interface of several others")]

pub mod accept;
pub mod dial;
pub mod exchange;
pub mod frames;
pub mod link;
mod memory;
pub mod mux;
mod read_ahead;
#[cfg(test)]
mod rig;
mod secure;
pub mod session;
pub mod splice;
mod watched;
pub mod wire;

pub use accept::{Accepted, Arrival, accept, accept_resumable, resume_only};
pub use dial::{DialError, Dialed, Dialer, ProxyRules, Redialed, Stage};
pub use exchange::{Answer, Body, BodyError, ExchangeError, Exchanges, OnUpgrade, Upgraded, serve};
pub use memory::MemoryBudget;
pub use read_ahead::ReadAhead;
pub use secure::HUB_SERVER_NAME;
pub use session::{CloseReason, Limits, OpenError, Session, SessionError, Stats, Stream};
pub use splice::{Spliced, splice};
pub use watched::Watched;
pub use wire::{LinkState, Resumable};

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;

/// Bytes that the kernel may hold unsent on a link: two messages. Data that TCP cannot send yet
/// waits in the streams instead, where small messages overtake it.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 32 * 1024;

/// Sets the socket options of a link's TCP connection, as far as the system supports them.
///
/// `TCP_USER_TIMEOUT`: the kernel drops the connection when nothing is acknowledged for as long as
/// a link may be silent, which also ends blocked writes. `TCP_NOTSENT_LOWAT`: the kernel takes no
/// more than it is about to send.
pub fn set_link_options(tcp: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        let tcp = socket2::SockRef::from(tcp);
        // These fail only on a dead socket; its first read reports that.
        let _ = tcp.set_tcp_user_timeout(Some(wire::SILENCE_TIMEOUT));
        let _ = tcp.set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = tcp;
}

/// Locks `mutex`. No lock of this crate is held across a call that can panic half-way through a
/// change, so a poisoned value is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
