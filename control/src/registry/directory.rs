//! Which clusters exist, how it stands with them, and whether an agent is in the one that its identity was issued to.

use std::net::IpAddr;

use async_trait::async_trait;
use fairlead_api::{
    ClusterId, ClusterUid, Code, Failure,
    resources::{CloneSeen, ClusterStatus},
};
use fairlead_certs::AgentIdentity;
use fairlead_gateway::{Directory, Recognition};
use tokio::sync::broadcast;
use tracing::{info, warn};

use super::Registry;
use crate::{
    hub::Hub,
    store::{Home, StoreError},
};

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

/// Whether an agent is in the Kubernetes cluster that its identity was issued to. The first that tells binds the cluster,
/// if it has the key that enrolled last: one whose place was taken meanwhile must not bind it to where it still runs.
///
/// # Errors
/// `FL-2112`, as of [`admit`], or `FL-5102` if it cannot be bound now.
async fn recognise(
    hub: &Hub,
    identity: &AgentIdentity,
    uid: Option<&ClusterUid>,
    from: IpAddr,
) -> Result<Recognition, Failure> {
    let home = admit(hub, identity)?;
    let Some(uid) = uid else {
        return Ok(Recognition::Unknown);
    };
    let bound = match home.uid {
        Some(bound) => Some(bound),
        None => {
            let cluster = identity.cluster.clone();
            let bound = hub.store.bind_uid(cluster, identity.key, uid.clone());
            let bound = bound.await.map_err(|error| match error {
                StoreError::Missing => Code::ClusterDeleted.into(),
                other => Failure::from(other),
            })?;
            info!(cluster = %identity.cluster, uid = bound.as_ref().map(tracing::field::display), "cluster bound");
            bound
        }
    };
    let Some(bound) = bound else {
        return Ok(Recognition::Unknown);
    };
    if bound == *uid {
        return Ok(Recognition::Known);
    }
    let clone = CloneSeen {
        last_seen: hub.now(),
        from,
        uid: uid.clone(),
    };
    if let Err(error) = hub.store.set_clone(&identity.cluster, &clone).await {
        warn!(cluster = %identity.cluster, %error, "a clone was not written down");
    }
    let detail = format_args!(
        "{} is the one whose kube-system has the UID {bound}, this one's has {uid}",
        identity.cluster
    );
    Err(Failure::because(Code::IdentityCloned, detail))
}

#[async_trait]
impl Directory for Registry {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), Failure> {
        admit(&self.0, identity).map(drop)
    }

    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, Failure> {
        recognise(&self.0, identity, uid, from).await
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
