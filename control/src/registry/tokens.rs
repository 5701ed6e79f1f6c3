//! `/api/v1/tokens`: bearer tokens of the kubectl side. The token is shown once; its hash is what is kept, and its id is
//! the start of that hash.

use std::sync::Arc;

use aws_lc_rs::digest;
use axum::{
    Json, Router,
    extract::{Path, State},
    response::IntoResponse,
    routing::{delete, get},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::{
    Code, Failure,
    resources::{ApiToken, CreateToken, CreatedToken, List, Role},
};
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use time::{Duration, OffsetDateTime};
use tracing::info;

use super::{
    names::caller_name,
    rights::{at_least, scope},
};
use crate::{
    hub::{Hub, by},
    model::{Token, hex},
    random,
    reply::{Answer, Refused, Secret, Sent, Who},
    store::{Actor, Draft, Record, StoreError, View, whole_millis},
};

/// What every token starts with, so that scanners for leaked secrets find it.
const PREFIX: &str = "flt_";
/// Longer than any token of ours, in bytes; nothing longer is hashed.
const MAX_LEN: usize = 128;
const DEFAULT_TTL: u64 = 8 * 3600;
const MIN_TTL: u64 = 60;
const MAX_TTL: u64 = 366 * 24 * 3600;

pub(crate) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/api/v1/tokens", get(list).post(create))
        .route("/api/v1/tokens/{id}", delete(remove))
}

/// Makes a token and keeps its hash.
///
/// # Errors
/// `FL-4109` for a name or lifetime that may not be, `FL-4107` if there is no such tenant, `FL-5102`.
pub(crate) async fn mint(
    hub: &Hub,
    actor: Actor,
    asked: CreateToken,
) -> Result<CreatedToken, Failure> {
    caller_name(&asked.name)?;
    let ttl = asked.ttl_seconds.unwrap_or(DEFAULT_TTL);
    if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
        let detail = format!("ttlSeconds is {MIN_TTL} to {MAX_TTL}");
        return Err(Failure::because(Code::Invalid, detail));
    }
    let secret = random::bytes::<32>()?;
    let token = SecretString::from(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret)));
    let hash = hash(&token);
    let created = whole_millis(hub.now());
    let kept = Token {
        id: id_of(&hash),
        hash,
        name: asked.name,
        role: asked.role,
        tenant: asked.tenant,
        cluster: None,
        created,
        expires: created + Duration::seconds(i64::try_from(ttl).unwrap_or(i64::MAX)),
        made_by: Some(actor.to_string()),
    };
    let about = shown(&kept);
    let decide = move |draft: &mut Draft| draft.put_token(kept.clone());
    let done = hub.store.change(actor, decide).await;
    done.map_err(|error| match error {
        StoreError::Missing => Failure::because(Code::NotFound, "no such tenant"),
        other => other.into(),
    })?;
    info!(token = about.id, name = about.name, role = %about.role, tenant = about.tenant.as_ref().map(tracing::field::display), "token minted");
    Ok(CreatedToken { about, token })
}

/// The token's entry, valid or expired. The hash is compared in constant time; the id, by which it is found, is public.
pub(crate) fn find(view: &View, token: &SecretString) -> Option<Arc<Record<Token>>> {
    let text = token.expose_secret();
    if !text.starts_with(PREFIX) || text.len() > MAX_LEN {
        return None;
    }
    let hash = hash(token);
    let found = view.token(&id_of(&hash))?;
    bool::from(found.value.hash.ct_eq(&hash)).then(|| Arc::clone(found))
}

fn hash(token: &SecretString) -> [u8; 32] {
    let mut hash = [0; 32];
    let digest = digest::digest(&digest::SHA256, token.expose_secret().as_bytes());
    hash.copy_from_slice(digest.as_ref());
    hash
}

fn id_of(hash: &[u8; 32]) -> String {
    let (start, _) = hash.split_at(8);
    format!("k-{}", hex::encode(start))
}

fn shown(token: &Token) -> ApiToken {
    ApiToken {
        id: token.id.clone(),
        name: token.name.clone(),
        role: token.role,
        tenant: token.tenant.clone(),
        created: token.created,
        expires: token.expires,
    }
}

/// Forgets tokens that had expired by `before`; says how many.
pub(super) async fn forget(hub: &Hub, before: OffsetDateTime) -> Result<usize, StoreError> {
    let decide = move |draft: &mut Draft| {
        let old = draft.tokens().filter(|it| it.value.expires < before);
        let old: Vec<String> = old.map(|it| it.value.id.clone()).collect();
        for id in &old {
            draft.delete_token(id)?;
        }
        Ok::<_, StoreError>(old.len())
    };
    Ok(hub.store.change(Actor::Hub, decide).await?.value)
}

async fn list(State(hub): State<Arc<Hub>>, Who(caller): Who) -> Answer<Json<List<ApiToken>>> {
    at_least(&caller, Role::Admin)?;
    let own = scope(&caller);
    let view = hub.store.view();
    let visible = view
        .tokens()
        .filter(|it| own.is_none() || it.value.tenant.as_ref() == own);
    let items = visible.map(|it| shown(&it.value)).collect();
    Ok(Json(List { items }))
}

async fn create(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Sent(asked): Sent<CreateToken>,
) -> Answer<impl IntoResponse> {
    at_least(&caller, Role::Admin)?;
    match (scope(&caller), &asked.tenant) {
        (Some(_), None) => {
            let detail =
                "it takes an admin on all tenants to make a token on all tenants; name your tenant";
            return Err(Refused::because(Code::NotAllowed, detail));
        }
        // As for a tenant that does not exist.
        (Some(own), Some(other)) if own != other => {
            return Err(Refused::because(Code::NotFound, "no such tenant"));
        }
        _ => {}
    }
    let created = mint(&hub, by(&caller), asked).await?;
    Ok((StatusCode::CREATED, Secret(created)))
}

async fn remove(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    at_least(&caller, Role::Admin)?;
    let own = scope(&caller).cloned();
    let doomed = id.clone();
    let decide = move |draft: &mut Draft| {
        let token = draft.token(&doomed).ok_or(StoreError::Missing)?;
        if own.is_some() && token.value.tenant != own {
            return Err(StoreError::Missing);
        }
        draft.delete_token(&doomed)
    };
    hub.store.change(by(&caller), decide).await?;
    info!(token = id, caller = caller.name, "token deleted");
    Ok(StatusCode::NO_CONTENT)
}
