//! Client of a hub for commands: requests to its API, saved logins, and the files that commands read and write.
//!
//! It never prints and never prompts; its errors are for the caller to report.

pub mod changes;
mod differences;
pub mod documents;
mod environment;
mod exchanged;
pub mod files;
mod http_client;
mod hub_client;
pub mod import;
pub mod kubeconfig;
pub mod logins;
pub mod lookup;
mod proxy_tunnel;
mod query;
mod run_log;
pub mod sign_in;

pub use differences::{Difference, differences};
pub use environment::Environment;
pub use exchanged::{CachedToken, ExchangeStore};
pub use fairlead_dialer::{
    ResetSocket,
    byte_socket::{ByteSocket, ByteSocketError},
};
pub use hub_client::{
    Credential, HubClient, HubError,
    calls::{Precondition, Tagged},
    events::ServerEvent,
    http2::SharedConnections,
    streams::{ByteStream, EventStream},
    tcp::{TcpSocket, TcpTunnel, tunnel_failure},
};
pub use query::query_of;
pub use run_log::RunLog;
