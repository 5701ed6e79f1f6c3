//! State that the store's handle, its writer and its readers have in common.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use fairlead_api::{ClusterId, HubUrl};
use tokio::sync::{Notify, broadcast, watch};

use crate::{
    backend::{Backend, DocumentRow},
    clock::Clock,
    foreign::Foreign,
    meter::Meter,
    record::Kind,
    revision::Revision,
    sight::Observations,
    view::View,
};

/// What the writer and those who read have in common.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) view: ArcSwap<View>,
    pub(crate) revision: watch::Sender<Revision>,
    pub(crate) observations: Observations,
    pub(crate) meter: Meter,
    /// Changes that other hubs have made.
    pub(crate) foreign: Foreign,
    /// Another hub may have changed something.
    pub(crate) nudge: Notify,
    /// Clusters whose sessions have to end.
    pub(crate) parted: broadcast::Sender<ClusterId>,
    /// Where this hub is, once it has begun.
    pub(crate) url: OnceLock<HubUrl>,
}

impl Shared {
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The database, for somebody who asks what memory does not know.
    pub(crate) fn asked(&self) -> &dyn Backend {
        self.meter.read();
        self.backend.as_ref()
    }

    /// Shows what was committed.
    pub(crate) fn publish<'a>(
        &self,
        view: View,
        written: impl IntoIterator<Item = &'a DocumentRow>,
    ) {
        if view.revision == self.view().revision {
            return;
        }
        let revision = view.revision;
        self.view.store(Arc::new(view));
        self.forget_deleted(written);
        self.revision.send_replace(revision);
    }

    /// A cluster that takes the id of a deleted one starts anew, whatever was seen last while that was being deleted.
    fn forget_deleted<'a>(&self, rows: impl IntoIterator<Item = &'a DocumentRow>) {
        let clusters = (rows.into_iter()).filter(|row| row.kind == Kind::Cluster);
        let gone = clusters.filter(|row| row.body.is_none() || row.version == 1);
        let gone: Vec<ClusterId> = gone.filter_map(|row| row.id.parse().ok()).collect();
        if !gone.is_empty() {
            self.observations.forget(&gone);
        }
    }
}
