//! Git proxy: connections of agents to Git servers, for sites whose only way out is the session with the hub.
//!
//! Off without a list of addresses. A cluster reaches the servers of its own repositories only. Names that resolve to
//! private addresses are refused, so that no cluster reaches the hub's own network. A hub behind a proxy connects through
//! it; then the proxy resolves the names, and its rules protect its network.

mod metered;
mod policy;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::{ClusterId, Code, Failure};
use fairlead_certs::AgentIdentity;
use fairlead_dialer::dial::{ProxyRules, Tunnel};
use fairlead_registry::RegistryError;
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_runtime::{Process, proxies::Network};
use fairlead_seam::{Module, Outbound, OutboundIo};
use fairlead_store::Store;
use prometheus::{IntCounterVec, IntGauge, Opts};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tracing::{info, warn};

use metered::{ConnectionRecord, Metered};

pub use policy::{GitAddress, GitAddressError};

const CHECK_PROXY: &str = "Check HTTPS_PROXY of the hub, and that this proxy allows CONNECT to the port; name a Git server that needs no proxy in its NO_PROXY.";
/// Deadline for the name and for the connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Connections of one cluster at a time.
const MAX_PER_CLUSTER: usize = 32;
/// Connections of all clusters at a time.
const MAX_CONNECTIONS: usize = 2048;
/// Time without a byte in either direction, after which a connection ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Settings of the Git proxy.
#[derive(Debug, Clone, Default)]
pub struct GitProxySettings {
    /// Allowed addresses; empty: the proxy is off.
    pub allow: Vec<GitAddress>,
    /// True: each cluster reaches all of them; false: those of its own repositories.
    pub for_all_clusters: bool,
    /// Private networks in which a name may resolve.
    pub private_networks: Vec<Network>,
    /// Proxy of the hub itself.
    pub proxy: ProxyRules,
}

/// Module with the connections of agents to Git servers.
pub(crate) struct GitProxyModule(Arc<GitProxy>);

struct GitProxy {
    store: Store,
    settings: GitProxySettings,
    open: Arc<OpenConnections>,
    requests: IntCounterVec,
}

/// Open connections by cluster.
struct OpenConnections {
    by_cluster: Mutex<HashMap<ClusterId, usize>>,
    gauge: IntGauge,
}

/// Place of one connection.
struct ConnectionSlot {
    open: Arc<OpenConnections>,
    cluster: ClusterId,
}

impl GitProxyModule {
    /// Builds the module.
    ///
    /// # Errors
    /// `FL-5101` for an invalid name of a metric.
    pub(crate) fn shared(
        store: &Store,
        settings: GitProxySettings,
    ) -> Result<Arc<dyn ApiModule>, Failure> {
        let internal = |error: prometheus::Error| Failure::because(Code::Internal, error);
        let help = Opts::new(
            "fairlead_git_proxy_requests_total",
            "Connections that agents requested through the Git proxy, by result.",
        );
        let requests = IntCounterVec::new(help, &["result"]).map_err(internal)?;
        let gauge = IntGauge::new(
            "fairlead_git_proxy_connections",
            "Open connections through the Git proxy.",
        );
        let open = OpenConnections {
            by_cluster: Mutex::default(),
            gauge: gauge.map_err(internal)?,
        };
        Ok(Arc::new(GitProxyModule(Arc::new(GitProxy {
            store: store.clone(),
            settings,
            open: Arc::new(open),
            requests,
        }))))
    }
}

#[async_trait]
impl Module for GitProxyModule {
    fn name(&self) -> &'static str {
        "git-proxy"
    }

    fn outbound(&self) -> Option<Arc<dyn Outbound>> {
        let is_on = !self.0.settings.allow.is_empty();
        is_on.then(|| Arc::clone(&self.0) as Arc<dyn Outbound>)
    }

    async fn run(&self, process: Process) {
        let registry = process.registry();
        for registered in [
            registry.register(Box::new(self.0.requests.clone())),
            registry.register(Box::new(self.0.open.gauge.clone())),
        ] {
            if let Err(error) = registered {
                warn!(%error, "metric of the Git proxy not registered");
            }
        }
        process.draining().await;
    }
}

impl ApiModule for GitProxyModule {
    fn api_routes(&self) -> ApiRoutes {
        ApiRoutes::new()
    }
}

#[async_trait]
impl Outbound for GitProxy {
    async fn connect(
        &self,
        agent: &AgentIdentity,
        target: &str,
    ) -> Result<Box<dyn OutboundIo>, Failure> {
        let opened = self.open(agent, target).await;
        let result = match &opened {
            Ok(_) => "connected",
            Err(failure) if failure.code == Code::GitProxyUnreachable => "unreachable",
            Err(_) => "refused",
        };
        self.requests.with_label_values(&[result]).inc();
        match opened {
            Ok(connection) => Ok(Box::new(connection)),
            Err(failure) => {
                warn!(cluster = %agent.cluster, target, code = %failure.code, cause = failure.cause, "connection through the Git proxy refused");
                Err(failure)
            }
        }
    }
}

impl GitProxy {
    async fn open(
        &self,
        agent: &AgentIdentity,
        target: &str,
    ) -> Result<Metered<TcpStream>, Failure> {
        let address = self.permitted(&agent.cluster, target)?;
        let slot = self.open.acquire(&agent.cluster)?;
        let (tcp, received) = match self.tunnel(agent, &address).await {
            Some(tunnel) => tunnel?,
            None => (self.connect_directly(agent, &address).await?, Bytes::new()),
        };
        let unreachable = |error: io::Error| {
            let cause = format_args!("{address}: {error}");
            Failure::because(Code::GitProxyUnreachable, cause)
        };
        tcp.set_nodelay(true).map_err(unreachable)?;
        let record = ConnectionRecord::begin(agent.cluster.clone(), address, Box::new(slot));
        Ok(Metered::new(tcp, received, IDLE_TIMEOUT, record))
    }

    /// Connection through the hub's own proxy, and the bytes that the server has sent already; `None` without a proxy for
    /// this address.
    async fn tunnel(
        &self,
        agent: &AgentIdentity,
        address: &GitAddress,
    ) -> Option<Result<(TcpStream, Bytes), Failure>> {
        let rules = &self.settings.proxy;
        let opened = rules.tunnel(address.host(), address.port(), CONNECT_DEADLINE);
        Some(match opened.await? {
            Ok(Tunnel {
                tcp,
                received,
                proxy,
            }) => {
                info!(cluster = %agent.cluster, target = %address, proxy, "connection through the Git proxy opened");
                Ok((tcp, received))
            }
            Err(error) => {
                let cause = format_args!("{address}: {}", error.cause);
                Err(Failure::because(Code::GitProxyUnreachable, cause).next(CHECK_PROXY))
            }
        })
    }

    async fn connect_directly(
        &self,
        agent: &AgentIdentity,
        address: &GitAddress,
    ) -> Result<TcpStream, Failure> {
        let unreachable = |cause: &dyn std::fmt::Display| {
            Failure::because(
                Code::GitProxyUnreachable,
                format_args!("{address}: {cause}"),
            )
        };
        let late = || {
            unreachable(&format_args!(
                "no answer within {} s",
                CONNECT_DEADLINE.as_secs()
            ))
        };
        let resolving = lookup_host((address.host(), address.port()));
        let found = timeout(CONNECT_DEADLINE, resolving)
            .await
            .map_err(|_| late())?;
        let found: Vec<SocketAddr> = found.map_err(|error| unreachable(&error))?.collect();
        let is_named = address.host().parse::<IpAddr>().is_err();
        let reachable = found.iter().find(|it| !is_named || self.may_reach(it.ip()));
        let Some(socket) = reachable else {
            let cause = format!("{address} has private addresses only");
            let failure = Failure::because(Code::GitProxyRefused, cause);
            return Err(failure.next("Name their network in the hub's `--git-proxy-private`."));
        };
        let connected = timeout(CONNECT_DEADLINE, TcpStream::connect(socket)).await;
        let tcp = connected
            .map_err(|_| late())?
            .map_err(|error| unreachable(&error))?;
        info!(cluster = %agent.cluster, target = %address, peer = %socket, "connection through the Git proxy opened");
        Ok(tcp)
    }

    fn may_reach(&self, ip: IpAddr) -> bool {
        let listed = || {
            self.settings
                .private_networks
                .iter()
                .any(|it| it.contains(ip))
        };
        policy::is_public(ip) || listed()
    }

    /// The address, if the hub allows it for this cluster.
    fn permitted(&self, cluster: &ClusterId, target: &str) -> Result<GitAddress, Failure> {
        let refused = |cause: String| Failure::because(Code::GitProxyRefused, cause);
        let address: GitAddress = target
            .parse()
            .map_err(|error| refused(format!("{target:?}: {error}")))?;
        if !self.settings.allow.contains(&address) {
            return Err(refused(format!("{address} is not in its list")));
        }
        if self.settings.for_all_clusters {
            return Ok(address);
        }
        let view = self.store.view();
        let record = view.cluster(cluster);
        let record = record.ok_or_else(|| Failure::from(RegistryError::NoSuchCluster))?;
        match policy::of_cluster(&view, &record.value).any(|own| own == address) {
            true => Ok(address),
            false => Err(refused(format!("{cluster} has no repository at {address}"))),
        }
    }
}

impl OpenConnections {
    fn acquire(self: &Arc<Self>, cluster: &ClusterId) -> Result<ConnectionSlot, Failure> {
        let mut by_cluster = self
            .by_cluster
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all: usize = by_cluster.values().sum();
        let own = by_cluster.get(cluster).copied().unwrap_or_default();
        if own >= MAX_PER_CLUSTER || all >= MAX_CONNECTIONS {
            let cause = format!("{own} of this cluster and {all} of all clusters are open");
            return Err(Failure::because(Code::GitProxyFull, cause));
        }
        by_cluster.insert(cluster.clone(), own + 1);
        self.gauge.inc();
        Ok(ConnectionSlot {
            open: Arc::clone(self),
            cluster: cluster.clone(),
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let by_cluster = self.open.by_cluster.lock();
        let mut by_cluster = by_cluster.unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = by_cluster.get_mut(&self.cluster) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                by_cluster.remove(&self.cluster);
            }
        }
        self.open.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_connections() -> Arc<OpenConnections> {
        Arc::new(OpenConnections {
            by_cluster: Mutex::default(),
            gauge: IntGauge::new("open", "Open.").unwrap(),
        })
    }

    #[test]
    fn connections_of_one_cluster_are_bounded_and_return_their_places() {
        let open = open_connections();
        let (one, other): (ClusterId, ClusterId) = ("c-a".parse().unwrap(), "c-b".parse().unwrap());
        let mut held: Vec<_> = (0..MAX_PER_CLUSTER)
            .map(|_| open.acquire(&one).unwrap())
            .collect();
        let refused = open.acquire(&one).err().unwrap();
        assert_eq!(refused.code, Code::GitProxyFull);
        assert!(open.acquire(&other).is_ok(), "another cluster has its own");
        held.pop();
        held.push(open.acquire(&one).unwrap());
        drop(held);
        assert_eq!(open.gauge.get(), 0);
        assert!(open.by_cluster.lock().unwrap().is_empty());
    }
}
