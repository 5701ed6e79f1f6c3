//! Values derived from the records of a cluster and its tenant.

use std::{
    collections::HashMap,
    fmt,
    sync::{PoisonError, RwLock},
};

use fairlead_api::ClusterId;

use crate::{model::Cluster, record::Record, revision::Revision, view::View};

/// Number of values of deleted clusters that may accumulate.
const MAX_DELETED_VALUES: usize = 1024;

/// Cache of one value per cluster, valid until the record of the cluster, of its tenant or of the
/// hub's authorities changes.
pub struct DerivedCache<T>(RwLock<HashMap<ClusterId, DerivedValue<T>>>);

struct DerivedValue<T> {
    /// Revisions of the changes that wrote the records. Record versions would not do: they restart
    /// when a record is deleted and created again.
    sources: (Revision, Revision, Revision),
    value: T,
}

impl<T> Default for DerivedCache<T> {
    fn default() -> Self {
        DerivedCache(RwLock::default())
    }
}

impl<T> fmt::Debug for DerivedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedCache").finish_non_exhaustive()
    }
}

impl<T: Clone> DerivedCache<T> {
    /// The value of these records; `None` if it was not stored since their last change.
    #[must_use]
    pub fn find(&self, view: &View, cluster: &Record<Cluster>) -> Option<T> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&cluster.value.id)?;
        (known.sources == sources(view, cluster)).then(|| known.value.clone())
    }

    /// Stores the value of these records and returns the previous value of the cluster.
    pub fn store(&self, view: &View, cluster: &Record<Cluster>, value: T) -> Option<T> {
        let sources = sources(view, cluster);
        let new = DerivedValue { sources, value };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(cluster.value.id.clone(), new);
        if known.len() > view.clusters().len() + MAX_DELETED_VALUES {
            known.retain(|id, _| view.cluster(id).is_some());
        }
        before.map(|before| before.value)
    }
}

fn sources(view: &View, cluster: &Record<Cluster>) -> (Revision, Revision, Revision) {
    let tenant = view.tenant(&cluster.value.tenant);
    (
        cluster.revision,
        tenant.map_or(Revision(0), |tenant| tenant.revision),
        view.authorities().map_or(Revision(0), |hub| hub.revision),
    )
}
