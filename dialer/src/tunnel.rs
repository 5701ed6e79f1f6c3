//! Tunnels for programs of others: an agent behind a firewall serves HTTP and TCP, a hub reaches both.
//!
//! ```text
//! hub                                             agent
//! AgentListener: accepts, authenticates           SessionSupervisor: dials, resumes, dials anew
//! SessionConnector: hyper's client, on a stream   StreamServer: a tower service, on each stream
//! TargetStream, forward: CONNECT on a stream      StreamServer: TCP to allowed targets
//! ```
//!
//! Each part is optional: all of them use public items of the layers below only. The `examples` folder has a hub and an
//! agent of fewer than 60 lines each.

mod connector;
mod listener;
mod stream_server;
mod supervisor;
mod target;
mod tls_files;

pub use self::{
    connector::SessionConnector,
    listener::{AcceptedAgent, AgentCredentials, AgentListener},
    stream_server::StreamServer,
    supervisor::SessionSupervisor,
    target::{TargetError, TargetStream, forward},
    tls_files::{AgentTls, HubTls, TlsFilesError},
};

/// Error of a service or a body, as hyper takes it.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests;
