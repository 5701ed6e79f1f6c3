//! One HTTP request and its response on one pooled stream. It knows no routes, and passes heads and
//! bodies on unchanged.
//!
//! An exchange runs in the caller's task: without a task, a channel or a copy of a body. Messages
//! that two parsers could read in two ways are refused, which resets the stream.

mod answer;
mod body;
mod chunked;
mod client;
mod download;
mod error;
mod fields;
mod framing;
mod gather;
mod head;
mod in_flight;
mod incoming;
mod outgoing;
mod pool;
mod request_reader;
mod sending;
mod server;
mod socket;
mod transport;
mod upgrade;

pub use self::{
    answer::Answer,
    body::{Body, BodyError},
    client::{Client, Exchanges, SendError},
    error::{ExchangeError, HttpError},
    outgoing::Outgoing,
    server::{serve, serve_on},
    socket::SocketTransport,
    transport::Transport,
    upgrade::{OnUpgrade, Upgraded},
};

#[cfg(test)]
mod tests;
