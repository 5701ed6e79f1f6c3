//! Desired configuration revision of each cluster, cached per version of its source records: a
//! probe costs one lookup. Subscribers are notified of each new revision.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::{ClusterId, config::AgentConfig};
use fairlead_registry::DesiredConfigs;
use fairlead_store::{
    Record, Revision, Store, View,
    model::{Cluster, hex},
};
use tokio::{sync::broadcast, time::sleep};

use super::document::document;

/// Capacity of the notification queue of a slow subscriber.
const CHANGE_QUEUE_CAPACITY: usize = 1024;
/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(300);

pub(crate) struct DesiredRevisions {
    known: Mutex<HashMap<ClusterId, CachedRevision>>,
    changed: broadcast::Sender<ClusterId>,
}

struct CachedRevision {
    /// Revisions of the changes that wrote the cluster's and the tenant's record. Record versions
    /// would not do: they restart when a record is deleted and created again.
    of: (Revision, Revision),
    revision: Arc<str>,
}

impl Default for DesiredRevisions {
    fn default() -> Self {
        DesiredRevisions {
            known: Mutex::default(),
            changed: broadcast::Sender::new(CHANGE_QUEUE_CAPACITY),
        }
    }
}

impl DesiredConfigs for DesiredRevisions {
    fn revision(&self, view: &View, cluster: &Record<Cluster>) -> Arc<str> {
        self.of(view, cluster)
    }

    fn changed(&self) -> broadcast::Receiver<ClusterId> {
        self.changed.subscribe()
    }
}

impl DesiredRevisions {
    fn known(&self) -> MutexGuard<'_, HashMap<ClusterId, CachedRevision>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The desired revision of a cluster. Notifies subscribers if it is new.
    pub(crate) fn of(&self, view: &View, cluster: &Record<Cluster>) -> Arc<str> {
        let id = &cluster.value.id;
        let tenant = view.tenant(&cluster.value.tenant);
        let of = (
            cluster.revision,
            tenant.map_or(Revision(0), |tenant| tenant.revision),
        );
        if let Some(known) = self.known().get(id)
            && known.of == of
        {
            return Arc::clone(&known.revision);
        }
        let document = document(&cluster.value, tenant.map(|tenant| &tenant.value));
        let revision: Arc<str> = hex::hash_of(&document).into();
        let known = CachedRevision {
            of,
            revision: Arc::clone(&revision),
        };
        let before = self.known().insert(id.clone(), known);
        let is_another = before.is_some_and(|before| before.revision != revision);
        if is_another {
            // Fails without subscribers, which is fine.
            let _ = self.changed.send(id.clone());
        }
        revision
    }

    /// Notifies of each new document until the store closes.
    pub(super) async fn watch(&self, store: &Store) {
        let mut revisions = store.watch();
        loop {
            let view = store.view();
            for cluster in view.clusters() {
                self.of(&view, cluster);
            }
            self.known().retain(|id, _| view.cluster(id).is_some());
            if revisions.changed().await.is_err() {
                return;
            }
            sleep(BATCH_DELAY).await;
            revisions.mark_unchanged();
        }
    }
}

/// A cluster's document with its revision.
pub(super) fn current(view: &View, cluster: &Record<Cluster>) -> (AgentConfig, String) {
    let tenant = view.tenant(&cluster.value.tenant);
    let document = document(&cluster.value, tenant.map(|tenant| &tenant.value));
    let revision = hex::hash_of(&document);
    (document, revision)
}
