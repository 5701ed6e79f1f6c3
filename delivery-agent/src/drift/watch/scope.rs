//! Watch of one kind for one account, and the objects that it serves.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_manifests::Scope as KindScope;
use serde_json::Value;
use tokio::{select, sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::{
    super::{access::DriftAccess, follower::Follower},
    session::{Notice, Position, WatchEnd, watch},
};
use crate::kube::{ApiResource, Query};

/// Delays after failures: doubled each time, and spread by half.
const RETRY_INTERVAL_MIN: Duration = Duration::from_secs(1);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Time to the next try after a missing right.
const FORBIDDEN_INTERVAL: Duration = Duration::from_secs(600);

/// Identity of a shared watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScopeKey {
    pub(super) account: String,
    /// Path of all objects of the kind, which names the scope.
    pub(super) collection: String,
    pub(super) selector: &'static str,
}

/// Receiver of an object's events.
#[derive(Clone)]
pub(super) struct Route {
    follower: Arc<Follower>,
    index: usize,
}

impl Route {
    pub(super) fn new(follower: &Arc<Follower>, index: usize) -> Self {
        Self {
            follower: follower.clone(),
            index,
        }
    }
}

/// Namespace and name; the namespace is empty for objects of the cluster.
type Place = (String, String);

/// A shared watch.
pub(super) struct Scope {
    key: ScopeKey,
    resource: Arc<ApiResource>,
    routes: Mutex<HashMap<Place, Vec<Route>>>,
    /// The set of namespaces may have changed.
    changed: Notify,
    stop: CancellationToken,
}

impl Scope {
    pub(super) fn new(key: ScopeKey, resource: Arc<ApiResource>, stop: CancellationToken) -> Self {
        Self {
            key,
            resource,
            routes: Mutex::default(),
            changed: Notify::new(),
            stop,
        }
    }

    pub(super) fn add(&self, namespace: Option<&str>, name: &str, route: Route) {
        let place = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.lock().entry(place).or_default().push(route);
        self.changed.notify_one();
    }

    /// Removes the routes of a deployment. False if none is left.
    pub(super) fn remove(&self, follower: &Arc<Follower>) -> bool {
        let mut routes = self.lock();
        routes.retain(|_, routes| {
            routes.retain(|it| !Arc::ptr_eq(&it.follower, follower));
            !routes.is_empty()
        });
        self.changed.notify_one();
        !routes.is_empty()
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Vec<Route>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches until [`Scope::stop`].
    pub(super) async fn run(self: Arc<Self>, access: Arc<dyn DriftAccess>) {
        let stop = self.stop.clone();
        let work = async {
            loop {
                self.watch_place(&access, None).await;
                if self.resource.scope == KindScope::Namespaced {
                    info!(kind = %self.resource.kind.kind, account = self.key.account,
                        "account may not watch the kind in all namespaces");
                    self.watch_namespaces(&access).await;
                }
                self.set_watched(None, false);
                sleep(FORBIDDEN_INTERVAL).await;
            }
        };
        select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// Watches each namespace with objects. It never returns.
    async fn watch_namespaces(self: &Arc<Self>, access: &Arc<dyn DriftAccess>) {
        let mut children = HashMap::<String, tokio_util::sync::DropGuard>::new();
        loop {
            let namespaces: HashSet<_> = self.lock().keys().map(|it| it.0.clone()).collect();
            children.retain(|namespace, _| namespaces.contains(namespace));
            for namespace in namespaces {
                let child = children.entry(namespace);
                child.or_insert_with_key(|namespace| {
                    let stop = self.stop.child_token();
                    let (scope, access) = (self.clone(), access.clone());
                    let (namespace, stopped) = (namespace.clone(), stop.clone());
                    tokio::spawn(async move {
                        let work = async {
                            loop {
                                scope.watch_place(&access, Some(&namespace)).await;
                                scope.set_watched(Some(&namespace), false);
                                sleep(FORBIDDEN_INTERVAL).await;
                            }
                        };
                        select! {
                            () = stopped.cancelled() => {}
                            () = work => {}
                        }
                    });
                    stop.drop_guard()
                });
            }
            self.changed.notified().await;
        }
    }

    /// Watches all namespaces, or one, until the account may not.
    async fn watch_place(&self, access: &Arc<dyn DriftAccess>, namespace: Option<&str>) {
        let path = self.resource.collection_path(namespace);
        let query = Query::of_labels(self.key.selector).metadata_only();
        let mut position = Position::default();
        let mut listed = HashSet::new();
        let mut failures = 0;
        loop {
            let end = match access.observer(&self.key.account).await {
                Err(error) => {
                    debug!(%error, path, "watch has no client");
                    None
                }
                Ok(api) => {
                    let mut notify = |notice: Notice<'_>| {
                        failures = 0;
                        self.take(notice, namespace, &mut listed);
                    };
                    Some(watch(api.as_ref(), &path, &query, &mut position, &mut notify).await)
                }
            };
            match end {
                Some(WatchEnd::Forbidden) => return,
                Some(WatchEnd::Ended | WatchEnd::Expired) => {}
                Some(WatchEnd::Failed(error)) => {
                    debug!(%error, path, "watch failed");
                    failures += 1;
                }
                None => failures += 1,
            }
            listed.clear();
            sleep(delay(failures)).await;
        }
    }

    fn take(&self, notice: Notice<'_>, namespace: Option<&str>, listed: &mut HashSet<Place>) {
        match notice {
            Notice::Open => self.set_watched(namespace, true),
            Notice::Present(object) => {
                let place = place(object);
                let routes = self.lock().get(&place).cloned();
                if let Some(routes) = routes {
                    for route in &routes {
                        route.follower.observe(route.index, object);
                    }
                    listed.insert(place);
                }
            }
            Notice::Ended(object) => {
                let routes = self.lock().get(&place(object)).cloned();
                for route in routes.unwrap_or_default() {
                    route.follower.observe_end(route.index);
                }
            }
            Notice::Listed => {
                let missing: Vec<_> = self
                    .lock()
                    .iter()
                    .filter(|(place, _)| {
                        namespace.is_none_or(|it| it == place.0) && !listed.contains(place)
                    })
                    .flat_map(|(_, routes)| routes.clone())
                    .collect();
                for route in missing {
                    route.follower.observe_end(route.index);
                }
                listed.clear();
            }
        }
    }

    fn set_watched(&self, namespace: Option<&str>, is_watched: bool) {
        let routes = self.lock();
        let of_place = routes
            .iter()
            .filter(|(place, _)| namespace.is_none_or(|it| it == place.0));
        for route in of_place.flat_map(|(_, routes)| routes) {
            route.follower.set_watched(route.index, is_watched);
        }
    }
}

fn place(object: &Value) -> Place {
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    (text("/metadata/namespace"), text("/metadata/name"))
}

fn delay(failures: u32) -> Duration {
    let base = RETRY_INTERVAL_MIN * 2_u32.saturating_pow(failures.min(6));
    let base = base.min(RETRY_INTERVAL_MAX);
    let spread = u32::try_from(RandomState::new().hash_one(0) % 512).unwrap_or_default();
    base / 2 + base * spread / 1024
}
