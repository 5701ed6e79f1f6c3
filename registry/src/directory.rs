//! Which clusters exist, how it stands with them, and whether an agent is in the one that its identity was issued to.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{ClusterId, ClusterUid, Code, Failure, HubUrl, resources::ClusterStatus};
use fairlead_certs::AgentIdentity;
use fairlead_gateway::{Directory, Recognition};
use fairlead_store::{
    Actor, Draft, Record, Store, StoreError,
    model::{CloneSighting, Cluster, hex},
    whole_millis,
};
use time::Duration;
use tokio::sync::broadcast;
use tracing::{info, warn};

use crate::registry::Registry;

/// How stale the time may be at which a clone was last seen.
const SIGHTED_EVERY: Duration = Duration::minutes(10);

/// Said of every cluster that was connected when the hub stopped.
pub const RESTARTED: &str = "the hub was restarted";

/// Whether an identity is still good: its cluster exists, is the same tenant's, and is the very one it was issued to.
///
/// # Errors
/// `FL-2109`, `FL-2107`
pub fn admit(store: &Store, identity: &AgentIdentity) -> Result<Arc<Record<Cluster>>, Failure> {
    let view = store.view();
    let cluster = view.cluster(&identity.cluster);
    let cluster = cluster.ok_or(Code::ClusterDeleted)?;
    let foreign = |detail: &str| Err(Failure::because(Code::ForeignCertificate, detail));
    if cluster.value.tenant != identity.tenant {
        return foreign("the cluster belongs to another tenant now");
    }
    let registration = cluster.value.binding.registration;
    if !registration.issued(&identity.serial) {
        return foreign("it was issued before the cluster was registered again");
    }
    Ok(Arc::clone(cluster))
}

/// Whether an agent is in the Kubernetes cluster that its identity was issued to. The first that tells binds the cluster,
/// if it has the key that enrolled last: one whose place was taken meanwhile must not bind it to where it still runs.
///
/// # Errors
/// `FL-2112`, as of [`admit`], or `FL-5102` if it cannot be bound now.
async fn recognise(
    registry: &Registry,
    identity: &AgentIdentity,
    uid: Option<&ClusterUid>,
    from: IpAddr,
) -> Result<Recognition, Failure> {
    let cluster = admit(&registry.store, identity)?;
    let Some(uid) = uid else {
        return Ok(Recognition::Unknown);
    };
    let bound = match &cluster.value.binding.uid {
        Some(bound) => Some(bound.clone()),
        None => {
            let bound = bind(registry, identity, uid.clone()).await?;
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
    let clone = CloneSighting {
        seen: whole_millis(registry.now()),
        from,
        uid: uid.clone(),
    };
    if let Err(error) = sighted(registry, &identity.cluster, clone).await {
        warn!(cluster = %identity.cluster, %error, "a clone was not written down");
    }
    let detail = format_args!(
        "{} is the one whose kube-system has the UID {bound}, this one's has {uid}",
        identity.cluster
    );
    Err(Failure::because(Code::IdentityCloned, detail))
}

/// Binds a cluster to this UID, unless it is bound, or another key has enrolled last. What it is bound to then.
async fn bind(
    registry: &Registry,
    identity: &AgentIdentity,
    uid: ClusterUid,
) -> Result<Option<ClusterUid>, Failure> {
    let (id, key) = (identity.cluster.clone(), hex::encode(&identity.key));
    let decide = move |draft: &mut Draft| {
        let cluster = draft.cluster(&id).ok_or(StoreError::Missing)?;
        let binding = &cluster.value.binding;
        // Somebody may have been faster.
        if binding.uid.is_some() || binding.enrolled().is_some_and(|last| *last != key) {
            return Ok(binding.uid.clone());
        }
        draft.amend_cluster(&id, |it| it.binding.uid = Some(uid.clone()))?;
        Ok(Some(uid.clone()))
    };
    let actor = Actor::Agent(identity.cluster.clone());
    let bound = registry.store.change(actor, decide).await;
    match bound {
        Ok(done) => Ok(done.value),
        Err(StoreError::Missing) => Err(Code::ClusterDeleted.into()),
        Err(other) => Err(other.into()),
    }
}

/// Keeps the last clone that was seen of a cluster. It comes back every minute, which is not worth a change each time.
async fn sighted(
    registry: &Registry,
    id: &ClusterId,
    clone: CloneSighting,
) -> Result<(), StoreError> {
    let known = |cluster: &Cluster| {
        let last = cluster.binding.clone.as_ref();
        last.is_some_and(|last| {
            (&last.uid, last.from) == (&clone.uid, clone.from)
                && clone.seen - last.seen < SIGHTED_EVERY
        })
    };
    let view = registry.store.view();
    if view.cluster(id).is_none_or(|it| known(&it.value)) {
        return Ok(());
    }
    let cluster = id.clone();
    let decide = move |draft: &mut Draft| {
        draft.amend_cluster(&cluster, |it| it.binding.clone = Some(clone.clone()))
    };
    let done = registry
        .store
        .change(Actor::Agent(id.clone()), decide)
        .await;
    done.map(drop)
}

#[async_trait]
impl Directory for Registry {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), Failure> {
        admit(&self.store, identity).map(drop)
    }

    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, Failure> {
        recognise(self, identity, uid, from).await
    }

    async fn last_status(&self, cluster: &ClusterId) -> Result<Option<ClusterStatus>, Failure> {
        let observed = self.store.observed(cluster);
        Ok(observed.map(|it| it.status.clone()))
    }

    async fn report(&self, cluster: &ClusterId, status: ClusterStatus) -> Result<(), Failure> {
        self.store.set_status(cluster, status);
        Ok(())
    }

    fn other_hub(&self, cluster: &ClusterId) -> Option<HubUrl> {
        self.store.elsewhere(cluster)
    }

    fn deletions(&self) -> broadcast::Receiver<ClusterId> {
        self.deleted.subscribe()
    }

    fn desired_config(&self, cluster: &ClusterId) -> Option<Arc<str>> {
        let view = self.store.view();
        let cluster = view.cluster(cluster)?;
        Some(self.services.configurations.revision(&view, cluster))
    }

    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        Some(self.services.configurations.changed())
    }
}
