//! Rows of deployments: those of other hubs are read, and removed ones deleted once all hubs have read them.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use fairlead_api::{BundleId, ClusterId};
use fairlead_delivery_store::{DeploymentRow, DeploymentStore};
use fairlead_rollout::UnixMillis;
use fairlead_store::StoreError;

use super::{Fleet, supervisor::lock};

/// Time for which removed rows are kept, so that each hub reads them.
pub(super) const REMOVED_ROWS_KEPT: Duration = Duration::from_secs(600);
/// Time without a read after which a hub reads all rows again. Shorter than [`REMOVED_ROWS_KEPT`], because that hub may
/// have missed removed rows.
const READ_GAP_MAX: Duration = Duration::from_secs(300);

/// Reader and collector of the rows.
pub(super) struct StoredRows {
    store: DeploymentStore,
    /// Time of the last read, and number of its last row; `None` before the first one.
    read: Option<(UnixMillis, i64)>,
    /// True if removed rows were read since the last mark.
    has_removed: bool,
    /// Removed rows up to this number were read by this time.
    marked: Option<(UnixMillis, i64)>,
}

impl StoredRows {
    pub(super) fn new(store: DeploymentStore) -> Self {
        StoredRows {
            store,
            read: None,
            has_removed: false,
            marked: None,
        }
    }

    /// True before the first read.
    pub(super) const fn is_unread(&self) -> bool {
        self.read.is_none()
    }

    /// Takes new rows into the fleet: all at first, and after a long time without a read.
    pub(super) async fn read(
        &mut self,
        fleet: &Mutex<Fleet>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let last = self.read;
        let is_gap = last.is_some_and(|(at, _)| now.since(at) > READ_GAP_MAX);
        let since = last.filter(|_| !is_gap).map_or(-1, |(_, number)| number);
        let mut found: BTreeSet<(ClusterId, BundleId)> = BTreeSet::new();
        let has_removed = &mut self.has_removed;
        let take = |row: DeploymentRow| {
            *has_removed |= row.body.is_empty();
            lock(fleet).take_row(&row.cluster, &row.bundle, &row.body, now);
            if is_gap {
                found.insert((row.cluster, row.bundle));
            }
        };
        let until = self.store.read(since, take).await?;
        if is_gap {
            lock(fleet).forget_absent_rows(&found);
        }
        self.read = Some((now, until));
        Ok(())
    }

    /// Writes rows. Removed ones of a hub that is alone are deleted at once.
    pub(super) async fn write(
        &self,
        rows: &[DeploymentRow],
        is_shared: bool,
    ) -> Result<(), StoreError> {
        self.store.write(rows).await?;
        if !is_shared && rows.iter().any(|it| it.body.is_empty()) {
            self.store.forget_removed(i64::MAX).await?;
        }
        Ok(())
    }

    /// Deletes removed rows that all hubs have read. The leading hub calls it.
    pub(super) async fn collect(&mut self, now: UnixMillis) -> Result<(), StoreError> {
        let due = self
            .marked
            .filter(|(at, _)| now.since(*at) >= REMOVED_ROWS_KEPT);
        if let Some((_, until)) = due {
            self.store.forget_removed(until).await?;
            self.marked = None;
        }
        if let (None, true, Some((_, until))) = (self.marked, self.has_removed, self.read) {
            (self.marked, self.has_removed) = (Some((now, until)), false);
        }
        Ok(())
    }
}

impl Fleet {
    /// Forgets reports that no row has any more.
    fn forget_absent_rows(&mut self, found: &BTreeSet<(ClusterId, BundleId)>) {
        let mut absent = Vec::new();
        for bundle in self.bundles.values() {
            for cell in bundle.cells.iter().filter(|it| it.report.is_some()) {
                let key = (cell.cluster.clone(), bundle.id.clone());
                if !found.contains(&key) && !self.rows.contains_key(&key) {
                    absent.push(key);
                }
            }
        }
        for (cluster, bundle) in absent {
            self.set_report(&cluster, &bundle, None);
        }
    }
}
