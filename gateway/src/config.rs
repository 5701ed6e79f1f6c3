//! Settings of a gateway.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fairlead_api::HubUrl;
use fairlead_runtime::proxies::Proxies;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;

use crate::hub::MAX_HANDSHAKES;

/// Settings of a gateway.
pub struct Config {
    /// Public address of the hub, for users and agents.
    ///
    /// Its host is the hub's own name. Any other host that names no cluster counts as the hub too, so that a load
    /// balancer may have a name of its own.
    pub public_url: HubUrl,
    /// Domain of the clusters: each also has the address `<id>.<cluster_domain>`.
    pub cluster_domain: String,
    /// TLS of the front, with `h2` and `http/1.1` by ALPN; read for each connection.
    pub front_tls: watch::Receiver<Arc<ServerConfig>>,
    /// TLS inside a session; read for each session.
    pub session_tls: watch::Receiver<Arc<ServerConfig>>,
    /// TLS inside of the sessions that this hub opens at other hubs; read for each session.
    pub hub_tls: watch::Receiver<Arc<ClientConfig>>,
    /// Trust domain of agents' identities.
    pub trust_domain: String,
    /// Limits that the operator may change.
    pub limits: GatewayLimits,
    /// Proxies in front of the gateway.
    pub proxies: Proxies,
    /// Address for the ports of named services; `None`: no ports.
    pub service_listen: Option<IpAddr>,
}

/// Limits of a gateway.
#[derive(Debug, Clone, Copy)]
pub struct GatewayLimits {
    /// Time without the head of an answer after which a request fails with `FL-1405`.
    ///
    /// It does not run while the request's body moves. 60 s is the API server's own limit.
    pub head_timeout: Duration,
    /// Concurrent requests of one caller, watches and upgrades included; beyond it `FL-1407`.
    pub max_requests_per_caller: usize,
    /// Time after which an answer is reset if its client takes nothing of it.
    pub stall_timeout: Duration,
    /// Time for which a session with a broken link waits for its agent. Zero: the session ends with its link.
    pub resume_window: Duration,
    /// Time after the start of the drain in which a hub among several still serves new requests, so that load balancers notice.
    pub drain_delay: Duration,
    /// Memory budget of all sessions, in bytes.
    ///
    /// Each session has 256 KiB of unacknowledged messages beside it, and each stream the first 256 KiB of its window.
    /// A used-up budget slows bulk transfers down.
    pub session_memory: usize,
    /// Clusters with metrics of their own; the others share a row.
    pub metric_clusters: usize,
    /// Places for handshakes of agents after their upgrade; a full pool gives the oldest of the largest address away.
    pub max_session_handshakes: usize,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        GatewayLimits {
            head_timeout: Duration::from_secs(60),
            // Enough for a person with some controllers, but not all of the hub's capacity.
            max_requests_per_caller: 1000,
            stall_timeout: Duration::from_secs(30),
            resume_window: Duration::from_secs(60),
            // Some rounds of a health check.
            drain_delay: Duration::from_secs(5),
            session_memory: 1 << 30,
            metric_clusters: 100,
            max_session_handshakes: MAX_HANDSHAKES,
        }
    }
}
