//! Which clusters exist, and how it stands with them.

use async_trait::async_trait;
use fairlead_api::{ClusterId, Code, Failure, resources::ClusterStatus};
use fairlead_certs::AgentIdentity;
use fairlead_gateway::Directory;
use tokio::sync::broadcast;

use super::Registry;
use crate::{hub::Hub, store::Home};

/// Said of every cluster that was connected when the hub stopped.
pub(crate) const RESTARTED: &str = "the hub was restarted";

/// Whether an identity is still good: its cluster exists, is the same tenant's, and is the very one it was issued to.
///
/// # Errors
/// `FL-2109`, `FL-2107`
pub(crate) fn admit(hub: &Hub, identity: &AgentIdentity) -> Result<Home, Failure> {
    let home = hub
        .store
        .home(&identity.cluster)
        .ok_or(Code::ClusterDeleted)?;
    let foreign = |detail: &str| Err(Failure::because(Code::ForeignCertificate, detail));
    if home.tenant != identity.tenant {
        return foreign("the cluster belongs to another tenant now");
    }
    if !home.registration.issued(&identity.serial) {
        return foreign("it was issued before the cluster was registered again");
    }
    Ok(home)
}

#[async_trait]
impl Directory for Registry {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), Failure> {
        admit(&self.0, identity).map(drop)
    }

    async fn last_status(&self, cluster: &ClusterId) -> Result<Option<ClusterStatus>, Failure> {
        let row = self.0.store.cluster(cluster, None).await?;
        Ok(row.map(|row| row.status))
    }

    async fn report(&self, cluster: &ClusterId, status: ClusterStatus) -> Result<(), Failure> {
        Ok(self.0.store.set_status(cluster, &status).await?)
    }

    fn deleted(&self) -> broadcast::Receiver<ClusterId> {
        self.0.deleted.subscribe()
    }
}
