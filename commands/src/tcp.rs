//! TCP connections into clusters: `fairlead forward`, `fairlead nc` and `fairlead proxy`.

mod forward;
mod forward_spec;
mod http_connect;
mod listener;
mod nc;
mod proxy;
mod relay;
mod socks;

use fairlead_api::{
    ClusterId, Failure,
    tcp::{TcpTarget, TcpTargetError},
};
use fairlead_client::{Environment, HubClient, SharedConnections, TcpTunnel, lookup};

pub(crate) use self::{forward::run as forward, nc::run as nc, proxy::run as proxy};

/// A cluster to connect into.
#[derive(Clone)]
struct TcpCluster {
    hub: HubClient,
    id: ClusterId,
    /// Connections to the hub for several connections into the cluster.
    shared: SharedConnections,
}

impl TcpCluster {
    async fn find(environment: &Environment, name: &str) -> Result<Self, Failure> {
        let hub = HubClient::from_environment(environment)?;
        let id = lookup::find(&hub, name).await?.id;
        let shared = SharedConnections::new(&hub)?;
        Ok(TcpCluster { hub, id, shared })
    }

    /// Opens the only connection. The token is refreshed for each, as for requests.
    async fn open_only(&self, target: &TcpTarget) -> Result<TcpTunnel, Failure> {
        Ok(self.hub.open_tcp(&self.id, target).await?)
    }

    /// Opens one of several connections.
    async fn open(&self, target: &TcpTarget) -> Result<TcpTunnel, Failure> {
        let opened = self.hub.open_tcp_shared(&self.id, target, &self.shared);
        Ok(opened.await?)
    }
}

/// The target in `HOST:PORT` as people and programs write it.
fn target_of(text: &str) -> Result<TcpTarget, TcpTargetError> {
    let (host, port) = text.rsplit_once(':').ok_or(TcpTargetError::NoPort)?;
    TcpTarget::of_input(host, port_of(port)?)
}

fn port_of(text: &str) -> Result<u16, TcpTargetError> {
    let is_plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_plain);
    port.ok_or(TcpTargetError::Port)
}
