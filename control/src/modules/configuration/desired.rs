//! Desired configuration revision of each cluster, cached per version of its source records: a
//! probe costs one lookup. Subscribers are notified of each new revision.

use std::{sync::Arc, time::Duration};

use fairlead_api::{CaPin, ClusterId, config::AgentConfig};
use fairlead_registry::{DesiredConfigs, RepoStatus};
use fairlead_store::{
    DerivedCache, Record, Store, View,
    model::{Cluster, RepoPhase, hex},
};
use tokio::{sync::broadcast, time::sleep};

use super::document::document;

/// Capacity of the notification queue of a slow subscriber.
const CHANGE_QUEUE_CAPACITY: usize = 1024;
/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(300);

pub(crate) struct DesiredRevisions {
    known: DerivedCache<Arc<str>>,
    changed: broadcast::Sender<ClusterId>,
    repositories: Arc<dyn RepoStatus>,
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
    /// `repositories`: their status at the Git servers.
    pub(crate) fn new(repositories: Arc<dyn RepoStatus>) -> Self {
        DesiredRevisions {
            known: DerivedCache::default(),
            changed: broadcast::Sender::new(CHANGE_QUEUE_CAPACITY),
            repositories,
        }
    }

    /// The desired revision of a cluster. Notifies subscribers if it is new.
    pub(crate) fn of(&self, view: &View, cluster: &Record<Cluster>) -> Arc<str> {
        if let Some(revision) = self.known.find(view, cluster) {
            return revision;
        }
        let (_, revision) = self.current(view, cluster);
        let revision: Arc<str> = revision.into();
        let before = self.known.store(view, cluster, Arc::clone(&revision));
        if before.is_some_and(|before| before != revision) {
            // Fails without subscribers, which is fine.
            let _ = self.changed.send(cluster.value.id.clone());
        }
        revision
    }

    /// A cluster's document with its revision.
    pub(super) fn current(&self, view: &View, cluster: &Record<Cluster>) -> (AgentConfig, String) {
        let cluster = &cluster.value;
        let tenant = view.tenant(&cluster.tenant).map(|it| &it.value);
        let template = tenant.and_then(|it| it.cluster_template.as_ref());
        let state = self.repositories.of_cluster(cluster, template);
        let registered = state.is_some_and(|it| it.phase == RepoPhase::Created);
        let document = document(cluster, tenant, pins(view), registered);
        let revision = hex::hash_of(&document);
        (document, revision)
    }

    /// Notifies of each new document until the store closes.
    pub(super) async fn watch(&self, store: &Store) {
        let mut revisions = store.watch();
        loop {
            let view = store.view();
            for cluster in view.clusters() {
                self.of(&view, cluster);
            }
            if revisions.changed().await.is_err() {
                return;
            }
            sleep(BATCH_DELAY).await;
            revisions.mark_unchanged();
        }
    }
}

fn pins(view: &View) -> Vec<CaPin> {
    view.authorities()
        .map_or_else(Vec::new, |hub| hub.value.pins())
}
