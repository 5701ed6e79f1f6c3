//! Epoch of a restore: what was revoked after the backup stays revoked.
//!
//! The restored store does not know of revocations, deletions and enrolments after the backup. So identities and API
//! tokens from before are void until an admin confirms them, and open bootstrap tokens are void for good. Agents refuse
//! generations of bundles that are older than what they know, unless the operator delivers them again.

use fairlead_store::{Actor, Draft, Store, StoreError};
use time::OffsetDateTime;
use tracing::warn;

/// Begins the epoch of a restore.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn begin(store: &Store, now: OffsetDateTime) -> Result<u32, StoreError> {
    let decide = move |draft: &mut Draft| {
        let epoch = draft.amend_authorities(|hub| {
            hub.begin_epoch(now);
            hub.epoch
        });
        let open = draft
            .clusters()
            .filter(|it| it.value.binding.bootstrap.open(now));
        let open: Vec<_> = open.map(|it| it.value.id.clone()).collect();
        for id in open {
            draft.amend_cluster(&id, |it| it.binding.bootstrap.revoked = true)?;
        }
        Ok::<_, StoreError>(epoch)
    };
    let epoch = store.change(Actor::Hub, decide).await?.value;
    warn!(
        epoch,
        "store restored; identities and tokens from before await a confirmation"
    );
    Ok(epoch)
}

/// Number of generations of a bundle for which a second of the clock has numbers.
const GENERATIONS_PER_SECOND: u64 = 1_000_000;

/// Gives the newest generation of each bundle a number above all that agents may know: its high digits are the time. New
/// bundles begin above it, too.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn deliver_again(store: &Store, now: OffsetDateTime) -> Result<(), StoreError> {
    let seconds = u64::try_from(now.unix_timestamp()).unwrap_or(0);
    let floor = seconds.saturating_mul(GENERATIONS_PER_SECOND);
    let decide = move |draft: &mut Draft| {
        let bundles: Vec<_> = draft.bundles().map(|it| it.value.clone()).collect();
        let number = bundles.len();
        for mut bundle in bundles {
            bundle.repeat_newest(floor + 1, now);
            draft.put_bundle(bundle)?;
        }
        draft.amend_authorities(|hub| {
            hub.deleted_bundles_floor = hub.deleted_bundles_floor.max(floor);
        });
        Ok::<_, StoreError>(number)
    };
    let bundles = store.change(Actor::Hub, decide).await?.value;
    warn!(
        bundles,
        floor, "generations raised; agents accept them again"
    );
    Ok(())
}

/// Admits identities and tokens from before the restore.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn confirm(store: &Store, actor: Actor) -> Result<(), StoreError> {
    let decide = |draft: &mut Draft| {
        if draft.authorities().is_some() {
            draft.amend_authorities(|hub| hub.confirmed_epoch = hub.epoch);
        }
        Ok::<_, StoreError>(())
    };
    store.change(actor, decide).await.map(drop)
}
