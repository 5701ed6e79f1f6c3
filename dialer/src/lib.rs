//! The wire, both ends: WebSocket, link, secure channel, session, stream, and HTTP exchanges on streams. It knows no
//! HTTP route, no Kubernetes and no database.
//!
//! ```text
//! TCP, or CONNECT through a proxy     dial/tcp, dial/proxy
//! TLS, the web's                      dial (the hub's front has its own), on ahead
//! WebSocket                           dial/upgrade, accept, then wire/socket, wire/ws
//! link                                link, link/frame, wire/link
//! TLS 1.3, ours                       secure, wire/channel
//! yamux                               mux, session, session/driver (joined to what is below by wire)
//! stream                              mux/stream
//! HTTP/1.1                            exchange, exchange/client, exchange/server, exchange/head, exchange/framing
//! ```

pub mod accept;
mod ahead;
pub mod dial;
pub mod exchange;
pub mod frames;
pub mod link;
pub mod mux;
mod reserve;
#[cfg(test)]
mod rig;
mod secure;
pub mod session;
pub mod splice;
mod watched;
pub mod wire;

pub use accept::{Accepted, Arrival, accept, arrive, come_back};
pub use ahead::Ahead;
pub use dial::{DialError, Dialed, Dialer, ProxyRules, Redialed, Stage};
pub use exchange::{Answer, Body, BodyError, ExchangeError, Exchanges, OnUpgrade, Upgraded, serve};
pub use reserve::Reserve;
pub use secure::HUB_SERVER_NAME;
pub use session::{CloseReason, Limits, OpenError, Session, SessionError, Stats, Stream};
pub use splice::{Spliced, splice};
pub use watched::Watched;
pub use wire::{LinkState, Resumable};

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;

/// How much of what a link has written may lie in the kernel unsent, in bytes: two messages. What TCP may not send yet because
/// others share the path had better wait where small things overtake it.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 32 * 1024;

/// Readies a connection between agent and hub, as far as this system can. Has the kernel give it up when nothing is
/// acknowledged for as long as a link may be silent (`TCP_USER_TIMEOUT`): whatever waits to be written to it ends then, too.
/// And has it take no more than is about to be sent (`TCP_NOTSENT_LOWAT`).
pub fn for_link(tcp: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        let tcp = socket2::SockRef::from(tcp);
        // These fail only on a socket that is dead already; its first read will say so.
        let _ = tcp.set_tcp_user_timeout(Some(wire::SILENCE));
        let _ = tcp.set_tcp_notsent_lowat(UNSENT);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = tcp;
}

/// No lock of this crate is held across a call that can panic half-way through a change, so a poisoned one is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
