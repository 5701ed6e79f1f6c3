//! Metadata watches that deployments share: one per account, kind and label, cluster-wide where the account may.
//!
//! Without the right to watch a kind in the whole cluster, each namespace gets a watch. Without that right, too, objects are
//! compared every ten minutes.

mod scope;
pub(crate) mod session;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use super::{access::DriftAccess, follower::Follower};
use scope::{Route, Scope, ScopeKey};

/// Collections that are watched at the same time; each takes a connection. Objects of others are compared every ten minutes.
const MAX_SCOPES: usize = 200;

/// Watches of all deployments.
pub(super) struct WatchHub {
    access: Arc<dyn DriftAccess>,
    scopes: Mutex<HashMap<ScopeKey, Arc<Scope>>>,
    stop: CancellationToken,
}

impl WatchHub {
    pub(super) fn new(access: Arc<dyn DriftAccess>, stop: CancellationToken) -> Self {
        Self {
            access,
            scopes: Mutex::default(),
            stop,
        }
    }

    /// Routes events of a deployment's objects to it.
    pub(super) fn add(&self, follower: &Arc<Follower>) {
        let deployment = &follower.deployment;
        let mut scopes = self.lock();
        for (index, object) in deployment.objects.iter().enumerate() {
            let key = ScopeKey {
                account: deployment.account.clone(),
                collection: object.resource.collection_path(None),
                selector: deployment.owner.selector(),
            };
            let is_full = scopes.len() >= MAX_SCOPES && !scopes.contains_key(&key);
            if is_full || !object.resource.is_watchable {
                follower.set_watched(index, false);
                continue;
            }
            let scope = scopes.entry(key).or_insert_with_key(|key| {
                let scope = Arc::new(Scope::new(
                    key.clone(),
                    object.resource.clone(),
                    self.stop.child_token(),
                ));
                let (task, access) = (scope.clone(), self.access.clone());
                tokio::spawn(async move { task.run(access).await });
                scope
            });
            scope.add(
                object.key.namespace.as_deref(),
                &object.key.name,
                Route::new(follower, index),
            );
        }
    }

    /// Ends the routes of a deployment, and watches without any.
    pub(super) fn remove(&self, follower: &Arc<Follower>) {
        self.lock().retain(|_, scope| {
            let is_used = scope.remove(follower);
            if !is_used {
                scope.stop();
            }
            is_used
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ScopeKey, Arc<Scope>>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
