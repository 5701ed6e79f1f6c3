//! Directory for the gateway: existing clusters, their status, and binding of identities to
//! Kubernetes clusters.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{ClusterId, ClusterUid, HubUrl, resources::ClusterStatus};
use fairlead_certs::{AgentIdentity, SerialPrefix};
use fairlead_seam::{AgentHubs, Directory, DirectoryError, Recognition, RemoteHub};
use fairlead_store::{
    Actor, Draft, Record, Store, StoreError, millis,
    model::{CloneSighting, Cluster, hex},
    whole_millis,
};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use time::Duration;
use tokio::sync::broadcast;
use tracing::{info, warn};

use crate::registry::Registry;

/// Minimum interval between updates of a clone's last observation.
const CLONE_RECORD_INTERVAL: Duration = Duration::minutes(10);

/// Error of clusters that were connected when the hub stopped.
pub const RESTARTED: &str = "the hub was restarted";

/// Checks that an identity is valid: its cluster exists, under the same tenant and registration, and its key enrolled
/// last.
///
/// # Errors
/// [`DirectoryError::ClusterDeleted`], [`DirectoryError::Revoked`]
pub fn admit(
    store: &Store,
    identity: &AgentIdentity,
) -> Result<Arc<Record<Cluster>>, DirectoryError> {
    let view = store.view();
    let cluster = view.cluster(&identity.cluster);
    let cluster = cluster.ok_or(DirectoryError::ClusterDeleted)?;
    let revoked = |detail| Err(DirectoryError::Revoked(detail));
    if cluster.value.tenant != identity.tenant {
        return revoked("the cluster has moved to another tenant");
    }
    let registration = cluster.value.binding.registration;
    if !registration.issued(&identity.serial) {
        return revoked("the certificate predates the current registration of the cluster");
    }
    match &cluster.value.binding.agent_key {
        Some(key) if *key == hex::encode(&identity.key) => {}
        Some(_) => return revoked("another key has enrolled or was renewed since"),
        None => return revoked("an operator revoked the identity"),
    }
    let epoch = SerialPrefix::epoch_of(&identity.serial);
    if view
        .authorities()
        .is_some_and(|hub| !hub.value.admits_epoch(epoch))
    {
        return revoked("it predates a restore of the hub, and no admin has confirmed it yet");
    }
    Ok(Arc::clone(cluster))
}

/// Checks that an agent runs in the Kubernetes cluster bound to its identity.
///
/// The first agent that reports a UID binds the cluster. An agent that was replaced is not admitted, so it cannot bind
/// the cluster to its old location.
///
/// # Errors
/// [`DirectoryError::Cloned`], errors of [`admit`], or [`DirectoryError::Unavailable`] if the binding cannot be
/// stored.
async fn recognise(
    registry: &Registry,
    identity: &AgentIdentity,
    uid: Option<&ClusterUid>,
    from: IpAddr,
) -> Result<Recognition, DirectoryError> {
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
    if let Err(error) = record_clone(registry, &identity.cluster, clone).await {
        warn!(cluster = %identity.cluster, %error, "clone not recorded");
    }
    // The UID of the original would help a thief of the identity to pass for it.
    let detail = format!(
        "kube-system of {} has another UID than {uid}, that of this Kubernetes cluster",
        identity.cluster
    );
    Err(DirectoryError::Cloned(detail))
}

/// Binds a cluster to this UID unless it is bound, or another key has enrolled since. Returns the
/// bound UID.
async fn bind(
    registry: &Registry,
    identity: &AgentIdentity,
    uid: ClusterUid,
) -> Result<Option<ClusterUid>, DirectoryError> {
    let (id, key) = (identity.cluster.clone(), hex::encode(&identity.key));
    let decide = move |draft: &mut Draft| {
        let cluster = draft.cluster(&id).ok_or(StoreError::Missing)?;
        let binding = &cluster.value.binding;
        // A concurrent request may have bound it.
        if binding.uid.is_some() || binding.agent_key.as_deref() != Some(&key) {
            return Ok(binding.uid.clone());
        }
        draft.amend_cluster(&id, |it| it.binding.uid = Some(uid.clone()))?;
        Ok(Some(uid.clone()))
    };
    let actor = Actor::Agent(identity.cluster.clone());
    let bound = registry.store.change(actor, decide).await;
    match bound {
        Ok(done) => Ok(done.value),
        Err(StoreError::Missing) => Err(DirectoryError::ClusterDeleted),
        Err(other) => Err(DirectoryError::Unavailable(other.into())),
    }
}

/// Records the last clone of a cluster. A clone returns every minute; most repetitions are not
/// written.
async fn record_clone(
    registry: &Registry,
    id: &ClusterId,
    clone: CloneSighting,
) -> Result<(), StoreError> {
    let known = |cluster: &Cluster| {
        let last = cluster.binding.clone.as_ref();
        last.is_some_and(|last| {
            (&last.uid, last.from) == (&clone.uid, clone.from)
                && clone.seen - last.seen < CLONE_RECORD_INTERVAL
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

/// True for the format of configuration revisions, including outdated ones.
fn is_revision(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[async_trait]
impl Directory for Registry {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), DirectoryError> {
        admit(&self.store, identity).map(drop)
    }

    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, DirectoryError> {
        recognise(self, identity, uid, from).await
    }

    async fn last_status(
        &self,
        cluster: &ClusterId,
    ) -> Result<Option<ClusterStatus>, DirectoryError> {
        let observed = self.store.observed(cluster);
        Ok(observed.map(|it| it.status.clone()))
    }

    async fn report(
        &self,
        cluster: &ClusterId,
        status: ClusterStatus,
    ) -> Result<(), DirectoryError> {
        self.store.set_status(cluster, status);
        Ok(())
    }

    fn other_hub(&self, cluster: &ClusterId) -> Option<HubUrl> {
        self.store.elsewhere(cluster)
    }

    fn own_name(&self) -> Option<Arc<str>> {
        let name = self.store.name();
        (!name.is_empty()).then(|| name.into())
    }

    fn remote_hubs(&self) -> Vec<RemoteHub> {
        let live = self.store.live_hubs();
        let live = live.borrow();
        live.iter()
            .map(|hub| RemoteHub {
                id: Arc::clone(&hub.id),
                url: hub.url.clone(),
                address: hub.address.clone(),
            })
            .collect()
    }

    fn remote_hub_changes(&self) -> Option<BoxStream<'static, ()>> {
        if !self.store.is_shared() {
            return None;
        }
        let changes = stream::unfold(self.store.live_hubs(), async |mut hubs| {
            hubs.changed().await.ok()?;
            Some(((), hubs))
        });
        Some(changes.boxed())
    }

    fn agent_hubs(&self) -> AgentHubs {
        let hubs = self.store.agent_hubs();
        AgentHubs {
            own: hubs.own.clone(),
            list: hubs.list.clone(),
        }
    }

    fn hubs_with_session(&self, cluster: &ClusterId) -> Vec<Arc<str>> {
        self.store.hubs_with_session(cluster)
    }

    fn revocations(&self) -> broadcast::Receiver<ClusterId> {
        self.store.revocations()
    }

    fn desired_config(&self, cluster: &ClusterId) -> Option<Arc<str>> {
        let view = self.store.view();
        let cluster = view.cluster(cluster)?;
        Some(self.services.configurations.revision(&view, cluster))
    }

    fn record_applied_config(&self, cluster: &ClusterId, revision: &str) {
        let Some(observed) = self.store.observed(cluster) else {
            return;
        };
        if !is_revision(revision) || observed.applied.as_deref() == Some(revision) {
            return;
        }
        let now = millis(self.now());
        self.store.observe(cluster, |observed| {
            observed.applied = Some(revision.to_owned());
            observed.applied_at = Some(now);
        });
    }

    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        Some(self.services.configurations.changed())
    }

    fn desired_delivery(&self, cluster: &ClusterId) -> Option<Arc<str>> {
        self.services.desired_deliveries.etag(cluster)
    }

    fn delivery_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        Some(self.services.desired_deliveries.changed())
    }
}
