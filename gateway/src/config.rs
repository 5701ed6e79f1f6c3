//! Settings of a gateway.

use std::{sync::Arc, time::Duration};

use fairlead_api::HubUrl;
use rustls::ServerConfig;
use tokio::sync::watch;

/// What a gateway needs to start.
pub struct Config {
    /// Where people and agents reach it. Its host is the hub's own name; any other host that is no cluster's is taken
    /// for the hub too, so that a load balancer may have a name of its own.
    pub public_url: HubUrl,
    /// Clusters answer as `<id>.<cluster_domain>` too.
    pub cluster_domain: String,
    /// TLS of the front, with `h2` and `http/1.1` by ALPN; taken afresh for each connection.
    pub front_tls: watch::Receiver<Arc<ServerConfig>>,
    /// TLS inside a session; taken afresh for each session.
    pub session_tls: watch::Receiver<Arc<ServerConfig>>,
    /// Trust domain of agents' identities.
    pub trust_domain: String,
    /// How long a cluster may be silent before the head of its answer, `FL-1405`. It does not run while the request's
    /// body moves. 60 s suits: it is the API server's own limit.
    pub head_timeout: Duration,
    /// How many requests of one caller may be under way, watches and upgrades included; the next is told `FL-1407`.
    pub max_requests_per_caller: usize,
    /// How long a session whose link broke waits for its agent. Zero: it ends with its link.
    pub resume_window: Duration,
    /// What all sessions may hold together, in bytes, beyond 256 KiB each of messages that are not acknowledged and the
    /// first 256 KiB of each stream's window. Where it is used up, bulk slows down.
    pub session_memory: usize,
}
