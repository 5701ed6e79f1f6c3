//! Access tokens of a project.

use std::collections::BTreeSet;

use fairlead_api::resources::AccessTokenSettings;
use http::Method;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use time::{Date, OffsetDateTime, format_description::well_known::Iso8601};

use super::{GitLab, is_last_page};
use crate::{
    api_calls::{ApiRequest, CallError},
    provider::{FoundRepo, FoundToken, PAGE_SIZE},
    providers::{decode, found, pages},
};

/// Roles by their numbers in the API.
const ROLES: [(u64, &str); 3] = [(20, "reporter"), (30, "developer"), (40, "maintainer")];

#[derive(Deserialize)]
struct Token {
    id: u64,
    name: String,
    #[serde(default)]
    revoked: bool,
    #[serde(default)]
    active: bool,
    #[serde(default)]
    scopes: BTreeSet<String>,
    #[serde(default)]
    access_level: u64,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// In the answer to its creation only.
    #[serde(default)]
    token: Option<SecretString>,
}

/// `None` for a token without an end, or with a role that the hub never gives.
fn token(it: Token) -> Option<FoundToken> {
    let (_, role) = ROLES.iter().find(|(level, _)| *level == it.access_level)?;
    Some(FoundToken {
        id: it.id.to_string(),
        name: it.name,
        role: (*role).to_owned(),
        scopes: it.scopes,
        expires: Date::parse(&it.expires_at?, &Iso8601::DATE).ok()?,
        created: it.created_at,
    })
}

pub(super) async fn list(gitlab: &GitLab, repo: &FoundRepo) -> Result<Vec<FoundToken>, CallError> {
    let path = ["projects", repo.id.as_str(), "access_tokens"];
    let query = [("per_page", PAGE_SIZE), ("state", "active")];
    let entries = pages(&gitlab.0, &path, &query, is_last_page).await?;
    let entries = entries.into_iter().map(decode);
    let entries: Vec<Token> = entries.collect::<Result<_, _>>()?;
    let active = entries.into_iter().filter(|it| it.active && !it.revoked);
    Ok(active.filter_map(token).collect())
}

pub(super) async fn create(
    gitlab: &GitLab,
    repo: &FoundRepo,
    name: &str,
    wish: &AccessTokenSettings,
    expires: Date,
) -> Result<(FoundToken, SecretString), CallError> {
    let level = ROLES.iter().find(|(_, role)| *role == wish.role);
    let body = json!({
        "name": name,
        "scopes": wish.scopes,
        "access_level": level.map(|(level, _)| level),
        "expires_at": expires.to_string(),
    });
    let path = ["projects", repo.id.as_str(), "access_tokens"];
    let request = ApiRequest::new(Method::POST, &path).body(body);
    let mut made: Token = decode(gitlab.0.call(request).await?.body)?;
    let text = made.token.take();
    let wrong = || CallError::Unavailable("the answer has no access token".to_owned());
    let text = text.ok_or_else(wrong)?;
    Ok((token(made).ok_or_else(wrong)?, text))
}

pub(super) async fn revoke(gitlab: &GitLab, repo: &FoundRepo, id: &str) -> Result<(), CallError> {
    let path = ["projects", repo.id.as_str(), "access_tokens", id];
    let done = gitlab.0.call(ApiRequest::new(Method::DELETE, &path)).await;
    found(done).map(drop)
}
