//! Epoch of a restore: what was revoked after the backup stays revoked.
//!
//! The restored store does not know of revocations, deletions and enrolments after the backup. So identities and API
//! tokens from before are void until an admin confirms them, and open bootstrap tokens are void for good.

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
