//! The step from a request to its [`Caller`]: the modules check exactly one bearer token.

use std::{any::Any, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_seam::{
    AuthenticateError, BodyTerms, Caller, Identify, SubjectProof, TooManyWrongTokens,
};
use http::{HeaderValue, header};
use secrecy::SecretString;
use tokio::sync::OnceCell;

use crate::{
    front::record::{Inbound, RequestRecord},
    hub::Hub,
};

/// Maximum length of a token, in bytes; some providers put all groups of a user into it.
const MAX_TOKEN: usize = 16 * 1024;

/// A request with its authenticated caller.
pub(crate) struct AuthenticatedRequest<T> {
    pub(crate) caller: Caller,
    pub(crate) request: T,
}

/// Authenticates the caller of a request.
///
/// # Errors
/// [`AuthenticateError`]
pub(crate) async fn authenticate<T>(
    hub: &Arc<Hub>,
    request: T,
) -> Result<AuthenticatedRequest<T>, AuthenticateError>
where
    T: AsRef<Inbound>,
{
    let caller = BearerPrincipal::new(hub, request.as_ref())
        .identify()
        .await?;
    Ok(AuthenticatedRequest { caller, request })
}

/// The sender of a request, not authenticated yet.
pub(crate) struct BearerPrincipal {
    hub: Arc<Hub>,
    authorization: Vec<HeaderValue>,
    record: RequestRecord,
    from: IpAddr,
    /// The caller with a slot, once a module has requested it.
    caller: OnceCell<Result<Caller, AuthenticateError>>,
}

impl BearerPrincipal {
    pub(crate) fn new(hub: &Arc<Hub>, inbound: &Inbound) -> Self {
        let given = inbound.request.headers().get_all(header::AUTHORIZATION);
        BearerPrincipal {
            hub: Arc::clone(hub),
            // Two are enough to see that there is more than one token.
            authorization: given.iter().take(2).cloned().collect(),
            record: inbound.record.clone(),
            from: inbound.connection.peer.ip(),
            caller: OnceCell::new(),
        }
    }

    async fn identify(&self) -> Result<Caller, AuthenticateError> {
        let token = bearer(&self.authorization);
        let caller = async {
            let token = token.as_ref().map_err(Clone::clone)?;
            self.authenticate(token).await
        };
        let caller = match caller.await {
            Err(error) if error.may_be_guess() => {
                self.count_wrong_secret()?;
                return Err(error);
            }
            other => other?,
        };
        self.record.set_caller(&caller);
        let proof = caller.subject.as_ref().map(|it| it.proof);
        if proof == Some(SubjectProof::Reviewed)
            && let Ok(token) = token
        {
            self.record.set_reviewed_token(token);
        }
        Ok(caller)
    }

    /// Calls the modules for every request: a revoked token is rejected from the next request on.
    async fn authenticate(&self, token: &SecretString) -> Result<Caller, AuthenticateError> {
        let authenticator = &self.hub.seam.authenticator;
        authenticator.authenticate(token, self.from).await
    }
}

#[async_trait]
impl Identify for BearerPrincipal {
    async fn caller(&self) -> Result<Caller, AuthenticateError> {
        let authenticated = self.caller.get_or_init(async || {
            let caller = self.identify().await?;
            self.record.keep(self.hub.caller_limit.acquire(&caller)?);
            self.record.report_start();
            Ok(caller)
        });
        authenticated.await.clone()
    }

    async fn body_terms(&self) -> BodyTerms {
        let bodies = &self.hub.bodies;
        match self.caller().await {
            Ok(caller) => bodies.for_caller(&caller),
            Err(refusal) => bodies.for_stranger(&self.hub.strangers, self.from, refusal),
        }
    }

    fn keep(&self, guard: Box<dyn Any + Send>) {
        self.record.keep(guard);
    }

    async fn is_still_valid(&self, caller: &Caller) -> bool {
        let Ok(token) = bearer(&self.authorization) else {
            return false;
        };
        match self.authenticate(&token).await {
            Ok(now) => now.is_same_as(caller),
            Err(error) => error.is_temporary(),
        }
    }

    fn from(&self) -> IpAddr {
        self.from
    }

    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        let counted = self.hub.wrong_tokens.count(self.from);
        if counted.is_err() {
            self.record.omit_from_audit();
        }
        counted
    }
}

fn bearer(given: &[HeaderValue]) -> Result<SecretString, AuthenticateError> {
    let [first, more @ ..] = given else {
        return Err(AuthenticateError::NoToken);
    };
    if !more.is_empty() {
        let detail = "there is more than one token".to_owned();
        return Err(AuthenticateError::BadToken(Some(detail)));
    }
    let (scheme, token) = first
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or(AuthenticateError::NoToken)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthenticateError::NoToken);
    }
    let token = token.trim();
    if token.is_empty() {
        return Err(AuthenticateError::NoToken);
    }
    if token.len() > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(AuthenticateError::BadToken(None));
    }
    Ok(SecretString::from(token))
}

#[cfg(test)]
mod tests;
