//! Named services: addresses in clusters for which the gateway listens.

use fairlead_api::{
    ClusterId, TenantId,
    resources::{Role, ServiceName, ServiceState},
    tcp::{HostName, TcpTarget},
};
use fairlead_runtime::proxies::Network;
use futures_util::stream::BoxStream;
use std::{net::IpAddr, sync::Arc};

use crate::{caller::Caller, grants::ClusterScope};

/// A service that an admin of its cluster has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedService {
    /// Name of the service.
    pub name: ServiceName,
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Target in the cluster.
    pub target: TcpTarget,
    /// How the gateway recognizes connections.
    pub entry: ServiceEntry,
    /// Networks of clients.
    pub from: Vec<Network>,
}

/// How the gateway recognizes the connections of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceEntry {
    /// By a port of the hub.
    Port(u16),
    /// By the host of a request.
    HttpHost {
        /// The host.
        host: HostName,
        /// True: a request needs a token of the hub.
        callers: bool,
    },
    /// By the server name of TLS.
    TlsName(HostName),
}

impl NamedService {
    /// True if the service admits clients with this address.
    #[must_use]
    pub fn admits(&self, client: IpAddr) -> bool {
        self.from.iter().any(|it| it.contains(client))
    }

    /// The service as a caller: it opens TCP connections into its own cluster, and nothing else.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller {
            name: format!("service:{}", self.name),
            token: None,
            role: Role::Tcp,
            tenant: Some(self.tenant.clone()),
            clusters: ClusterScope::One(self.cluster.clone()),
            namespaces: Vec::new(),
            grants: Arc::default(),
            subject: None,
            expires: None,
        }
    }
}

/// The named services of the hub, from memory.
pub trait NamedServices: Send + Sync {
    /// All services, in no order.
    fn list(&self) -> Vec<NamedService>;

    /// Notified of changes of [`NamedServices::list`].
    fn changes(&self) -> BoxStream<'static, ()>;

    /// Notes the state of a service at this hub.
    fn report(&self, service: &NamedService, state: ServiceState);
}
