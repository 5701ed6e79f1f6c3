//! Formats of Kubernetes' long requests, without I/O: positions in them, and their last message when the hub ends a request.
//!
//! ```text
//! answers, cbor       streamed answers: events of a watch, lines of a log
//! farewell            upgraded connections: exec, attach, port-forward
//! forwards, spdy      streams of a port-forward over SPDY/3.1, plain or in a WebSocket
//! ```

mod answers;
mod cbor;
mod farewell;
mod forwards;
pub mod spdy;

pub use answers::StreamFormat;
pub use farewell::{Farewell, LastBytes};
pub use forwards::{ForwardStreams, Tunnel};
