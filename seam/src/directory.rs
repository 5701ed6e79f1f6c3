//! The list of clusters, for the gateway.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{ClusterId, ClusterUid, HubUrl, resources::ClusterStatus};
use fairlead_certs::AgentIdentity;
use futures_util::stream::BoxStream;
use tokio::sync::broadcast;

use crate::error::DirectoryError;

/// Result of matching an agent's Kubernetes cluster with the one that its identity was issued to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// The agent is in its cluster.
    Known,
    /// Not known: the agent sent no UID, or it has an older key than the last enrolled one.
    Unknown,
}

/// Another live hub on the same database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHub {
    /// Name of the hub until it ends.
    pub id: Arc<str>,
    /// Address for people and agents.
    pub url: HubUrl,
    /// Address for the other hubs.
    pub address: HubUrl,
}

/// All live hubs of the database as agents find them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentHubs {
    /// Address of this hub in the list.
    pub own: Option<HubUrl>,
    /// List of all addresses in its form for a header; `None`: agents keep the list that they have.
    pub list: Option<Arc<str>>,
}

/// The list of clusters and their status.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Checks that an agent with this identity may have a session.
    ///
    /// # Errors
    /// [`DirectoryError::ClusterDeleted`] if its cluster is gone, [`DirectoryError::Revoked`] if this
    /// identity is void.
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), DirectoryError>;

    /// Checks the UID of an agent's namespace `kube-system` against its cluster; the first UID binds the cluster.
    ///
    /// `from` is the address of its connection.
    ///
    /// # Errors
    /// [`DirectoryError::Cloned`] if the agent is in another cluster, which is recorded; the errors of
    /// [`Directory::admit`]; [`DirectoryError::Unavailable`] if it cannot be checked now.
    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, DirectoryError>;

    /// Last known status of a cluster without a session here; `None` if the cluster does not exist.
    async fn last_status(
        &self,
        cluster: &ClusterId,
    ) -> Result<Option<ClusterStatus>, DirectoryError>;

    /// Address of another hub that certainly has a session of this cluster now.
    fn other_hub(&self, _cluster: &ClusterId) -> Option<HubUrl> {
        None
    }

    /// Name of this hub among those of its database; `None` if it is the only one.
    fn own_name(&self) -> Option<Arc<str>> {
        None
    }

    /// The other live hubs.
    fn remote_hubs(&self) -> Vec<RemoteHub> {
        Vec::new()
    }

    /// Notified of changes of [`Directory::remote_hubs`]; `None` if there are never any.
    fn remote_hub_changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }

    /// All live hubs as agents find them; sent with each probe.
    fn agent_hubs(&self) -> AgentHubs {
        AgentHubs::default()
    }

    /// Names of the other hubs that have observed a session of this cluster, the best one first.
    fn hubs_with_session(&self, _cluster: &ClusterId) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Stores a changed status of a cluster.
    async fn report(
        &self,
        cluster: &ClusterId,
        status: ClusterStatus,
    ) -> Result<(), DirectoryError>;

    /// Clusters of which an identity was revoked: they were deleted, moved or enrolled again, or a person revoked it. Each
    /// session of the cluster is admitted again.
    fn revocations(&self) -> broadcast::Receiver<ClusterId>;

    /// Revision of the desired configuration of a cluster's agent; sent with each probe.
    fn desired_config(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        None
    }

    /// Notes the configuration revision that a cluster's agent has applied. Called after each probe that reports one.
    fn record_applied_config(&self, _cluster: &ClusterId, _revision: &str) {}

    /// Clusters with a changed desired configuration; their agents are notified at once.
    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        None
    }

    /// ETag of the desired deliveries of a cluster; sent with each probe. `None` before the hub has computed it.
    fn desired_delivery(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        None
    }

    /// Clusters with changed desired deliveries; their agents are notified at once.
    fn delivery_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        None
    }
}
