//! Tokens for the APIs of Git servers, encrypted in the store. They can be replaced and removed, and
//! never read.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    TenantId,
    resources::{GitCredentialDocument, GitCredentials, Role, SetGitCredential},
};
use fairlead_registry::{RegistryError, Sealer, allow, allow_in_tenant, by};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, StoreError, View, model::GitCredential, whole_millis};
use http::StatusCode;
use serde_json::{Value, json};
use tracing::info;

use super::{Repositories, merge_requests::visible_tenant, opened::sealed_name};

/// Limit of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 128;

const OF_HUB: Right =
    Right::new("managing credentials of Git servers", &[Role::Admin]).on_all_tenants();
const OF_TENANT: Right = Right::new("managing credentials of Git servers", &[Role::Admin]);

pub(super) fn routes(repositories: &Arc<Repositories>) -> ApiRoutes {
    const ALL: &str = "/v1/git-credentials";
    const ONE: &str = "/v1/git-credentials/{name}";
    const ALL_OF_TENANT: &str = "/v1/tenants/{tenantId}/git-credentials";
    const ONE_OF_TENANT: &str = "/v1/tenants/{tenantId}/git-credentials/{name}";
    ApiRoutes::new()
        .route(
            listed(RouteSpec::get(
                Tag::SYSTEM,
                ALL,
                "listGitCredentials",
                "List credentials of Git servers that all tenants may use, without their values",
            ))
            .needs(&[OF_HUB]),
            list,
        )
        .route(
            changed(RouteSpec::put(
                Tag::SYSTEM,
                ONE,
                "setGitCredential",
                "Set the token of a credential that all tenants may use",
            ))
            .needs(&[OF_HUB]),
            set,
        )
        .route(
            removed(RouteSpec::delete(
                Tag::SYSTEM,
                ONE,
                "deleteGitCredential",
                "Delete a credential that all tenants may use",
            ))
            .needs(&[OF_HUB]),
            delete,
        )
        .route(
            listed(RouteSpec::get(
                Tag::TENANT,
                ALL_OF_TENANT,
                "listTenantGitCredentials",
                "List credentials of Git servers of a tenant, without their values",
            ))
            .needs(&[OF_TENANT]),
            list_of_tenant,
        )
        .route(
            changed(RouteSpec::put(
                Tag::TENANT,
                ONE_OF_TENANT,
                "setTenantGitCredential",
                "Set the token of a credential for the repositories of the tenant and its clusters",
            ))
            .needs(&[OF_TENANT]),
            set_of_tenant,
        )
        .route(
            removed(RouteSpec::delete(
                Tag::TENANT,
                ONE_OF_TENANT,
                "deleteTenantGitCredential",
                "Delete a credential of a tenant",
            ))
            .needs(&[OF_TENANT]),
            delete_of_tenant,
        )
        .with_state(Arc::clone(repositories))
}

fn listed(spec: RouteSpec) -> RouteSpec {
    spec.gives::<GitCredentials>(200)
}

fn changed(spec: RouteSpec) -> RouteSpec {
    spec.path_parameter("name", name_schema())
        .takes::<SetGitCredential>()
        .example(json!({ "token": "example-token" }))
        .gives::<GitCredentialDocument>(200)
}

fn removed(spec: RouteSpec) -> RouteSpec {
    spec.path_parameter("name", name_schema())
        .fails(404, "no such credential")
        .gives_nothing(204)
}

fn name_schema() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$", "maxLength": MAX_NAME_BYTES })
}

async fn list(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<GitCredentials>> {
    allow(&caller, OF_HUB)?;
    Ok(Json(documents(&repositories.store.view(), None)))
}

async fn list_of_tenant(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(tenant): Path<String>,
) -> Answer<Json<GitCredentials>> {
    let tenant = own_tenant(&repositories, &caller, &tenant)?;
    let view = repositories.store.view();
    Ok(Json(documents(&view, Some(&tenant))))
}

async fn set(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
    JsonBody(given): JsonBody<SetGitCredential>,
) -> Answer<Json<GitCredentialDocument>> {
    allow(&caller, OF_HUB)?;
    store(&repositories, &caller, (None, name), &given.token).await
}

async fn set_of_tenant(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path((tenant, name)): Path<(String, String)>,
    JsonBody(given): JsonBody<SetGitCredential>,
) -> Answer<Json<GitCredentialDocument>> {
    let tenant = own_tenant(&repositories, &caller, &tenant)?;
    store(&repositories, &caller, (Some(tenant), name), &given.token).await
}

async fn delete(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    allow(&caller, OF_HUB)?;
    remove(&repositories, &caller, (None, name)).await
}

async fn delete_of_tenant(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path((tenant, name)): Path<(String, String)>,
) -> Answer<StatusCode> {
    let tenant = own_tenant(&repositories, &caller, &tenant)?;
    remove(&repositories, &caller, (Some(tenant), name)).await
}

fn own_tenant(
    repositories: &Repositories,
    caller: &Caller,
    tenant: &str,
) -> Result<TenantId, RegistryError> {
    let view = repositories.store.view();
    let tenant = visible_tenant(&view, caller, tenant)?;
    allow_in_tenant(&view, caller, &tenant, OF_TENANT)?;
    Ok(tenant)
}

async fn store(
    repositories: &Repositories,
    caller: &Caller,
    (tenant, name): (Option<TenantId>, String),
    token: &str,
) -> Answer<Json<GitCredentialDocument>> {
    check(&name, token)?;
    let id = GitCredential::id_of(tenant.as_ref(), &name);
    let sealed = repositories.secrets.seal(&sealed_name(&id), token);
    let sealed = sealed.ok_or_else(|| RegistryError::internal("a token cannot be encrypted"))?;
    let credential = GitCredential {
        id: id.clone(),
        tenant,
        name,
        sealed,
        changed: whole_millis(repositories.clock.now()),
        by: caller.name.clone(),
    };
    let answer = document(&credential);
    let decide = move |draft: &mut Draft| {
        // The tenant may have been deleted meanwhile, with its credentials.
        let tenant = credential.tenant.as_ref();
        if tenant.is_some_and(|it| draft.tenant(it).is_none()) {
            return Err(RegistryError::NoSuchTenant);
        }
        draft.put_git_credential(credential.clone());
        Ok(())
    };
    repositories.store.change(by(caller), decide).await?;
    info!(id, caller = caller.name, "git credential set");
    Ok(Json(answer))
}

async fn remove(
    repositories: &Repositories,
    caller: &Caller,
    (tenant, name): (Option<TenantId>, String),
) -> Answer<StatusCode> {
    let id = GitCredential::id_of(tenant.as_ref(), &name);
    let is_it = move |it: &GitCredential| it.tenant == tenant && it.name == name;
    let gone = id.clone();
    let decide = move |draft: &mut Draft| {
        let missing = || RegistryError::NoSuchGitCredential(gone.clone());
        let found = draft.git_credential(&gone);
        found.filter(|it| is_it(&it.value)).ok_or_else(missing)?;
        match draft.delete_git_credential(&gone) {
            Err(StoreError::Missing) => Err(missing()),
            done => Ok(done?),
        }
    };
    repositories.store.change(by(caller), decide).await?;
    info!(id, caller = caller.name, "git credential deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses names that `gitRepo.apiSecretRef` could not have as a file, and texts that no header can carry.
fn check(name: &str, token: &str) -> Result<(), RegistryError> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(is_plain);
    if !is_name {
        let cause = format_args!(
            "the name of a credential has letters, digits, dashes, dots and underscores, at most {MAX_NAME_BYTES}"
        );
        return Err(invalid(cause).into());
    }
    let is_token = (1..=MAX_TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|it| it.is_ascii_graphic());
    if is_token {
        return Ok(());
    }
    let cause = format_args!(
        "token: expected 1 to {MAX_TOKEN_BYTES} visible ASCII characters without spaces"
    );
    Err(invalid(cause).into())
}

fn documents(view: &View, tenant: Option<&TenantId>) -> GitCredentials {
    let all = view.git_credentials();
    let own = all.filter(|it| it.value.tenant.as_ref() == tenant);
    GitCredentials {
        items: own.map(|it| document(&it.value)).collect(),
    }
}

fn document(credential: &GitCredential) -> GitCredentialDocument {
    GitCredentialDocument {
        name: credential.name.clone(),
        tenant: credential.tenant.clone(),
        changed: credential.changed,
        by: credential.by.clone(),
    }
}
