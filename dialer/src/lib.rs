//! The wire, both ends: WebSocket, link, secure channel, session and stream. It has no knowledge of HTTP requests,
//! Kubernetes or databases. The crate `exchange` above runs HTTP/1.1 on the streams.
//!
//! ```text
//! TCP, or CONNECT through a proxy     dial/tcp, dial/proxy
//! outer TLS                           dial (the hub's front has its own), on read_ahead, in input_gate
//! WebSocket                           dial/upgrade, accept, then wire/socket, websocket
//! link                                link, link/frame, wire/link
//! inner TLS 1.3                       secure, wire/channel
//! yamux                               mux, session, session/driver (joined to the layers below by wire)
//! stream                              mux/stream
//! ```
//!
//! Each module imports only modules of lower layers, from the ground files (`close`, `error`, `limits`, ...) up to
//! `accept`; the test in `layers` checks the order.

pub mod accept;
mod close;
pub mod dial;
mod error;
mod input_gate;
#[cfg(test)]
mod layers;
mod limits;
pub mod link;
mod memory;
pub mod mux;
mod path;
mod read_ahead;
#[cfg(test)]
mod rig;
mod secure;
pub mod session;
pub mod sync;
mod tcp_options;
mod tls;
mod upgrade;
mod watched;
pub mod websocket;
mod wire;

pub use accept::{Accepted, Arrival, accept, accept_resumable, resume_only};
pub use close::CloseReason;
pub use dial::{
    DialError, DialStage, DialTrace, Dialed, Dialer, PassedStage, ProxyRules, Redialed,
    RefusalEvidence,
};
pub use error::{OpenError, SessionError};
pub use input_gate::{InputGate, PollInput};
pub use limits::Limits;
pub use memory::MemoryBudget;
pub use mux::Stream;
pub use read_ahead::ReadAhead;
pub use session::{Session, Stats};
pub use tcp_options::set_link_options;
pub use tls::HUB_SERVER_NAME;
pub use watched::Watched;
pub use wire::{LinkState, Resumable};
