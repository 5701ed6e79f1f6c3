//! Objects of a bundle whose journal was lost: found by label and manager, so that a later run can delete them as usual.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use fairlead_manifests::{
    BUNDLE_LABEL, Inventory, InventoryEntry, ObjectKey, Scope, drift::FieldOwner,
};
use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::{
    engine::{RunContext, RunFailure},
    kube::{ApiResource, KubeError, Query},
};

/// Kinds listed at the same time.
const CONCURRENT_LISTS: usize = 4;

/// Notes whether a run met objects of its bundle that its journal does not know. The first run of a bundle meets none.
#[derive(Debug, Default)]
pub(super) struct Traces(AtomicBool);

impl Traces {
    /// Takes the metadata of an object that no run in the journal has applied.
    pub(super) fn observe(&self, run: &RunContext, live: &Value) {
        if is_ours(run, live) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn are_found(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// True if a run of the bundle has applied the object. The label alone proves nothing: controllers copy labels, as those
/// of a Service into its EndpointSlices.
fn is_ours(run: &RunContext, live: &Value) -> bool {
    let bundle = run.bundle().as_str();
    let label = live
        .pointer("/metadata/labels")
        .and_then(|it| it.get(BUNDLE_LABEL));
    label.and_then(Value::as_str) == Some(bundle)
        && FieldOwner::of_bundle(bundle).entry(live).is_some()
}

/// Adds all objects of the bundle in the cluster to an inventory. Nothing else changes: the next run deletes those that are
/// not in its content, by the usual rules.
///
/// # Errors
/// The API server is away.
pub(super) async fn add_to(run: &RunContext, inventory: &mut Inventory) -> Result<(), RunFailure> {
    let table = run.discovery.table().await;
    let table = table.map_err(|error| RunFailure::of_kube(&error))?;
    let namespaces = inventory.iter().filter_map(|it| it.key.namespace.clone());
    let namespaces: BTreeSet<_> = namespaces.chain([run.spec.namespace.clone()]).collect();
    let mut lists = Vec::new();
    for resource in table.preferred().filter(|it| it.is_watchable) {
        lists.push(found(run, resource, &namespaces));
    }
    let mut lists = stream::iter(lists).buffer_unordered(CONCURRENT_LISTS);
    let mut added = 0;
    while let Some(entries) = lists.next().await {
        for entry in entries? {
            added += usize::from(inventory.get(&entry.key).is_none());
            inventory.insert(entry);
        }
    }
    run.log.line(&format!(
        "the journal was lost; {added} more objects of the bundle are in the cluster, and this run deletes none"
    ));
    Ok(())
}

/// Objects of one kind. Without the right to list it in all namespaces, those of the bundle's namespaces.
async fn found(
    run: &RunContext,
    resource: &ApiResource,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<InventoryEntry>, RunFailure> {
    let mut places = vec![None];
    let mut entries = Vec::new();
    while let Some(namespace) = places.pop() {
        let query = Query::of_labels(format!("{BUNDLE_LABEL}={}", run.bundle())).metadata_only();
        let path = resource.collection_path(namespace);
        match run.kube.list(&path, &query).await {
            Ok(list) => {
                let items = list.unwrap_or_default().items;
                let ours = items.iter().filter(|it| is_ours(run, it));
                entries.extend(ours.filter_map(|it| entry(resource, it)));
            }
            Err(KubeError::Status { status: 403, .. })
                if namespace.is_none() && resource.scope == Scope::Namespaced =>
            {
                places.extend(namespaces.iter().map(|it| Some(it.as_str())));
            }
            Err(error) if error.is_unavailable() => return Err(RunFailure::of_kube(&error)),
            // A kind that cannot be listed holds back no delivery.
            Err(error) => run.log.line(&format!("{path} is not listed: {error}")),
        }
    }
    Ok(entries)
}

/// Entry of an object of a metadata list, whose items name no kind.
fn entry(resource: &ApiResource, item: &Value) -> Option<InventoryEntry> {
    let text = |pointer: &str| item.pointer(pointer)?.as_str().map(str::to_owned);
    Some(InventoryEntry {
        key: ObjectKey {
            group: resource.kind.group.clone(),
            kind: resource.kind.kind.clone(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        },
        version: resource.kind.version.clone(),
        uid: Some(text("/metadata/uid")?),
    })
}
