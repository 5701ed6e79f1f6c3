//! What is seen of clusters rather than decided: how it stands with them, when they were last heard of. It is in memory,
//! read without a lock, and written down in batches, unsynced: after a crash it is seen again.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use fairlead_api::{
    ClusterId, Code,
    resources::{ClusterStatus, LastError, State},
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::Notify;

use super::{StoreError, error::Result};
use crate::model::FactSource;

/// How long what is seen is gathered before it is written down.
pub(super) const GATHER: Duration = Duration::from_millis(250);

/// What was seen of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    pub status: ClusterStatus,
    /// When each source last reported facts, in milliseconds since 1970, whether or not any was new.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<FactSource, i64>,
    /// By which revision of its configuration its agent works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted_on: Option<String>,
}

impl Observed {
    /// Of a cluster of which nothing was seen since it was made.
    #[must_use]
    pub fn nothing(since: OffsetDateTime) -> Self {
        Observed {
            status: ClusterStatus {
                state: State::Never,
                since,
                last_error: None,
                last_seen: None,
                last_good_probe: None,
            },
            reported: BTreeMap::new(),
            acted_on: None,
        }
    }
}

#[derive(Default)]
pub(super) struct Observations {
    all: ArcSwap<OrdMap<ClusterId, Arc<Observed>>>,
    /// What is not written down yet. Whoever changes `all` holds it.
    dirty: Mutex<BTreeSet<ClusterId>>,
    pub(super) wake: Notify,
}

impl Observations {
    pub(super) fn load(rows: Vec<(String, String)>) -> Result<Self> {
        let mut all = OrdMap::new();
        for (id, body) in rows {
            let damaged = |_| StoreError::Damaged(format!("the status of {id}"));
            let observed: Observed = serde_json::from_str(&body).map_err(damaged)?;
            let id = id.parse().map_err(|_| StoreError::Damaged(id.clone()))?;
            all.insert(id, Arc::new(observed));
        }
        Ok(Observations {
            all: ArcSwap::from_pointee(all),
            ..Observations::default()
        })
    }

    pub(super) fn get(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        self.all.load().get(cluster).cloned()
    }

    pub(super) fn all(&self) -> Arc<OrdMap<ClusterId, Arc<Observed>>> {
        self.all.load_full()
    }

    pub(super) fn change(
        &self,
        cluster: &ClusterId,
        start: impl FnOnce() -> Observed,
        change: impl FnOnce(&mut Observed),
    ) {
        let mut dirty = self.dirty();
        let mut all = OrdMap::clone(&self.all.load());
        let mut observed = all
            .get(cluster)
            .map_or_else(start, |it| Observed::clone(it));
        change(&mut observed);
        if all.get(cluster).is_some_and(|it| **it == observed) {
            return;
        }
        all.insert(cluster.clone(), Arc::new(observed));
        self.all.store(Arc::new(all));
        dirty.insert(cluster.clone());
        self.wake.notify_one();
    }

    pub(super) fn forget<'a>(&self, clusters: impl IntoIterator<Item = &'a ClusterId>) {
        let mut dirty = self.dirty();
        let mut all = OrdMap::clone(&self.all.load());
        for cluster in clusters {
            all.remove(cluster);
            dirty.remove(cluster);
        }
        self.all.store(Arc::new(all));
    }

    /// Sessions do not outlive the hub; says how many clusters seemed connected.
    pub(super) fn lose_sessions(&self, now: OffsetDateTime, cause: &str) -> usize {
        let lost: Vec<ClusterId> = (self.all().iter())
            .filter(|(_, it)| matches!(it.status.state, State::Connected | State::ApiUnreachable))
            .map(|(id, _)| id.clone())
            .collect();
        let error = LastError {
            code: Code::Lost,
            cause: cause.to_owned(),
        };
        for cluster in &lost {
            let lose = |it: &mut Observed| {
                it.status.state = State::Lost;
                it.status.since = now;
                it.status.last_error = Some(error.clone());
            };
            self.change(cluster, || Observed::nothing(now), lose);
        }
        lost.len()
    }

    /// What is to be written down, as rows; to be given back if that fails.
    pub(super) fn gathered(&self) -> (BTreeSet<ClusterId>, Vec<(String, String)>) {
        let clusters = mem::take(&mut *self.dirty());
        let all = self.all.load();
        let rows = clusters.iter().filter_map(|id| {
            let body = serde_json::to_string(all.get(id)?.as_ref()).ok()?;
            Some((id.to_string(), body))
        });
        let rows = rows.collect();
        (clusters, rows)
    }

    pub(super) fn give_back(&self, clusters: BTreeSet<ClusterId>) {
        self.dirty().extend(clusters);
        self.wake.notify_one();
    }

    fn dirty(&self) -> MutexGuard<'_, BTreeSet<ClusterId>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
