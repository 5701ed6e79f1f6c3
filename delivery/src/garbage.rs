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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };

    use fairlead_api::delivery::BundleFields;
    use fairlead_store::{
        Actor, Clock, Place, Store,
        model::{BundleRecord, Generation},
    };
    use time::OffsetDateTime;

    use super::*;
    use crate::generations::GenerationOptions;

    fn actor() -> Actor {
        Actor::Caller {
            name: "anna".to_owned(),
            token: None,
        }
    }

    #[tokio::test]
    async fn contents_without_a_use_go_after_an_hour() {
        let home = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicI64::new(1_800_000_000));
        let read = Arc::clone(&seconds);
        let clock = Clock::new(move || {
            let now = read.load(Ordering::Relaxed);
            OffsetDateTime::from_unix_timestamp(now).unwrap()
        });
        let place = Place::File(home.path().join("fairlead.db"));
        let store = Store::open(&place, clock.clone()).await.unwrap();
        let parts = DeliveryParts::of(&store, &clock);
        let id = |byte| ArtifactId::of_sha256(&[byte; 32]);
        let now = || millis(clock.now());
        let options = GenerationOptions {
            fields: BundleFields::default(),
            used: fairlead_bundle::variables::UsedVariables::default(),
            has_chart: false,
        };
        let options = parts.generations.store_options(&options, now());
        let options = options.await.unwrap();
        for byte in 1..=20 {
            parts.contents.put(&id(byte), b"x", now()).await.unwrap();
        }
        let mut bundle = BundleRecord::new(
            "b-shop".parse().unwrap(),
            "t-default".parse().unwrap(),
            BundleFields::default(),
        );
        // The first two generations of twelve are not kept.
        for byte in 1..=12 {
            bundle.push(Generation {
                number: 0,
                artifact: id(byte),
                options: options.clone(),
                at: clock.now(),
                by: "anna".to_owned(),
            });
        }
        let put = move |draft: &mut fairlead_store::Draft| draft.put_bundle(bundle.clone());
        store.change(actor(), put).await.unwrap();

        seconds.fetch_add(3_599, Ordering::Relaxed);
        assert_eq!(collect(&parts).await.unwrap(), 0, "an upload is recent");
        assert!(parts.contents.touch(&id(20), now()).await.unwrap());
        seconds.fetch_add(2, Ordering::Relaxed);
        assert_eq!(collect(&parts).await.unwrap(), 2 + 7);
        for (byte, is_kept) in [(1, false), (2, false), (3, true), (13, false), (20, true)] {
            let size = parts.contents.size(&id(byte)).await.unwrap();
            assert_eq!(size.is_some(), is_kept, "{byte}");
        }
        assert!(parts.contents.size(&options).await.unwrap().is_some());
        assert!(!parts.contents.touch(&id(1), now()).await.unwrap());
        let delete =
            |draft: &mut fairlead_store::Draft| draft.delete_bundle(&"b-shop".parse().unwrap());
        store.change(actor(), delete).await.unwrap();
        seconds.fetch_add(3_601, Ordering::Relaxed);
        assert_eq!(collect(&parts).await.unwrap(), 10 + 1 + 1);
        store.close().await;
    }
}
