//! `POST /v1/token`: exchanges a token of a CI's own issuer for a short-lived token of the hub (RFC 8693).
//!
//! Requests and answers follow RFC 6749: a form in, JSON out, errors with `error` and `error_description` beside the hub's
//! own fields.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    Code, Failure,
    resources::{ExchangeToken, ExchangedToken},
};
use fairlead_issuers::{ExchangeTerms, Issuers, Vouched};
use fairlead_registry::{RegistryError, new_token, roles_of};
use fairlead_routes::{
    ApiModule, ApiRoutes, RouteSpec, Tag,
    reply::{FormBody, Rejected, Requester, Secret},
};
use fairlead_seam::{AuthenticateError, Caller, Module};
use fairlead_store::{
    Actor, Clock, Draft, Refusal, Store, StoreError,
    model::{PersonOwner, PersonRole, Token, TokenOwner},
    whole_millis,
};
use http::{StatusCode, header};
use serde_json::json;
use time::OffsetDateTime;
use tracing::info;

/// Valid exchanged tokens of one subject.
const MAX_TOKENS_PER_SUBJECT: usize = 64;

/// Module with the route of token exchange.
pub(crate) struct ExchangeModule(Arc<Exchange>);

struct Exchange {
    issuers: Arc<Issuers>,
    store: Store,
    clock: Clock,
}

impl ExchangeModule {
    /// Module that stores tokens for subjects of these issuers.
    pub(crate) fn new(issuers: &Arc<Issuers>, store: &Store, clock: &Clock) -> Self {
        ExchangeModule(Arc::new(Exchange {
            issuers: Arc::clone(issuers),
            store: store.clone(),
            clock: clock.clone(),
        }))
    }
}

impl Module for ExchangeModule {
    fn name(&self) -> &'static str {
        "token-exchange"
    }
}

impl ApiModule for ExchangeModule {
    fn api_routes(&self) -> ApiRoutes {
        let exchange = RouteSpec::post(
            Tag::TOKEN,
            "/v1/token",
            "exchangeToken",
            "Exchange a token of an issuer for a short-lived token of the hub (RFC 8693)",
        );
        let example = json!({
            "grant_type": ExchangeToken::GRANT_TYPE,
            "subject_token": "eyJhbGciOi...",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        });
        let exchange = exchange.open().takes_form::<ExchangeToken>();
        ApiRoutes::new()
            .route(
                exchange.example(example).gives::<ExchangedToken>(200),
                answer,
            )
            .with_state(Arc::clone(&self.0))
    }
}

async fn answer(
    State(exchange): State<Arc<Exchange>>,
    requester: Requester,
    form: Result<FormBody<ExchangeToken>, Rejected>,
) -> Response {
    let asked = match form {
        Ok(FormBody(asked)) => asked,
        Err(rejected) => {
            let refused = Refused {
                error: "invalid_request",
                status: None,
                failure: rejected.into_failure(),
            };
            return refused.into_response();
        }
    };
    match exchange.run(&requester, &asked).await {
        Ok(token) => Secret(token).into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// A refusal with the error of RFC 6749, section 5.2, beside the hub's own failure.
struct Refused {
    error: &'static str,
    status: Option<StatusCode>,
    failure: Failure,
}

impl Refused {
    /// A request that no repetition makes valid.
    fn bad(error: &'static str, failure: Failure) -> Self {
        Refused {
            error,
            status: Some(StatusCode::BAD_REQUEST),
            failure,
        }
    }

    fn invalid(cause: &str) -> Self {
        Refused::bad("invalid_request", Failure::because(Code::BadRequest, cause))
    }
}

/// RFC 8693, section 2.2.2: a subject token that is invalid for any reason is `invalid_request`.
impl From<AuthenticateError> for Refused {
    fn from(error: AuthenticateError) -> Self {
        let later = error.is_temporary() || error.code() == Code::TooManyWrongTokens;
        let kind = match &error {
            _ if later => "temporarily_unavailable",
            AuthenticateError::NoRole(_) | AuthenticateError::Locked(_) => "unauthorized_client",
            _ => "invalid_request",
        };
        let refused = Refused::bad(kind, error.into());
        match later {
            true => Refused {
                status: None,
                ..refused
            },
            false => refused,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused {
            error,
            status,
            failure,
        } = self;
        let body = json!({
            "error": error,
            "error_description": failure.cause,
            "reason": failure.cause,
            "code": failure.code.to_string(),
            "next": failure.next_step(),
        });
        let (mut head, _) = Rejected::from(failure).into_response().into_parts();
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::WWW_AUTHENTICATE);
        if let Some(status) = status {
            head.status = status;
        }
        let (_, body) = Json(body).into_response().into_parts();
        Response::from_parts(head, body)
    }
}

impl Exchange {
    async fn run(
        &self,
        requester: &Requester,
        asked: &ExchangeToken,
    ) -> Result<ExchangedToken, Refused> {
        check(asked)?;
        let now = self.clock.now();
        let vouched = self
            .issuers
            .vouch_for_exchange(&asked.subject_token, now)
            .await;
        let (vouched, terms) = match vouched {
            Ok(vouched) => vouched,
            Err(error) => {
                if matches!(error, AuthenticateError::BadToken(_))
                    && let Some(principal) = requester.principal()
                {
                    let counted = principal.count_wrong_secret();
                    counted.map_err(|many| Refused::from(AuthenticateError::from(many)))?;
                }
                return Err(error.into());
            }
        };
        self.issue(vouched, terms, now).await
    }

    async fn issue(
        &self,
        vouched: Vouched,
        terms: ExchangeTerms,
        now: OffsetDateTime,
    ) -> Result<ExchangedToken, Refused> {
        let internal = |failure| Refused {
            error: "server_error",
            status: None,
            failure,
        };
        let caller = Caller::from(vouched.clone());
        // A job raises no emergency.
        let lasting = roles_of(&caller).into_iter().filter(|it| !it.break_glass);
        let mut roles: Vec<PersonRole> = lasting.collect();
        if let [own] = roles.as_slice()
            && own.namespaces.is_empty()
            && own.selector.is_none()
        {
            // Role, tenant and cluster tell all.
            roles.clear();
        }
        let made = new_token(
            &vouched.name,
            vouched.role,
            whole_millis(now),
            terms.lifetime,
        );
        let (mut kept, token) =
            made.map_err(|error| internal(Failure::because(Code::Internal, error)))?;
        let owner = PersonOwner {
            issuer: vouched.subject.issuer.to_string(),
            sub: vouched.subject.sub,
            name: vouched.name.clone(),
            role: Some(vouched.role),
            tenant: vouched.tenant.clone(),
            cluster: vouched.clusters.id().cloned(),
            credential_ends: vouched.expires,
        };
        kept.tenant = vouched.tenant;
        kept.cluster = owner.cluster.clone();
        kept.created_by = Some(vouched.name.clone());
        kept.exchanged = true;
        kept.exchange_rules = Some(terms.rules);
        kept.roles = roles;
        kept.owner = Some(TokenOwner::Person(owner.clone()));
        let id = kept.id.clone();
        let actor = Actor::Caller {
            name: vouched.name.clone(),
            token: None,
        };
        let decide = move |draft: &mut Draft| -> Result<(), ExchangeError> {
            let tokens = draft.tokens_of_person(&owner.issuer, &owner.sub);
            let is_live = |it: &Token| it.exchanged && it.expires > now;
            if tokens.filter(|it| is_live(&it.value)).count() >= MAX_TOKENS_PER_SUBJECT {
                return Err(ExchangeError::TooMany);
            }
            Ok(draft.put_token(kept.clone())?)
        };
        let stored = self.store.change(actor, decide).await;
        stored.map_err(|error| internal(error.into()))?;
        info!(token = id, name = vouched.name, role = %vouched.role, "token exchanged");
        Ok(ExchangedToken {
            access_token: token,
            issued_token_type: ExchangeToken::ACCESS_TOKEN.to_owned(),
            token_type: "Bearer".to_owned(),
            expires_in: terms.lifetime.whole_seconds().unsigned_abs(),
        })
    }
}

/// Checks the parameters of RFC 8693, section 2.1. The hub cannot narrow a token, so requests for that fail.
fn check(asked: &ExchangeToken) -> Result<(), Refused> {
    if asked.grant_type != ExchangeToken::GRANT_TYPE {
        let cause = format!("grant_type: expected {}", ExchangeToken::GRANT_TYPE);
        let failure = Failure::because(Code::BadRequest, cause);
        return Err(Refused::bad("unsupported_grant_type", failure));
    }
    let is_jwt = ExchangeToken::SUBJECT_TOKEN_TYPES.contains(&asked.subject_token_type.as_str());
    if !is_jwt {
        return Err(Refused::invalid(
            "subject_token_type: expected a type of JSON Web Tokens",
        ));
    }
    let requested = asked.requested_token_type.as_deref();
    if requested.is_some_and(|it| it != ExchangeToken::ACCESS_TOKEN) {
        return Err(Refused::invalid(
            "requested_token_type: only access tokens are issued",
        ));
    }
    if asked.actor_token.is_some() || asked.actor_token_type.is_some() {
        return Err(Refused::invalid("actor_token: delegation is not supported"));
    }
    if asked.audience.is_some() || asked.resource.is_some() {
        let cause = "audience, resource: tokens are valid for this hub only";
        let failure = Failure::because(Code::BadRequest, cause);
        return Err(Refused::bad("invalid_target", failure));
    }
    if asked
        .scope
        .as_deref()
        .is_some_and(|it| !it.trim().is_empty())
    {
        let cause = "scope: the rules of the issuer alone give the role";
        let failure = Failure::because(Code::BadRequest, cause);
        return Err(Refused::bad("invalid_scope", failure));
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error("the subject has {MAX_TOKENS_PER_SUBJECT} valid tokens already")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal for ExchangeError {}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::TooMany => Failure::because(Code::TooManyRequests, error),
            // The tenant or cluster of a rule was deleted.
            ExchangeError::Store(StoreError::Missing) => RegistryError::UnknownScope.into(),
            ExchangeError::Store(error) => error.into(),
        }
    }
}
