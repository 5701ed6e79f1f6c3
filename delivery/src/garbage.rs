//! Collection of contents that nothing uses any more, at the leading hub.

use std::{collections::BTreeSet, time::Duration};

use fairlead_api::delivery::ArtifactId;
use fairlead_store::{StoreError, View, millis};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::parts::DeliveryParts;

/// Time for which a content is kept after its last use: a bundle may follow an upload.
const KEEP_UNUSED: Duration = Duration::from_secs(3600);
/// Pause between two collections.
const COLLECT_INTERVAL: Duration = Duration::from_secs(600);

/// Collects again and again.
pub(crate) async fn run(parts: &DeliveryParts) {
    loop {
        sleep(COLLECT_INTERVAL).await;
        if !parts.store.leads() {
            continue;
        }
        match collect(parts).await {
            Ok(0) => {}
            Ok(contents) => info!(contents, "unused contents deleted"),
            Err(error) => warn!(%error, "unused contents not deleted"),
        }
    }
}

/// Deletes contents without a use in the last hour; returns their number.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn collect(parts: &DeliveryParts) -> Result<u64, StoreError> {
    let kept = i64::try_from(KEEP_UNUSED.as_millis()).unwrap_or(i64::MAX);
    let before = millis(parts.clock.now()).saturating_sub(kept);
    // A document that names a content later has recorded its use first, so this view is new enough.
    let used = used(&parts.store.view());
    parts.contents.forget(before, &used).await
}

/// Contents that documents name.
fn used(view: &View) -> BTreeSet<ArtifactId> {
    let bundles = view.bundles().flat_map(|it| &it.value.generations);
    let generations = bundles.flat_map(|it| [&it.artifact, &it.options]);
    let sources = view.sources().flat_map(|it| &it.value.artifacts);
    let used = generations.chain(sources.map(|it| &it.artifact));
    used.cloned().collect()
}
