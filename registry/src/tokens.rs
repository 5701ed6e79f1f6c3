//! `/v1/tokens`: bearer tokens of people and programs. The secret is shown once; only its hash is
//! stored, and the token's id is the beginning of that hash.

mod hand_over;

use std::sync::Arc;

use aws_lc_rs::digest;
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::resources::{
    ApiToken, ApiTokenOwner, CreateToken, CreatedToken, HandOverToken, List, Role,
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, ListPosition, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path, Secret},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Actor, Draft, Record, Store, StoreError, View,
    model::{Token, TokenOwner, hex},
    random::{self, RandomError},
    whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use subtle::ConstantTimeEq;
use time::{Duration, OffsetDateTime};
use tracing::info;

use crate::{
    error::RegistryError,
    etag,
    listing::Listing,
    names::caller_name,
    owners::{MAX_OWNER_CHAIN, as_owner, chain_length, latest_end, may_have},
    person_roles,
    registry::{Registry, by},
    rights::{allow, sees_tenant, sees_token, tenant_of, visible},
    services::TokenVerifier,
};

/// Prefix of every token, so that secret scanners find it.
const PREFIX: &str = "flt_";
/// Upper bound for the length of our tokens, in bytes; longer texts are not hashed.
const MAX_TOKEN_BYTES: usize = 128;
const DEFAULT_TTL_SECONDS: u64 = 8 * 3600;
const MIN_TTL_SECONDS: u64 = 60;
const MAX_TTL_SECONDS: u64 = 366 * 24 * 3600;

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const TAG: Tag = Tag::TOKEN;
    const ALL: &str = "/v1/tokens";
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                ALL,
                "listTokens",
                "List API tokens, without their secrets",
            )
            .needs(&[Right::TOKENS])
            .query(Listing::parameters_with_text("Part of id or name"))
            .gives_list::<ApiToken>(200, "Tokens"),
            list,
        )
        .route(
            RouteSpec::post(
                TAG,
                ALL,
                "createToken",
                "Create an API token; only this response contains its secret",
            )
            .needs(&[Right::TOKENS])
            .takes::<CreateToken>()
            .gives::<CreatedToken>(201),
            create,
        )
        .route(
            RouteSpec::delete(
                TAG,
                "/v1/tokens/{tokenId}",
                "deleteToken",
                "Revoke an API token",
            )
            .needs(&[Right::TOKENS])
            .path_parameter("tokenId", token_id())
            .gives_nothing(204),
            remove,
        )
        .route(
            RouteSpec::put(
                TAG,
                "/v1/tokens/{tokenId}/owner",
                "handOverToken",
                "Hand an API token over to another owner, also one that fell with its owner",
            )
            .needs(&[Right::TOKENS])
            .path_parameter("tokenId", token_id())
            .takes::<HandOverToken>()
            .example(json!({ "to": "me" }))
            .gives::<ApiToken>(200),
            hand_over::hand_over,
        )
}

fn token_id() -> serde_json::Value {
    json!({ "type": "string", "pattern": "^k-[0-9a-f]{16}$" })
}

/// Creates a token and stores its hash.
///
/// # Errors
/// `FL-4109` for an invalid name, lifetime or role; `FL-4107` for an unknown tenant or cluster;
/// `FL-5102`.
pub async fn mint(
    store: &Store,
    now: OffsetDateTime,
    actor: Actor,
    asked: CreateToken,
) -> Result<CreatedToken, RegistryError> {
    let deliver = |_: &SecretString| Ok::<_, RegistryError>(());
    mint_for(store, now, actor, asked, TokenCondition::Always, deliver).await
}

/// Condition under which a token is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCondition {
    /// None.
    Always,
    /// The store has no token yet. Of several hubs that start at once one succeeds.
    FirstToken,
}

/// Like [`mint`]; `deliver` receives the token before the store knows it.
///
/// # Errors
/// As [`mint`], and those of `deliver`; then there is no token. [`RegistryError::Conflict`] if the condition does not
/// hold.
pub async fn mint_for<E: From<RegistryError>>(
    store: &Store,
    now: OffsetDateTime,
    actor: Actor,
    asked: CreateToken,
    condition: TokenCondition,
    deliver: impl FnOnce(&SecretString) -> Result<(), E>,
) -> Result<CreatedToken, E> {
    let ownership = Ownership {
        must_be_first: condition == TokenCondition::FirstToken,
        ..Ownership::default()
    };
    mint_owned(store, now, actor, asked, ownership, deliver).await
}

/// Owner of a new token, and the end of the owner's right to it.
#[derive(Default)]
struct Ownership {
    owner: Option<TokenOwner>,
    latest_end: Option<OffsetDateTime>,
    /// The store must have no token.
    must_be_first: bool,
}

async fn mint_owned<E: From<RegistryError>>(
    store: &Store,
    now: OffsetDateTime,
    actor: Actor,
    asked: CreateToken,
    ownership: Ownership,
    deliver: impl FnOnce(&SecretString) -> Result<(), E>,
) -> Result<CreatedToken, E> {
    check(&asked).map_err(RegistryError::from)?;
    let lifetime = lifetime(&asked, now, ownership.latest_end).map_err(RegistryError::from)?;
    let minted = new(&asked.name, asked.role, whole_millis(now), lifetime);
    let (mut kept, token) = minted.map_err(RegistryError::from)?;
    kept.tenant = asked.tenant;
    kept.cluster = asked.cluster;
    kept.created_by = Some(actor.to_string());
    kept.owner.clone_from(&ownership.owner);
    let about = shown(&store.view(), &kept);
    deliver(&token)?;
    let decide = move |draft: &mut Draft| {
        if ownership.must_be_first && draft.tokens().next().is_some() {
            return Err(StoreError::Conflict);
        }
        draft.put_token(kept.clone())
    };
    let done = store.change(actor, decide).await;
    done.map_err(|error| match error {
        StoreError::Missing => RegistryError::UnknownScope,
        StoreError::Conflict => RegistryError::Conflict,
        other => other.into(),
    })?;
    info!(token = about.id, name = about.name, role = %about.role, tenant = about.tenant.as_ref().map(tracing::field::display), "token created");
    Ok(CreatedToken { about, token })
}

/// Lifetime of a new token: an explicit one must fit, the default ends with the owner.
fn lifetime(
    asked: &CreateToken,
    now: OffsetDateTime,
    latest_end: Option<OffsetDateTime>,
) -> Result<Duration, InvalidValue> {
    let left = latest_end.map_or(MAX_TTL_SECONDS, |end| {
        u64::try_from((end - now).whole_seconds()).unwrap_or(0)
    });
    let longest = left.min(MAX_TTL_SECONDS);
    if longest < MIN_TTL_SECONDS {
        return Err(invalid("the owner of the token ends in less than a minute"));
    }
    let ttl = asked
        .ttl_seconds
        .unwrap_or(DEFAULT_TTL_SECONDS.min(longest));
    if ttl > longest && ttl <= MAX_TTL_SECONDS {
        return Err(invalid(format_args!(
            "ttlSeconds: at most {longest}: a token ends no later than its owner's right to it"
        )));
    }
    if !(MIN_TTL_SECONDS..=MAX_TTL_SECONDS).contains(&ttl) {
        return Err(invalid(format_args!(
            "ttlSeconds: expected {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS}"
        )));
    }
    Ok(Duration::seconds(i64::try_from(ttl).unwrap_or(i64::MAX)))
}

/// Generates a secret and the record to store.
///
/// # Errors
/// [`RandomError`] without random bytes.
pub fn new(
    name: &str,
    role: Role,
    created: OffsetDateTime,
    lifetime: Duration,
) -> Result<(Token, SecretString), RandomError> {
    let secret = random::bytes::<32>()?;
    let token = SecretString::from(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret)));
    let hash = hash(token.expose_secret());
    let kept = Token {
        id: id_of(&hash),
        hash,
        name: name.to_owned(),
        role,
        tenant: None,
        cluster: None,
        created,
        expires: created + lifetime,
        created_by: None,
        owner: None,
        exchanged: false,
        exchange_rules: None,
        roles: Vec::new(),
        replaces: false,
    };
    Ok((kept, token))
}

/// Refuses the name of a new token if an issuer can produce it for a caller.
///
/// # Errors
/// `FL-4109`
pub fn refuse_reserved(issuers: &dyn TokenVerifier, name: &str) -> Result<(), InvalidValue> {
    match issuers.reserves(name) {
        true => Err(InvalidValue::because(
            "name: reserved for the callers of an issuer",
        )),
        false => Ok(()),
    }
}

/// Checks the combination of role, tenant and cluster.
fn check(asked: &CreateToken) -> Result<(), InvalidValue> {
    caller_name(&asked.name)?;
    let wrong = match (asked.role, &asked.tenant, &asked.cluster) {
        (Role::Cluster, _, None) => "a token with the role cluster names its cluster",
        (Role::Cluster, Some(_), _) => "a token with the role cluster names no tenant",
        (Role::Tenant, None, _) => "a token with the role tenant names its tenant",
        (Role::Tcp, Some(_), Some(_)) => "a token with the role tcp names a tenant or a cluster",
        (Role::Cluster | Role::Tcp, None, Some(_)) => return Ok(()),
        (_, _, Some(_)) => "only a token with the role cluster or tcp names a cluster",
        _ => return Ok(()),
    };
    Err(InvalidValue::because(wrong))
}

/// True if the text has the form of our tokens.
pub(crate) fn is_one(token: &SecretString) -> bool {
    token.expose_secret().starts_with(PREFIX)
}

/// SHA-256 of a token.
pub(crate) type TokenHash = [u8; 32];

/// Record of a token, valid or expired.
#[must_use]
pub fn find(view: &View, token: &SecretString) -> Option<Arc<Record<Token>>> {
    find_by_hash(view, &hash_of(token.expose_secret())?)
}

/// Record of a token, valid or expired. The hash is compared in constant time; the id used for the
/// lookup is public.
pub(crate) fn find_by_hash(view: &View, hash: &TokenHash) -> Option<Arc<Record<Token>>> {
    let found = view.token(&id_of(hash))?;
    bool::from(found.value.hash.ct_eq(hash)).then(|| Arc::clone(found))
}

/// Hash of a text with the form of our tokens.
pub(crate) fn hash_of(text: &str) -> Option<TokenHash> {
    let has_form = text.starts_with(PREFIX) && text.len() <= MAX_TOKEN_BYTES;
    has_form.then(|| hash(text))
}

fn hash(token: &str) -> TokenHash {
    let mut hash = [0; 32];
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    hash.copy_from_slice(digest.as_ref());
    hash
}

fn id_of(hash: &TokenHash) -> String {
    let (start, _) = hash.split_at(8);
    format!("k-{}", hex::encode(start))
}

/// A token without last use, which only the database knows, and without the check of its owner.
fn shown(view: &View, token: &Token) -> ApiToken {
    let owner = token.owner.as_ref().map(|owner| match owner {
        TokenOwner::Token { token } => ApiTokenOwner {
            name: view
                .token(token)
                .map_or_else(|| token.clone(), |it| it.value.caller_name()),
            token: Some(token.clone()),
            issuer: None,
            sub: None,
        },
        TokenOwner::Person(person) => ApiTokenOwner {
            name: person.name.clone(),
            token: None,
            issuer: Some(person.issuer.clone()),
            sub: Some(person.sub.clone()),
        },
    });
    ApiToken {
        id: token.id.clone(),
        name: token.name.clone(),
        role: token.role,
        tenant: token.tenant.clone(),
        cluster: token.cluster.clone(),
        created: token.created,
        expires: token.expires,
        created_by: token.created_by.clone(),
        owner,
        exchanged: token.exchanged,
        grants: person_roles::shown(&token.roles),
        last_used: None,
        fallen: None,
    }
}

/// Deletes tokens that expired before a time; returns their number.
pub(super) async fn forget(
    registry: &Registry,
    before: OffsetDateTime,
) -> Result<usize, StoreError> {
    let before_exchanged = registry.now();
    let decide = move |draft: &mut Draft| {
        // Exchanged tokens are many, and nobody asks for an old one.
        let old = draft.tokens().filter(|it| match it.value.exchanged {
            true => it.value.expires < before_exchanged,
            false => it.value.expires < before,
        });
        let old: Vec<String> = old.map(|it| it.value.id.clone()).collect();
        for id in &old {
            draft.delete_token(id)?;
        }
        Ok::<_, StoreError>(old.len())
    };
    Ok(registry.store.change(Actor::Hub, decide).await?.value)
}

async fn list(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let asked = Listing::of(&uri)?;
    let caller = caller.with_own_role();
    allow(&caller, Right::TOKENS)?;
    let uses = registry.store.token_uses().await?;
    let view = registry.store.view();
    let scope = asked.scope(&view, &caller);
    let found = view.tokens().filter(|it| {
        let token = &it.value;
        sees_token(&view, &caller, token)
            && scope.has(tenant_of(&view, token))
            && asked.is_in(&[&token.id, &token.name])
    });
    let placed = found.map(|it| (ListPosition::of(&it.value.id), it));
    let (found, link) = asked.cut(placed.collect());
    let described = |token: &Token| ApiToken {
        last_used: uses.get(&token.id).copied(),
        fallen: registry.fallen(&view, token),
        ..shown(&view, token)
    };
    let items = found.into_iter().map(|it| described(&it.value)).collect();
    Ok(etag::listed(&headers, &view, &List { items }, link)?)
}

async fn create(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    JsonBody(asked): JsonBody<CreateToken>,
) -> Answer<impl IntoResponse> {
    let caller = caller.with_own_role();
    allow(&caller, Right::TOKENS)?;
    check(&asked)?;
    refuse_reserved(registry.services.issuers.as_ref(), &asked.name)?;
    let view = registry.store.view();
    let seen = match (&asked.cluster, &asked.tenant) {
        (Some(cluster), _) => visible(&view, &caller, cluster.as_str()).is_ok(),
        (None, Some(tenant)) => sees_tenant(&view, &caller, tenant),
        (None, None) if caller.tenant.is_none() => true,
        (None, None) => {
            let detail = "a token on all tenants needs the role admin on all tenants";
            let own = caller.tenant.as_ref().map(ToString::to_string);
            let next = format!("Add `--tenant {}`.", own.unwrap_or_default());
            let detail = detail.to_owned();
            return Err(RegistryError::NotAllowed { detail, next }.into());
        }
    };
    if !seen {
        // Same answer as for a missing one.
        return Err(RegistryError::UnknownScope.into());
    }
    let ownership = ownership(&registry, &view, &caller)?;
    let (store, now) = (&registry.store, registry.now());
    let deliver = |_: &SecretString| Ok::<_, RegistryError>(());
    let created = mint_owned(store, now, by(&caller), asked, ownership, deliver).await?;
    Ok((StatusCode::CREATED, Secret(created)))
}

/// The caller as the owner of a new token.
fn ownership(
    registry: &Registry,
    view: &View,
    caller: &Caller,
) -> Result<Ownership, RegistryError> {
    let Some(owner) = as_owner(view, caller) else {
        return Ok(Ownership::default());
    };
    if chain_length(view, &owner, None).is_none_or(|length| length >= MAX_OWNER_CHAIN) {
        let detail = format!("at most {MAX_OWNER_CHAIN} tokens may own each other in a chain");
        return Err(InvalidValue::because(detail).into());
    }
    let ttl = registry.settings.person_token_ttl;
    let latest_end = latest_end(view, &owner, registry.now(), ttl);
    Ok(Ownership {
        owner: Some(owner),
        latest_end,
        must_be_first: false,
    })
}

async fn remove(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let caller = caller.with_own_role();
    allow(&caller, Right::TOKENS)?;
    let (who, deleted_id) = (caller.clone(), id.clone());
    let decide = move |draft: &mut Draft| -> Result<(), RegistryError> {
        let token = draft.token(&deleted_id);
        if !token.is_some_and(|it| sees_token(draft, &who, &it.value)) {
            return Err(RegistryError::NoSuchToken(deleted_id.clone()));
        }
        Ok(draft.delete_token(&deleted_id)?)
    };
    registry.store.change(by(&caller), decide).await?;
    info!(token = id, caller = caller.name, "token deleted");
    Ok(StatusCode::NO_CONTENT)
}
