//! Confirmation of changes that take bundles away from clusters, and tombstones of confirmed removals.

use std::collections::BTreeSet;

use fairlead_api::{
    BundleId, ClusterId, Code, Failure, TenantId,
    delivery::{PlanHash, RemovedDeployment, UntargetPolicy},
};
use fairlead_bundle::{Choice, Removal, choose, plan_hash};
use fairlead_registry::{RegistryError, UntargetCheck, sees_tenant};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft, StoreError, View,
    model::{BundleRecord, Cluster},
};
use serde_json::json;

use crate::clusters::with_cluster;

/// Number of clusters that the cause of a refusal names.
const MAX_NAMED_CLUSTERS: usize = 3;

/// Deployments that a change may affect.
pub(crate) struct Affected {
    /// Bundles.
    pub(crate) bundles: Vec<BundleId>,
    /// Clusters.
    pub(crate) clusters: Vec<ClusterId>,
}

/// Clusters of a tenant and of its sub-tenants.
pub(crate) fn clusters_below(view: &View, tenant: &TenantId) -> Vec<ClusterId> {
    let clusters = view.clusters().map(|it| &it.value);
    let below = clusters.filter(|it| view.within(&it.tenant, tenant));
    below.map(|it| it.id.clone()).collect()
}

/// True if the newest generation of the bundle targets the cluster.
pub(crate) fn is_targeted(view: &View, bundle: &BundleRecord, cluster: &Cluster) -> bool {
    let is_live = !bundle.deleting && bundle.newest().is_some();
    is_live
        && with_cluster(view, cluster, |cluster| {
            (cluster.is_below)(&bundle.tenant)
                && matches!(choose(&bundle.fields.targets, cluster), Choice::Target(_))
        })
}

/// Removals that a change makes: clusters that are targeted before it, and not after it. A deleted cluster loses nothing.
pub(crate) fn removals(before: &View, after: &View, affected: &Affected) -> BTreeSet<Removal> {
    let mut removals = BTreeSet::new();
    for bundle in &affected.bundles {
        let Some(old) = before.bundle(bundle) else {
            continue;
        };
        let new = after.bundle(bundle);
        for cluster in &affected.clusters {
            let (Some(was), Some(is)) = (before.cluster(cluster), after.cluster(cluster)) else {
                continue;
            };
            let lost = is_targeted(before, &old.value, &was.value)
                && !new.is_some_and(|it| is_targeted(after, &it.value, &is.value));
            if !lost {
                continue;
            }
            let deletes = new.is_some_and(|it| {
                let bundle = &it.value;
                let removes =
                    bundle.deleting || bundle.fields.on_untarget == UntargetPolicy::Remove;
                // A bundle of another tenant reaches the cluster no longer, not even to delete.
                removes && after.within(&is.value.tenant, &bundle.tenant)
            });
            removals.insert(Removal {
                bundle: bundle.clone(),
                cluster: cluster.clone(),
                deletes,
            });
        }
    }
    removals
}

/// Requires the confirmation of removals.
///
/// # Errors
/// `FL-6105` with those of visible bundles, unless `confirm` is their name.
pub(crate) fn require(
    view: &View,
    principal: &Caller,
    removals: &BTreeSet<Removal>,
    confirm: Option<&PlanHash>,
) -> Result<(), RegistryError> {
    match plan_hash(removals) {
        Some(expected) if confirm != Some(&expected) => {
            Err(refusal(view, principal, removals, &expected).into())
        }
        _ => Ok(()),
    }
}

fn refusal(
    view: &View,
    principal: &Caller,
    removals: &BTreeSet<Removal>,
    confirm: &PlanHash,
) -> Failure {
    let is_visible = |removal: &&Removal| {
        let bundle = view.bundle(&removal.bundle);
        bundle.is_none_or(|it| sees_tenant(view, principal, &it.value.tenant))
    };
    let shown: Vec<_> = removals
        .iter()
        .filter(is_visible)
        .map(|it| RemovedDeployment {
            bundle: it.bundle.clone(),
            cluster: it.cluster.clone(),
            deletes: it.deletes,
        })
        .collect();
    let deleted = removals.iter().filter(|it| it.deletes).count();
    let named = shown.iter().take(MAX_NAMED_CLUSTERS);
    let named: Vec<_> = named
        .map(|it| format!("{} in {}", it.bundle, it.cluster))
        .collect();
    let more = removals.len() - named.len();
    let named = match (named.is_empty(), more) {
        (true, _) => "of bundles of a tenant above".to_owned(),
        (false, 0) => named.join(", "),
        (false, _) => format!("{} and {more} more", named.join(", ")),
    };
    let objects = match deleted {
        0 => "their objects stay".to_owned(),
        all if all == removals.len() => "their objects are deleted".to_owned(),
        some => format!("the objects of {some} are deleted"),
    };
    let count = removals.len();
    let cause = format!("{count} deployments end ({named}); {objects}");
    Failure::because(Code::RemovalNotConfirmed, cause)
        .details(json!({ "confirm": confirm, "removed": shown }))
}

/// Writes tombstones of removals that delete objects, and drops those of clusters that are targeted again.
///
/// # Errors
/// [`StoreError`]
pub(crate) fn write_tombstones(
    draft: &mut Draft,
    affected: &Affected,
    removals: &BTreeSet<Removal>,
) -> Result<(), StoreError> {
    for id in &affected.bundles {
        let Some(record) = draft.bundle(id).cloned() else {
            continue;
        };
        let deleted = removals.iter().filter(|it| it.bundle == *id && it.deletes);
        let deleted: Vec<_> = deleted.map(|it| &it.cluster).collect();
        if record.value.removals.is_empty() && deleted.is_empty() {
            continue;
        }
        let mut bundle = record.value.clone();
        let number = bundle.newest().map_or(0, |it| it.number);
        let view: &View = draft;
        bundle.removals.retain(|cluster, _| {
            let cluster = view.cluster(cluster);
            // A deleted cluster will never report.
            cluster.is_some_and(|it| !is_targeted(view, &record.value, &it.value))
        });
        for cluster in deleted {
            bundle.removals.insert(cluster.clone(), number);
        }
        if bundle != record.value {
            draft.put_bundle(bundle)?;
        }
    }
    Ok(())
}

/// Checks a change of documents in a draft, and writes its tombstones; `before` is the registry without the change.
///
/// # Errors
/// `FL-6105`
pub(crate) fn check(
    (before, draft): (&View, &mut Draft),
    affected: &Affected,
    principal: &Caller,
    confirm: Option<&PlanHash>,
) -> Result<(), RegistryError> {
    let removals = removals(before, draft, affected);
    require(draft, principal, &removals, confirm)?;
    write_tombstones(draft, affected, &removals)?;
    Ok(())
}

/// Guards changes of clusters against unconfirmed removals of bundles.
pub struct TargetGuard;

impl UntargetCheck for TargetGuard {
    fn check(
        &self,
        before: &View,
        draft: &mut Draft,
        clusters: &[ClusterId],
        principal: &Caller,
        confirm: Option<&PlanHash>,
    ) -> Result<(), RegistryError> {
        let bundles = draft.bundles().map(|it| it.value.id.clone());
        let affected = Affected {
            bundles: bundles.collect(),
            clusters: clusters.to_vec(),
        };
        check((before, draft), &affected, principal, confirm)
    }
}
