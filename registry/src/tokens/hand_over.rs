//! `PUT /v1/tokens/{tokenId}/owner`: gives a token another owner. The log of changes has both owners.

use std::sync::Arc;

use axum::extract::State;
use fairlead_api::resources::{ApiToken, HandOverToken};
use fairlead_routes::{
    Right, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, View, model::TokenOwner};
use tracing::info;

use super::{MAX_OWNER_CHAIN, as_owner, chain_length, latest_end, may_have, shown};
use crate::{
    error::RegistryError,
    registry::{Registry, by},
    rights::{allow, sees_token},
};

/// Target of a hand-over to the caller itself.
const ME: &str = "me";

pub(super) async fn hand_over(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<HandOverToken>,
) -> Answer<axum::Json<ApiToken>> {
    let caller = caller.with_own_role();
    allow(&caller, Right::TOKENS)?;
    let (deciding, who, token) = (Arc::clone(&registry), caller.clone(), id.clone());
    let decide = move |draft: &mut Draft| give(&deciding, draft, &who, &token, &asked.to);
    registry.store.change(by(&caller), decide).await?;
    let view = registry.store.view();
    let token = view.token(&id).ok_or(RegistryError::NoSuchToken(id))?;
    let mut about = shown(&view, &token.value);
    about.fallen = registry.fallen(&view, &token.value);
    let owner = about.owner.as_ref().map(|it| it.name.as_str());
    info!(
        token = about.id,
        owner,
        caller = caller.name,
        "token handed over"
    );
    Ok(axum::Json(about))
}

/// Changes the owner in a draft. The expiry is never later than before.
fn give(
    registry: &Registry,
    draft: &mut Draft,
    caller: &Caller,
    id: &str,
    to: &str,
) -> Result<(), RegistryError> {
    let token = draft.token(id).map(|it| it.value.clone());
    let token = token.filter(|it| sees_token(draft, caller, it));
    let mut token = token.ok_or_else(|| RegistryError::NoSuchToken(id.to_owned()))?;
    if token.exchanged {
        return Err(invalid("an exchanged token ends with its subject").into());
    }
    let owner = named(draft, caller, to)?;
    let length = chain_length(draft, &owner, Some(id));
    if length.is_none_or(|length| length >= MAX_OWNER_CHAIN) {
        let cause = "to: the token would own itself, or its owners would be too many";
        return Err(invalid(cause).into());
    }
    let present = registry.owner_as_caller(draft, &owner, MAX_OWNER_CHAIN);
    let present = present.map_err(|error| invalid(format_args!("to: {error}")))?;
    if !may_have(draft, &present, &token) {
        return Err(invalid(format_args!(
            "to: {} has no right to such a token; it needs the role admin on its tenant",
            present.name
        ))
        .into());
    }
    let ttl = registry.settings.person_token_ttl;
    if let Some(end) = latest_end(draft, &owner, registry.now(), ttl) {
        token.expires = token.expires.min(end);
    }
    token.owner = Some(owner);
    Ok(draft.put_token(token)?)
}

/// The owner that a request names, among those visible to the caller.
fn named(view: &View, caller: &Caller, to: &str) -> Result<TokenOwner, RegistryError> {
    if to == ME {
        let own = as_owner(view, caller);
        return own.ok_or_else(|| invalid("to: the caller has no credential that ends").into());
    }
    let mut tokens = view
        .tokens()
        .filter(|it| sees_token(view, caller, &it.value));
    let found = match view.token(to) {
        Some(token) if sees_token(view, caller, &token.value) => Some(TokenOwner::Token {
            token: token.value.id.clone(),
        }),
        _ => tokens.find_map(|it| {
            let person = it.value.person().filter(|_| !it.value.exchanged);
            let person = person.filter(|person| person.name == to)?;
            Some(TokenOwner::Person(person.clone()))
        }),
    };
    found.ok_or_else(|| {
        invalid(format_args!(
            "to: {to:?} is no token, and no person who owns one; a person takes a token over with \"me\""
        ))
        .into()
    })
}
