//! Access token of a repository for programs: made, kept where the settings say, and replaced
//! ahead of its end. Its text reaches no record, log or answer.

use std::time::{Duration, SystemTime};

use fairlead_api::resources::AccessTokenSettings;
use fairlead_repositories::{
    DesiredRepo, GitServerError, KnownRepo, RepoOwner, ReportedAccessToken,
};
use time::{Date, OffsetDateTime};

use super::Reconciler;
use crate::{
    credential_place::CredentialPlace,
    provider::{FoundRepo, FoundToken},
};

/// Shortest time for which programs may still use the token before.
const REVOCATION_DELAY_MIN: Duration = Duration::from_secs(3600);

/// Reconciles the token; `None` without a declaration.
pub(super) async fn reconcile(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    desired: &DesiredRepo,
    known: &KnownRepo,
    place: &CredentialPlace<'_>,
    corrected: &mut Vec<String>,
) -> Result<Option<ReportedAccessToken>, GitServerError> {
    let provider = reconciler.provider;
    if !provider.has_access_tokens() {
        let unsupported = desired.access_token.as_ref();
        return Ok(unsupported.map(|_| ReportedAccessToken::Unsupported));
    }
    if desired.access_token.is_none() && known.access_token.is_none() {
        return Ok(None);
    }
    let name = token_name(&desired.owner);
    let own = own_tokens(reconciler, repo, &name).await?;
    let Some(wish) = &desired.access_token else {
        for token in &own {
            revoke(reconciler, repo, token).await?;
        }
        corrected.push("access token".to_owned());
        return Ok(None);
    };
    let now = OffsetDateTime::from(SystemTime::now());
    let known = known.access_token.as_deref();
    let current = own.iter().find(|it| Some(it.id.as_str()) == known);
    let current = current.filter(|it| is_good(it, wish, now.date()));
    if let Some(current) = current
        && place.read().await?.is_some()
    {
        for old in own.iter().filter(|it| it.id != current.id) {
            if current.created + REVOCATION_DELAY_MIN <= now {
                revoke(reconciler, repo, old).await?;
            }
        }
        return Ok(Some(reported(current)));
    }
    let made = make(reconciler, repo, &name, wish, now.date(), place).await?;
    corrected.push("access token".to_owned());
    Ok(Some(made))
}

/// Revokes all tokens of a deleted owner.
pub(super) async fn revoke_all(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    owner: &RepoOwner,
) -> Result<(), GitServerError> {
    for token in own_tokens(reconciler, repo, &token_name(owner)).await? {
        revoke(reconciler, repo, &token).await?;
    }
    Ok(())
}

fn token_name(owner: &RepoOwner) -> String {
    format!("fairlead {owner}")
}

async fn own_tokens(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    name: &str,
) -> Result<Vec<FoundToken>, GitServerError> {
    let found = reconciler.provider.access_tokens(repo).await;
    let found = found.map_err(|error| reconciler.error("reading the access tokens", error))?;
    Ok(found.into_iter().filter(|it| it.name == name).collect())
}

/// True for a token with the declared rights that has more than a third of its life left.
fn is_good(token: &FoundToken, wish: &AccessTokenSettings, today: Date) -> bool {
    let left = (token.expires - today).whole_days();
    token.role == wish.role
        && token.scopes == wish.scopes
        && left * 3 > i64::from(wish.lifetime_days)
}

async fn make(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    name: &str,
    wish: &AccessTokenSettings,
    today: Date,
    place: &CredentialPlace<'_>,
) -> Result<ReportedAccessToken, GitServerError> {
    // Before the token exists, so that a missing place leaves no unused token behind.
    place.check()?;
    let expires = today + time::Duration::days(i64::from(wish.lifetime_days));
    let provider = reconciler.provider;
    let made = provider
        .create_access_token(repo, name, wish, expires)
        .await;
    let (token, text) = made.map_err(|error| reconciler.error("making the access token", error))?;
    place.write(&text).await?;
    Ok(reported(&token))
}

async fn revoke(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    token: &FoundToken,
) -> Result<(), GitServerError> {
    let revoked = reconciler
        .provider
        .revoke_access_token(repo, &token.id)
        .await;
    revoked.map_err(|error| reconciler.error("revoking an access token", error))
}

fn reported(token: &FoundToken) -> ReportedAccessToken {
    ReportedAccessToken::Valid {
        id: token.id.clone(),
        expires: token.expires.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;

    #[test]
    fn tokens_are_replaced_with_a_third_of_their_life_left() {
        let wish = AccessTokenSettings {
            role: "maintainer".to_owned(),
            scopes: ["write_repository".to_owned()].into(),
            lifetime_days: 90,
        };
        let token = FoundToken {
            id: "1".to_owned(),
            name: "fairlead c-one".to_owned(),
            role: wish.role.clone(),
            scopes: wish.scopes.clone(),
            expires: date!(2026 - 04 - 01),
            created: datetime!(2026-01-01 0:00 UTC),
        };
        assert!(is_good(&token, &wish, date!(2026 - 03 - 01)));
        assert!(!is_good(&token, &wish, date!(2026 - 03 - 02)));
        let other = AccessTokenSettings {
            scopes: ["api".to_owned()].into(),
            ..wish
        };
        assert!(!is_good(&token, &other, date!(2026 - 01 - 01)));
    }
}
