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
use axum::{
    Json,
    extract::{Path, State},
};
use fairlead_api::resources::{RetiredVaultAccesses, RetiredVaultDocument, Role};
use fairlead_registry::{RegistryError, allow, by};
use fairlead_routes::{
    ApiModule, ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated},
};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Draft, Store, StoreError};
use fairlead_vault::SecretAccess;
use http::StatusCode;
use tracing::info;

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
                list_retired,
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
                keep_retired,
            )
            .with_state(Arc::clone(&self.0))
    }
}

async fn list_retired(
    State(parts): State<Arc<VaultParts>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<RetiredVaultAccesses>> {
    allow(&caller, RETIRED)?;
    let view = parts.store.view();
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
    let items = items.collect();
    Ok(Json(RetiredVaultAccesses { items }))
}

async fn keep_retired(
    State(parts): State<Arc<VaultParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    allow(&caller, RETIRED)?;
    let gone = id.clone();
    let decide = move |draft: &mut Draft| match draft.delete_retired_vault_access(&gone) {
        Err(StoreError::Missing) => Err(RegistryError::NoSuchVaultAccess(gone.clone())),
        done => Ok(done?),
    };
    parts.store.change(by(&caller), decide).await?;
    info!(id, caller = caller.name, "retired access to vault kept");
    Ok(StatusCode::NO_CONTENT)
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
