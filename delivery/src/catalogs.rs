//! Catalogs of clusters as bundles: one for each cluster with `deliverCatalog`, with its only target. The leading hub makes
//! them, because a catalog may change at any hub.
//!
//! Such a bundle is like any other, except that its content and targets are no one's to change. In paths below its cluster
//! it is called `catalog`.

use std::time::Duration;

use fairlead_api::{BundleId, ClusterId, Code, Failure, IdError};
use fairlead_bundle::folder::FileEntry;
use fairlead_registry::LeaderPasses;
use fairlead_store::{
    Actor, Draft, StoreError, View, millis,
    model::{BundleRecord, CatalogOrigin, Cluster, Generation},
};
use serde_json::Value;
use tracing::{info, warn};

use crate::{
    generations::GenerationOptions,
    hub_bundles::{self, HubBundle, fields_of},
    parts::DeliveryParts,
};

const FILE_NAME: &str = "catalog.yaml";
/// Interval at which failed changes are repeated, and at which a hub learns that it leads.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Change of the bundle of one catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CatalogChange {
    /// The version of the catalog is not delivered yet, or its cluster has moved to another tenant.
    Write(ClusterId),
    /// The catalog is not delivered any more. Its objects stay.
    Delete(BundleId),
}

/// Keeps the bundles; never returns.
pub(crate) async fn run(parts: &DeliveryParts) {
    let mut passes = LeaderPasses::new(&parts.store, POLL_INTERVAL);
    loop {
        passes.due().await;
        pass(parts).await;
    }
}

/// Makes all changes that are due. A failed one is repeated by the next pass.
pub(crate) async fn pass(parts: &DeliveryParts) {
    let changes = due(&parts.store.view());
    for change in changes {
        let done = match &change {
            CatalogChange::Write(cluster) => write(parts, cluster).await,
            CatalogChange::Delete(bundle) => delete(parts, bundle).await,
        };
        match done {
            Ok(()) => info!(?change, "bundle of a catalog changed"),
            Err(failure) => warn!(?change, %failure, "bundle of a catalog not changed"),
        }
    }
}

fn due(view: &View) -> Vec<CatalogChange> {
    let delivered = view.clusters().filter(|it| is_delivered(view, &it.value));
    let written = delivered.filter(|it| !is_current(view, &it.value));
    let written = written.map(|it| CatalogChange::Write(it.value.id.clone()));
    let bundles = view.bundles().map(|it| &it.value);
    let ended = bundles.filter(|bundle| {
        let origin = bundle.catalog.as_ref();
        origin.is_some_and(|origin| {
            let cluster = view.cluster(&origin.cluster);
            cluster.is_none_or(|it| !is_delivered(view, &it.value))
        })
    });
    let ended = ended.map(|it| CatalogChange::Delete(it.id.clone()));
    written.chain(ended).collect()
}

fn is_delivered(view: &View, cluster: &Cluster) -> bool {
    cluster.deliver_catalog == Some(true) && view.catalog(&cluster.id).is_some()
}

fn is_current(view: &View, cluster: &Cluster) -> bool {
    let version = view.catalog(&cluster.id).map_or(0, |it| it.version);
    let bundle = id_of(&cluster.id).ok().and_then(|id| view.bundle(&id));
    bundle.map(|it| &it.value).is_some_and(|it| {
        it.tenant == cluster.tenant && it.catalog == Some(origin_of(&cluster.id, version))
    })
}

fn origin_of(cluster: &ClusterId, version: u64) -> CatalogOrigin {
    CatalogOrigin {
        cluster: cluster.clone(),
        version,
    }
}

fn id_of(cluster: &ClusterId) -> Result<BundleId, IdError> {
    HubBundle::Catalog.id_of(cluster)
}

async fn write(parts: &DeliveryParts, cluster: &ClusterId) -> Result<(), Failure> {
    let catalog = parts.store.catalog(cluster).await?;
    let version = u64::try_from(catalog.version).unwrap_or_default();
    let packed = parts.artifacts.pack_files(vec![FileEntry {
        path: FILE_NAME.to_owned(),
        mode: 0o100_644,
        content: manifests_of(&catalog.objects),
    }])?;
    let now = parts.clock.now();
    let artifact = parts.artifacts.store(packed, millis(now)).await?.id;
    let facts = parts.artifacts.facts(&artifact).await?;
    let options = GenerationOptions {
        fields: fields_of(cluster),
        used: facts.used.clone(),
        has_chart: false,
    };
    let options_id = parts
        .generations
        .store_options(&options, millis(now))
        .await?;
    let generation = Generation {
        number: 0,
        artifact,
        options: options_id,
        at: now,
        by: format!("catalog version {version}"),
    };
    let origin = origin_of(cluster, version);
    let id = id_of(cluster).map_err(|error| Failure::because(Code::Internal, error))?;
    let decide = move |draft: &mut Draft| put(draft, &id, &origin, &generation);
    parts.store.change(Actor::Hub, decide).await?;
    Ok(())
}

/// Writes the bundle, unless the catalog has changed since it was read.
fn put(
    draft: &mut Draft,
    id: &BundleId,
    origin: &CatalogOrigin,
    generation: &Generation,
) -> Result<(), StoreError> {
    let head = draft.catalog(&origin.cluster);
    let Some(cluster) = draft.cluster(&origin.cluster).map(|it| &it.value) else {
        return Ok(());
    };
    if head.map(|it| it.version) != Some(origin.version) || !is_delivered(draft, cluster) {
        return Ok(());
    }
    let (tenant, fields) = (cluster.tenant.clone(), fields_of(&cluster.id));
    let known = draft.bundle(id).map(|it| it.value.clone());
    if known.as_ref().is_some_and(|it| it.catalog.is_none()) {
        return Err(StoreError::Conflict);
    }
    let mut bundle = known.unwrap_or_else(|| BundleRecord::new(id.clone(), tenant.clone(), fields));
    let has_moved = bundle.tenant != tenant;
    hub_bundles::push(&mut bundle, has_moved, generation);
    bundle.tenant = tenant;
    bundle.catalog = Some(origin.clone());
    draft.put_bundle(bundle)
}

async fn delete(parts: &DeliveryParts, bundle: &BundleId) -> Result<(), Failure> {
    let id = bundle.clone();
    let decide = move |draft: &mut Draft| {
        let is_due = due(draft).contains(&CatalogChange::Delete(id.clone()));
        match is_due {
            true => draft.delete_bundle(&id),
            false => Ok(()),
        }
    };
    parts.store.change(Actor::Hub, decide).await?;
    Ok(())
}

/// Documents of YAML, of which JSON is a part.
fn manifests_of(objects: &[Value]) -> Vec<u8> {
    let documents = objects.iter().map(|it| format!("---\n{it}\n"));
    documents.collect::<String>().into_bytes()
}
