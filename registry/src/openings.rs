//! How the documents of clusters begin, remembered until a cluster or its tenant is changed: nearly all of a list is what it
//! was a minute ago, and writing it as JSON was half of what a list cost. About a kilobyte for each cluster that was asked for.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use fairlead_api::{ClusterId, Failure};
use fairlead_store::{Record, Revision, View, model::Cluster};

use crate::{document::shown::Opening, services::RepoStatus, template::template_of};

/// How many that are gone may be kept beside those that are there.
const SPARE: usize = 1024;

#[derive(Default)]
pub(crate) struct Openings(RwLock<HashMap<ClusterId, Known>>);

struct Known {
    /// Of the changes that wrote the cluster and its tenant. Their versions would not do: who is deleted and made again begins anew.
    of: (Revision, Revision),
    opening: Opening,
}

impl Openings {
    /// Of a cluster that is in `view`, or was a moment ago.
    ///
    /// # Errors
    /// `FL-5101`
    pub(super) fn of(
        &self,
        view: &View,
        record: &Record<Cluster>,
        repositories: &dyn RepoStatus,
    ) -> Result<Opening, Failure> {
        let cluster = &record.value;
        let tenant = view.tenant(&cluster.tenant);
        let of = (
            record.revision,
            tenant.map_or(Revision(0), |it| it.revision),
        );
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&cluster.id)
            && known.of == of
        {
            return Ok(known.opening.clone());
        }
        drop(known);
        let opening = Opening::of(record, template_of(view, &cluster.tenant), repositories)?;
        let new = Known {
            of,
            opening: opening.clone(),
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(cluster.id.clone(), new);
        if known.len() > view.clusters().len() + SPARE {
            known.retain(|id, _| view.cluster(id).is_some());
        }
        Ok(opening)
    }
}
