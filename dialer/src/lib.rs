//! Sessions through firewalls, both ends. An agent keeps one outbound WebSocket to a hub; both open streams on it.
//!
//! # Use
//!
//! [`tunnel`] is all that most programs need. An agent serves a `tower::Service` and TCP targets, a hub reaches them with
//! hyper's client and as byte streams, and a closure of the hub authenticates each agent:
//!
//! ```no_run
//! use fairlead_dialer::{CloseReason, Limits, tunnel::{AgentListener, HubTls, TargetStream}};
//!
//! # async fn hub() -> Result<(), Box<dyn std::error::Error>> {
//! let tls = HubTls::from_files("hub.pem", "hub.key", "agents.pem")?;
//! let listening = AgentListener::bind("0.0.0.0:443", tls, Limits::default(), |agent| async move {
//!     // Any value for the agent, such as a name from its certificate or a row of a database.
//!     agent.certificates.into_iter().next().ok_or(CloseReason::Protocol)
//! });
//! let mut agents = listening.await?;
//! let accepted = agents.accept().await;
//! let database = TargetStream::connect(&accepted.session, "db.internal:5432").await?;
//! # drop(database);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/hub.rs` and `examples/agent.rs` are both programs in full, of fewer than 60 lines each.
//!
//! # Properties
//!
//! - **Trust.** The inner TLS 1.3 proves both ends to each other, even if a proxy ends the outer TLS. The hub's certificate
//!   names [`HUB_SERVER_NAME`] there. A hub never reaches more than the agent's service and rule allow.
//! - **Breaks.** A session outlives its connection by [`Limits::resume_window`] (60 s): streams pause and resume, and no
//!   byte is lost or repeated. A stream that breaks for good is an error at both ends, never an end.
//! - **Limits.** 1,056 streams for each session, with windows of 256 KiB to 4 MiB and 32 MiB of growth ([`Limits`]).
//!   Sessions that share one [`MemoryBudget`] grow within that. A slow reader of one stream stops no other one.
//! - **Liveness.** A path without any message is given up after 10.5 s, by either end.
//! - **Half-close.** [`Stream`] is `AsyncRead` and `AsyncWrite`; a shutdown ends its own direction only.
//!
//! # Errors
//!
//! | type | of | variants or fields |
//! |---|---|---|
//! | [`DialError`] | a dial or a handshake | [`DialStage`], [`Code`], cause, next step for a person |
//! | [`SessionError`] | a session that has ended | closed here, closed by the peer, silent, broken, violation |
//! | [`OpenError`] | a new stream | at the limit, session ended |
//! | [`tunnel::TargetError`] | a TCP target | name, no stream, refused, broken, silent, copy |
//! | [`tunnel::TlsFilesError`] | TLS from files | unreadable, no certificate, unusable |
//! | `std::io::Error` | reads and writes of a stream | `ConnectionReset` |
//!
//! # Layers
//!
//! ```text
//! TCP, or CONNECT through a proxy     dial/tcp, dial/proxy
//! outer TLS                           tls, in input_gate
//! WebSocket                           dial/upgrade, accept, then wire/socket, websocket
//! link                                link, link/frame, wire/link
//! inner TLS 1.3                       secure, wire/channel
//! yamux                               mux, session, session/driver (joined to the layers below by wire)
//! stream                              mux/stream
//! bytes of a TCP connection           byte_socket, on a WebSocket of its own between a client and the hub
//! HTTP/1.1 by hyper, or CONNECT       tunnel (Fairlead itself uses the crate `exchange` here)
//! ```
//!
//! Each module imports only modules of lower layers, from the ground files (`close`, `error`, `limits`, ...) up to
//! `tunnel`; the test in `layers` checks the order. The modules [`link`], [`mux`], [`websocket`] and [`sync`] are public for
//! tests and fuzzing; a program needs none of them. The only other crate of Fairlead below this one is `fairlead-api`:
//! its error codes and the hub's URL are part of this API, and it does no I/O.

#![deny(missing_docs)]

pub mod accept;
pub mod byte_socket;
mod close;
pub mod dial;
mod error;
mod input_gate;
#[cfg(test)]
mod layers;
mod limits;
pub mod link;
mod link_io;
mod memory;
pub mod mux;
mod path;
mod reset_socket;
#[cfg(test)]
mod rig;
mod secure;
pub mod session;
pub mod sync;
mod tls;
pub mod tunnel;
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
pub use fairlead_api::{Code, HubUrl};
pub use input_gate::{InputGate, PollInput};
pub use limits::{Limits, OUTER_TLS_BUFFER_BYTES};
pub use link_io::{LinkIo, set_link_options};
pub use memory::MemoryBudget;
pub use mux::Stream;
pub use reset_socket::ResetSocket;
pub use session::{Session, Stats};
pub use tls::{ClientTls, HUB_SERVER_NAME, ServerTls, TlsStream};
pub use upgrade::{websocket_accept, websocket_key};
pub use watched::Watched;
pub use wire::{LinkState, Resumable};
