//! Bundles in answers.

use axum::response::Response;
use fairlead_api::delivery::{Bundle, BundleGeneration, BundleStatus};
use fairlead_registry::{RegistryError, sees_cluster, tagged};
use fairlead_seam::Caller;
use fairlead_store::{Record, View, model::BundleRecord};
use http::{HeaderMap, StatusCode};

/// The bundle as the caller sees it: clusters that moved out of its visibility are left out.
pub(super) fn status(view: &View, caller: &Caller, record: &BundleRecord) -> BundleStatus {
    let is_visible = |id: &fairlead_api::ClusterId| {
        let cluster = view.cluster(id);
        cluster.is_some_and(|it| sees_cluster(view, caller, &it.value))
    };
    let newest = record.newest();
    let suspended_in = record.suspended_in.iter().filter(|it| is_visible(it));
    let removals = record.removals.iter().filter(|(id, _)| is_visible(id));
    let generations = record.generations.iter().map(|it| BundleGeneration {
        number: it.number,
        artifact: it.artifact.clone(),
        at: it.at,
        by: it.by.clone(),
    });
    BundleStatus {
        bundle: Bundle {
            id: record.id.clone(),
            tenant: record.tenant.clone(),
            source: record.source.clone(),
            path: record.path.clone(),
            artifact: newest.map(|it| it.artifact.clone()),
            generation: newest.map_or(0, |it| it.number),
            suspended: record.suspended,
            orphaned: record.orphaned,
            fields: record.fields.clone(),
        },
        deleting: record.deleting,
        suspended_in: suspended_in.cloned().collect(),
        removals: removals.map(|(id, it)| (id.clone(), *it)).collect(),
        generations: generations.collect(),
    }
}

/// Answer with a written bundle. A dry run has written nothing, so there is no version.
pub(super) fn answer(
    view: &View,
    caller: &Caller,
    (record, status_code): (&Record<BundleRecord>, StatusCode),
    dry_run: bool,
) -> Result<Response, RegistryError> {
    let version = (!dry_run).then_some(record.version);
    let status = status(view, caller, &record.value);
    tagged(&HeaderMap::new(), status_code, version, &status)
}
