//! Access of clusters to Vault: the desired access ([`desired`]), the Vault that provides it (a
//! plugged-in [`SecretAccess`]), its status ([`state`]), and its end. Without a Vault, nothing of it
//! is shown.

mod desired;
mod reconciler;
mod retired;
mod schedule;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::resources::{RetiredVaultAccesses, RetiredVaultDocument, Role};
use fairlead_registry::RegistryError;
use fairlead_routes::{ApiModule, ApiRoutes, Right, RouteSpec, Tag};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Draft, Store, StoreError, View};
use fairlead_vault::SecretAccess;
use tracing::info;

use crate::reconciling::retired::{self as retired_parts, RetiredParts};

pub(crate) use state::VaultStates;

const RETIRED: Right =
    Right::new("handling retired access to Vault", &[Role::Admin]).on_all_tenants();

/// A Vault, and the store with the clusters.
struct VaultParts {
    store: Store,
    clock: Clock,
    access: Option<Arc<dyn SecretAccess>>,
}

pub(crate) struct VaultModule(Arc<VaultParts>);

impl VaultModule {
    pub(crate) fn new(store: Store, clock: Clock, access: Option<Arc<dyn SecretAccess>>) -> Self {
        VaultModule(Arc::new(VaultParts {
            store,
            clock,
            access,
        }))
    }
}

impl ApiModule for VaultModule {
    fn api_routes(&self) -> ApiRoutes {
        const TAG: Tag = Tag::SYSTEM;
        ApiRoutes::new()
            .route(
                RouteSpec::get(
                    TAG,
                    "/v1/retired-vault-access",
                    "listRetiredVaultAccess",
                    "List the access of deleted and moved clusters that Vault has not removed yet",
                )
                .needs(&[RETIRED])
                .gives::<RetiredVaultAccesses>(200),
                retired_parts::list::<VaultParts>,
            )
            .route(
                RouteSpec::delete(
                    TAG,
                    "/v1/retired-vault-access/{id}",
                    "keepRetiredVaultAccess",
                    "Keep the access of a deleted or moved cluster unchanged in Vault",
                )
                .needs(&[RETIRED])
                .fails(404, "no such entry")
                .gives_nothing(204),
                retired_parts::keep::<VaultParts>,
            )
            .with_state(Arc::clone(&self.0))
    }
}

impl RetiredParts for VaultParts {
    const RIGHT: Right = RETIRED;
    type Shown = RetiredVaultAccesses;

    fn store(&self) -> &Store {
        &self.store
    }

    fn shown(view: &View) -> RetiredVaultAccesses {
        let items = view.retired_vault_accesses().map(|it| {
            let it = it.value.clone();
            RetiredVaultDocument {
                id: it.id,
                names: it.names,
                deletion_policy: it.policy,
                deleted: it.deleted,
                reason: it.reason,
                last_try: it.tried,
            }
        });
        RetiredVaultAccesses {
            items: items.collect(),
        }
    }

    fn remove(draft: &mut Draft, id: &str) -> Result<(), StoreError> {
        draft.delete_retired_vault_access(id)
    }

    fn missing(id: String) -> RegistryError {
        RegistryError::NoSuchVaultAccess(id)
    }

    fn log_kept(id: &str, caller: &str) {
        info!(id, caller, "retired access to vault kept");
    }
}

#[async_trait]
impl Module for VaultModule {
    fn name(&self) -> &'static str {
        "vault"
    }

    async fn run(&self, process: Process) {
        let Some(access) = &self.0.access else {
            return;
        };
        tokio::select! {
            () = process.draining() => {}
            () = reconciler::run(&self.0, access) => {}
        }
    }
}
