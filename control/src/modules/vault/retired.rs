//! End of the access of deleted and moved clusters: removed from Vault, with retries, until the record
//! of each one is done.

use fairlead_api::Failure;
use fairlead_store::{
    Actor, Draft, StoreError,
    model::{DeletionPolicy, RetiredVaultAccess},
    whole_millis,
};
use fairlead_vault::{RetiredAccess, SecretAccess, SecretsEnd, VaultError};
use time::OffsetDateTime;
use tracing::{info, warn};

use super::{
    VaultParts,
    reconciler::{outcome_of, with_deadline},
    schedule::WorkOutcome,
    state::line,
};

/// Removes the access of one record, and then the record.
pub(super) async fn remove(
    parts: &VaultParts,
    access: &dyn SecretAccess,
    id: &str,
) -> Result<WorkOutcome, Failure> {
    let view = parts.store.view();
    let Some(record) = view.retired_vault_access(id) else {
        return Ok(WorkOutcome::Done);
    };
    let record = &record.value;
    let retired = RetiredAccess {
        names: record.names.clone(),
        secrets: match record.policy {
            DeletionPolicy::Retain => SecretsEnd::Keep,
            DeletionPolicy::Archive => SecretsEnd::Delete,
            DeletionPolicy::Delete => SecretsEnd::Destroy,
        },
    };
    let result = with_deadline(access.retire(&retired)).await;
    let mount = &record.names.mount;
    match &result {
        Ok(()) => info!(id, mount, "access to vault removed"),
        Err(error) => warn!(id, mount, %error, "access to vault not removed"),
    }
    let outcome = outcome_of(&result);
    let reason = result.as_ref().err().map(|it| line(&it.to_string()));
    // Repeated failures cause no change of the record.
    if result.is_ok() || reason != record.reason {
        let at = whole_millis(parts.clock.now());
        let id = id.to_owned();
        let decide = move |draft: &mut Draft| settle(draft, &id, &result, at);
        parts.store.change(Actor::Hub, decide).await?;
    }
    Ok(outcome)
}

fn settle(
    draft: &mut Draft,
    id: &str,
    result: &Result<(), VaultError>,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    let Some(record) = draft.retired_vault_access(id) else {
        return Ok(());
    };
    match result {
        Ok(()) => draft.delete_retired_vault_access(id),
        Err(error) => {
            let retired = RetiredVaultAccess {
                reason: Some(line(&error.to_string())),
                tried: Some(at),
                ..record.value.clone()
            };
            draft.put_retired_vault_access(retired);
            Ok(())
        }
    }
}
