//! Joins runs and deployments: commands that wait for agents, and retries of rollouts.

use std::sync::Arc;

use fairlead_api::delivery::RunKind;
use fairlead_store::{StoreError, model::BundleRecord};
use tracing::info;

use crate::{
    fleet::FleetHandle,
    runs::{NewCommand, Runs},
};

/// Passes the numbers of waiting commands on, so that agents claim them at once.
pub(crate) async fn announce(runs: &Runs, fleet: &FleetHandle) {
    let mut waiting = runs.watch_waiting();
    loop {
        let commands = Arc::clone(&waiting.borrow_and_update());
        fleet.set_commands(&commands);
        if waiting.changed().await.is_err() {
            return;
        }
    }
}

/// Queues a run for each deployment that a person lets try again. Offline clusters have a day to claim theirs.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn retry(runs: &Runs, created_by: &str) -> Result<(), StoreError> {
    let retries = runs.parts.fleet.take_retries();
    let number = retries.len();
    for (cluster, bundle) in retries {
        let view = runs.parts.store.view();
        let document = view.bundle(&bundle).map(|it| &it.value);
        let newest = document.and_then(BundleRecord::newest);
        let command = NewCommand {
            cluster,
            bundle,
            kind: RunKind::Sync,
            generation: newest.map_or(0, |it| it.number),
            content: None,
            confirm: false,
            created_by: created_by.to_owned(),
        };
        match runs.create(command).await {
            // The cluster is gone.
            Ok(_) | Err(StoreError::Missing) => {}
            Err(other) => return Err(other),
        }
    }
    if number > 0 {
        info!(number, "failed deployments try again");
    }
    Ok(())
}
