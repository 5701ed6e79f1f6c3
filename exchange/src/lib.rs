//! HTTP/1.1 on a stream or a connection: one request and its response at a time, from a pool. It knows no routes, and
//! passes heads and bodies on unchanged.
//!
//! ```text
//! server       client, download       one exchange after the other; a response as a body
//! policy, head_deadline               peers and clients of a server; the deadline of a head
//! request_reader      in_flight       one exchange, driven by polling
//! shared_reader                       the body of a served request
//! sending              incoming       bodies, each way
//! head, framing, chunked, fields      the codec: bytes to heads and bodies, and back
//! lines                               heads without a map, for a proxy that filters fields
//! pool                                idle transports
//! transport, socket                   a stream of a session, or a TCP or TLS connection
//! upgrade, splice, frames             a raw stream after its 101: copied both ways, pings of kubectl found
//! ```
//!
//! An exchange runs in the caller's task: without a task, a channel or a copy of a body. Messages
//! that two parsers could read in two ways are refused, which resets the stream.
//!
//! Each module imports only modules of lower layers; the test in `layers` checks the order.

mod answer;
pub mod body;
mod chunked;
mod client;
mod date;
mod download;
mod error;
mod fields;
pub mod frames;
mod framing;
mod gather;
mod head;
mod head_deadline;
mod in_flight;
mod incoming;
#[cfg(test)]
mod layers;
mod lines;
mod outgoing;
mod policy;
mod pool;
pub mod redirect;
mod request_reader;
#[cfg(test)]
mod rig;
mod sending;
mod server;
mod shared_reader;
mod socket;
pub mod splice;
mod transport;
mod upgrade;

pub use answer::Answer;
pub use body::{Body, BodyError};
pub use client::{Client, Exchanges, PreparedRequest, RepeatableRequest, SendError};
pub use error::{ExchangeError, HttpError};
pub use lines::{
    Line, LineIndex, LineSet, Lines, MAX_LINES, NameBuffer,
    reply::{RelayedResponse, Reply},
    request::{ReceivedRequest, RequestLines, WrittenLines},
    response::{LinesAnswer, ResponseLines},
};
pub use outgoing::Outgoing;
pub use policy::{ClientSettings, ConnectionShutdown};
pub use server::{serve, serve_clients, serve_lines, serve_on};
pub use socket::SocketTransport;
pub use splice::{Spliced, splice, splice_watched};
pub use transport::Transport;
pub use upgrade::{OnUpgrade, Upgraded};

#[cfg(test)]
mod tests;
