//! `/v1/locks`: locks of users, tokens, clusters and tenants, and their check at each request.
//!
//! No lock shuts out the operator of the hub: a new token of `hub.sock` has a name that no lock knows.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    Code, Failure,
    resources::{CreateLock, List, Lock, LockKind, Role},
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, ListPosition, Page, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Actor, Draft, StoreError, View,
    model::{AccessLock, Cluster, LockTarget},
    whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use tracing::info;

use crate::{
    error::RegistryError,
    registry::{Registry, by},
    rights::{allow_somewhere, sees_tenant, sees_token, visible, visible_tenant},
};

/// Lock users, tokens, clusters and tenants, and end running requests.
pub const LOCK: Right = Right::new("locking, or ending requests of others,", &[Role::Admin]);
/// Maximum length of a reason.
pub const MAX_REASON_CHARS: usize = 256;
const MIN_TTL_SECONDS: u64 = 60;
const MAX_TTL_SECONDS: u64 = 366 * 24 * 3600;
const MAX_NAME_BYTES: usize = 256;

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const TAG: Tag = Tag::TOKEN;
    const ONE: &str = "/v1/locks/{kind}/{name}";
    let kinds = || json!({ "type": "string", "enum": LockKind::ALL.map(LockKind::as_str) });
    let name = || {
        let pattern = r"^[^/\\\x00-\x1f\x7f-\x9f]+$";
        json!({ "type": "string", "pattern": pattern, "maxLength": MAX_NAME_BYTES })
    };
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, "/v1/locks", "listLocks", "List active locks")
                .needs(&[LOCK])
                .query(Page::parameters())
                .gives_list::<Lock>(200, "Locks"),
            list,
        )
        .route(
            RouteSpec::put(
                TAG,
                ONE,
                "lock",
                "Lock a user, token, cluster or tenant; running requests end within seconds",
            )
            .needs(&[LOCK])
            .path_parameter("kind", kinds())
            .path_parameter("name", name())
            .takes::<CreateLock>()
            .example(json!({ "reason": "laptop stolen", "ttlSeconds": 7200 }))
            .gives::<Lock>(200),
            put,
        )
        .route(
            RouteSpec::delete(TAG, ONE, "unlock", "Remove a lock")
                .needs(&[LOCK])
                .path_parameter("kind", kinds())
                .path_parameter("name", name())
                .gives_nothing(204),
            remove,
        )
}

/// Text of the active lock of a caller, its token or its tenant.
pub(crate) fn lock_of_caller(view: &View, caller: &Caller, now: OffsetDateTime) -> Option<String> {
    if view.locks().len() == 0 {
        return None;
    }
    active(view, LockKind::User, &caller.name, now)
        .or_else(|| active(view, LockKind::Token, caller.token.as_deref()?, now))
        .or_else(|| {
            let above = view.lineage(caller.tenant.as_ref()?);
            above
                .filter_map(|id| active(view, LockKind::Tenant, id.as_str(), now))
                .next()
        })
}

/// Text of the active lock of a cluster or its tenant.
pub(crate) fn lock_of_cluster(
    view: &View,
    cluster: &Cluster,
    now: OffsetDateTime,
) -> Option<String> {
    if view.locks().len() == 0 {
        return None;
    }
    active(view, LockKind::Cluster, cluster.id.as_str(), now).or_else(|| {
        let above = view.lineage(&cluster.tenant);
        above
            .filter_map(|id| active(view, LockKind::Tenant, id.as_str(), now))
            .next()
    })
}

fn active(view: &View, kind: LockKind, name: &str, now: OffsetDateTime) -> Option<String> {
    let lock = &view.lock(&AccessLock::id_of(kind, name))?.value;
    if !lock.is_active(now) {
        return None;
    }
    let until = lock.until.and_then(|until| until.format(&Rfc3339).ok());
    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
    Some(format!(
        "{kind} {name} is locked{until} by {}: {}",
        lock.created_by, lock.reason
    ))
}

fn shown(lock: &AccessLock) -> Option<Lock> {
    let LockTarget::Named { kind, name } = &lock.target else {
        return None;
    };
    Some(Lock {
        kind: *kind,
        name: name.clone(),
        reason: lock.reason.clone(),
        created_by: lock.created_by.clone(),
        created: lock.created,
        until: lock.until,
    })
}

/// Checks that the caller may know of a thing, and therefore lock it.
fn check_visible(
    view: &View,
    caller: &Caller,
    kind: LockKind,
    name: &str,
) -> Result<(), RegistryError> {
    match kind {
        LockKind::Cluster => visible(view, caller, name).map(drop),
        LockKind::Tenant => visible_tenant(view, caller, name).map(drop),
        LockKind::Token => {
            let token = view.token(name);
            let seen = token.is_some_and(|it| sees_token(view, caller, &it.value));
            seen.then_some(())
                .ok_or_else(|| RegistryError::NoSuchToken(name.to_owned()))
        }
        LockKind::User if caller.tenant.is_none() => Ok(()),
        // Names of a tenant's tokens begin with the tenant or the cluster.
        LockKind::User => {
            let owner = name
                .split_once(':')
                .map(|(owner, _)| owner)
                .unwrap_or_default();
            let tenant = owner.parse().ok();
            let is_below = tenant.is_some_and(|it| sees_tenant(view, caller, &it))
                || visible(view, caller, owner).is_ok();
            is_below
                .then_some(())
                .ok_or_else(|| RegistryError::NotAllowed {
                    detail: format!("{:?} may lock users of its own tenant only", caller.name),
                    next: "Use a token with the role admin on all tenants.".to_owned(),
                })
        }
    }
}

fn kind_of(text: &str) -> Result<LockKind, InvalidValue> {
    let kind = LockKind::ALL.into_iter().find(|it| it.as_str() == text);
    kind.ok_or_else(|| invalid("kind: expected user, token, cluster or tenant"))
}

async fn list(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<List<Lock>>)> {
    let page = Page::of(&uri)?;
    let caller = allow_somewhere(&caller, LOCK)?;
    let (view, now) = (registry.store.view(), registry.now());
    let found = view.locks().filter(|it| it.value.is_active(now));
    let found = found.filter_map(|it| Some((ListPosition::of(&it.value.id), shown(&it.value)?)));
    let found =
        found.filter(|(_, lock)| check_visible(&view, &caller, lock.kind, &lock.name).is_ok());
    let (items, link) = page.cut(found.collect());
    Ok((link, Json(List { items })))
}

async fn put(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path((kind, name)): Path<(String, String)>,
    JsonBody(asked): JsonBody<CreateLock>,
) -> Answer<Response> {
    let caller = allow_somewhere(&caller, LOCK)?;
    let kind = kind_of(&kind)?;
    let now = whole_millis(registry.now());
    let lock = new(&caller, kind, &name, &asked, now)?;
    check_own(&registry.store.view(), &caller, kind, &name)?;
    let (who, kept) = (caller.clone(), lock.clone());
    let decide = move |draft: &mut Draft| {
        check_visible(draft, &who, kind, &name)?;
        draft.put_lock(kept.clone());
        Ok::<_, RegistryError>(())
    };
    registry.store.change(by(&caller), decide).await?;
    info!(
        lock = lock.id,
        caller = caller.name,
        reason = lock.reason,
        "lock created"
    );
    Ok(Json(shown(&lock)).into_response())
}

fn new(
    caller: &Caller,
    kind: LockKind,
    name: &str,
    asked: &CreateLock,
    now: OffsetDateTime,
) -> Result<AccessLock, InvalidValue> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(invalid("name: not a name"));
    }
    let until = match asked.ttl_seconds {
        None => None,
        Some(ttl) if (MIN_TTL_SECONDS..=MAX_TTL_SECONDS).contains(&ttl) => {
            Some(now + Duration::seconds(i64::try_from(ttl).unwrap_or(i64::MAX)))
        }
        Some(_) => {
            let cause = format_args!("ttlSeconds: expected {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS}");
            return Err(invalid(cause));
        }
    };
    Ok(AccessLock {
        id: AccessLock::id_of(kind, name),
        target: LockTarget::Named {
            kind,
            name: name.to_owned(),
        },
        reason: checked_reason(&asked.reason)?.to_owned(),
        created_by: caller.name.clone(),
        created: now,
        until,
    })
}

/// A reason as one line of text.
///
/// # Errors
/// `FL-4109`
pub fn checked_reason(reason: &str) -> Result<&str, InvalidValue> {
    let reason = reason.trim();
    let is_line = !reason.is_empty() && !reason.chars().any(char::is_control);
    match is_line && reason.chars().count() <= MAX_REASON_CHARS {
        true => Ok(reason),
        false => Err(invalid(format_args!(
            "reason: expected one line of 1 to {MAX_REASON_CHARS} characters"
        ))),
    }
}

/// Refuses a lock that would lock its author out.
fn check_own(view: &View, caller: &Caller, kind: LockKind, name: &str) -> Result<(), Failure> {
    let is_own = match kind {
        LockKind::User => caller.name == name,
        LockKind::Token => caller.token.as_deref() == Some(name),
        LockKind::Tenant => {
            let own = caller.tenant.as_ref();
            own.is_some_and(|own| view.lineage(own).any(|id| id.as_str() == name))
        }
        LockKind::Cluster => false,
    };
    match is_own {
        false => Ok(()),
        true => Err(Failure::because(
            Code::Invalid,
            "this lock would lock you out",
        )),
    }
}

async fn remove(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path((kind, name)): Path<(String, String)>,
) -> Answer<StatusCode> {
    let caller = allow_somewhere(&caller, LOCK)?;
    let kind = kind_of(&kind)?;
    let id = AccessLock::id_of(kind, &name);
    let (who, removed) = (caller.clone(), id.clone());
    let decide = move |draft: &mut Draft| {
        let known = draft.lock(&removed).is_some();
        // The locked thing may be gone; then only an admin of all tenants removes its lock.
        let seen = who.tenant.is_none() || check_visible(draft, &who, kind, &name).is_ok();
        if known && seen {
            draft.delete_lock(&removed)?;
        }
        Ok::<_, RegistryError>(known && seen)
    };
    if !registry.store.change(by(&caller), decide).await?.value {
        let failure = Failure::with_cause(Code::NotFound, "there is no such lock");
        return Err(failure
            .next("List the locks with `fairlead locks list`.")
            .into());
    }
    info!(lock = id, caller = caller.name, "lock removed");
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes locks and orders that ended before a time; returns their number.
pub(super) async fn forget(
    registry: &Registry,
    before: OffsetDateTime,
) -> Result<usize, StoreError> {
    let decide = move |draft: &mut Draft| {
        let old = draft.locks().filter(|it| !it.value.is_active(before));
        let old: Vec<String> = old.map(|it| it.value.id.clone()).collect();
        for id in &old {
            draft.delete_lock(id)?;
        }
        Ok::<_, StoreError>(old.len())
    };
    Ok(registry.store.change(Actor::Hub, decide).await?.value)
}
