//! `POST /v1/clusters/{clusterId}/steward-token`: rotation of Steward's token.
//!
//! Lieutenant's API has no answer with a new token, and Steward reads its token from an environment variable at its start.
//! So the hub can only issue a token, and a person or a CI writes it into Steward's Secret and restarts it. Until Steward
//! uses the new token, the earlier ones stay valid.

use std::sync::Arc;

use axum::extract::State;
use fairlead_api::{
    Code, Failure,
    resources::{Role, RotateStewardToken, RotatedStewardToken},
};
use fairlead_registry::{RegistryError, allow, by, new_token, visible};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path, Secret},
};
use fairlead_store::{Draft, model::Token, whole_millis};
use secrecy::ExposeSecret;
use serde_json::json;
use time::Duration;
use tracing::info;

use super::{
    Enroll,
    error::EnrollError,
    install::{CREATED_BY, STEWARD_TOKEN_TTL, is_stewards},
    steward,
};

/// Valid tokens of one Steward. A rotation whose token never reaches Steward leaves one behind.
const MAX_STEWARD_TOKENS: usize = 8;
const MAX_AGE_SECONDS: u64 = 3660 * 24 * 3600;

pub(super) fn routes() -> ApiRoutes<Arc<Enroll>> {
    ApiRoutes::new().route(
        RouteSpec::post(
            Tag::BOOTSTRAPPING,
            "/v1/clusters/{clusterId}/steward-token",
            "rotateStewardToken",
            "Issue a new token for Steward; earlier ones end once it is used",
        )
        .needs(&[Right::INVITE])
        .takes::<RotateStewardToken>()
        .example(json!({ "olderThanSeconds": 7_776_000 }))
        .gives::<RotatedStewardToken>(200),
        rotate,
    )
}

async fn rotate(
    State(enroll): State<Arc<Enroll>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<RotateStewardToken>,
) -> Answer<Secret<RotatedStewardToken>> {
    let id = visible(&enroll.store.view(), &caller, &id)?
        .value
        .id
        .clone();
    allow(&caller, Right::INVITE)?;
    let older_than = asked.older_than_seconds.unwrap_or(0);
    if older_than > MAX_AGE_SECONDS {
        let cause = format_args!("olderThanSeconds: at most {MAX_AGE_SECONDS}");
        return Err(invalid(cause).into());
    }
    let older_than = Duration::seconds(i64::try_from(older_than).unwrap_or(i64::MAX));
    let now = whole_millis(enroll.now());
    let made = new_token(id.as_str(), Role::Cluster, now, STEWARD_TOKEN_TTL);
    let (mut kept, token) = made.map_err(EnrollError::internal)?;
    kept.cluster = Some(id.clone());
    kept.created_by = Some(CREATED_BY.to_owned());
    kept.replaces = true;
    let (who, cluster, new) = (caller.clone(), id.clone(), kept.clone());
    let decide = move |draft: &mut Draft| {
        visible(draft, &who, cluster.as_str())?;
        let tokens = draft.tokens().map(|it| &it.value);
        let tokens = tokens.filter(|it| is_stewards(it, &cluster) && it.expires > now);
        let tokens: Vec<&Token> = tokens.collect();
        let newest = tokens.iter().map(|it| it.created).max();
        let newest = newest.ok_or(RotationError::NotInstalled)?;
        if now - newest < older_than {
            return Ok(None);
        }
        let valid = tokens.len();
        if valid >= MAX_STEWARD_TOKENS {
            return Err(RotationError::TooMany);
        }
        draft.put_token(new.clone())?;
        Ok(Some(valid))
    };
    let done = enroll.store.change(by(&caller), decide).await?.value;
    if done.is_some() {
        info!(cluster = %id, token = kept.id, caller = caller.name, "Steward's token rotated");
    }
    Ok(Secret(RotatedStewardToken {
        cluster: id,
        token_id: done.map(|_| kept.id),
        expires: done.map(|_| kept.expires),
        secret: done.map(|_| steward::secret(token.expose_secret())),
    }))
}

#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error("Steward was never installed in this cluster, or its token has expired")]
    NotInstalled,
    #[error(
        "{MAX_STEWARD_TOKENS} tokens of this Steward are valid already, and it uses none of the new ones"
    )]
    TooMany,
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<fairlead_store::StoreError> for RotationError {
    fn from(error: fairlead_store::StoreError) -> Self {
        RotationError::Registry(error.into())
    }
}

impl fairlead_store::Refusal for RotationError {}

impl From<RotationError> for Failure {
    fn from(error: RotationError) -> Self {
        match error {
            RotationError::NotInstalled => Failure::with_cause(Code::NotFound, error.to_string())
                .next("Apply its manifests from `installURL`; `fairlead cluster token renew` makes a new one."),
            RotationError::TooMany => Failure::with_cause(Code::Conflict, error.to_string())
                .next("Write the last token into Steward's Secret, or delete unused ones with `fairlead token delete`."),
            RotationError::Registry(error) => error.into(),
        }
    }
}
