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
    http::lookup::all,
    hub::Hub,
};

/// Maximum length of a token. Some issuers put all groups of a person into it.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// A request with its authenticated caller.
pub(crate) struct AuthenticatedRequest<T> {
    pub(crate) caller: Arc<Caller>,
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
    let caller = identify(hub, request.as_ref()).await?;
    Ok(AuthenticatedRequest { caller, request })
}

fn identify<'a>(
    hub: &'a Hub,
    inbound: &'a Inbound,
) -> impl Future<Output = Result<Arc<Caller>, AuthenticateError>> + 'a {
    let given = all(inbound.request.headers(), &header::AUTHORIZATION);
    let unidentified = UnidentifiedRequest {
        hub,
        record: &inbound.record,
        from: inbound.connection.peer.ip(),
    };
    unidentified.identify(bearer(given))
}

/// A request whose caller is not known yet.
struct UnidentifiedRequest<'a> {
    hub: &'a Hub,
    record: &'a RequestRecord,
    from: IpAddr,
}

impl UnidentifiedRequest<'_> {
    async fn identify(
        self,
        token: Result<&str, AuthenticateError>,
    ) -> Result<Arc<Caller>, AuthenticateError> {
        // Calls the modules for every request: a revoked token is rejected from the next request on.
        let authenticator = &self.hub.seam.authenticator;
        let known = token
            .as_ref()
            .ok()
            .and_then(|it| authenticator.known_caller(it));
        let caller = match known {
            Some(caller) => caller,
            // Boxed, because it is many times as large as the rest of the future.
            None => Box::pin(self.check(token.clone())).await?,
        };
        self.record.set_caller(&caller);
        let proof = caller.subject.as_ref().map(|it| it.proof);
        if proof == Some(SubjectProof::Reviewed)
            && let Ok(token) = token
        {
            self.record.set_reviewed_token(SecretString::from(token));
        }
        Ok(caller)
    }

    async fn check(
        &self,
        token: Result<&str, AuthenticateError>,
    ) -> Result<Arc<Caller>, AuthenticateError> {
        let authenticator = &self.hub.seam.authenticator;
        let authenticated = match token.map(SecretString::from) {
            Ok(token) => authenticator.authenticate(&token, self.from).await,
            Err(error) => Err(error),
        };
        match authenticated {
            Err(error) if error.may_be_guess() => {
                count_wrong_secret(self.hub, self.record, self.from)?;
                Err(error)
            }
            other => other.map(Arc::new),
        }
    }
}

fn count_wrong_secret(
    hub: &Hub,
    record: &RequestRecord,
    from: IpAddr,
) -> Result<(), TooManyWrongTokens> {
    hub.metrics.wrong_tokens.inc();
    let counted = hub.wrong_tokens.count(from);
    if counted.is_err() {
        record.omit_from_audit();
    }
    counted
}

/// The sender of a request to a module, not authenticated yet.
pub(crate) struct BearerPrincipal {
    hub: Arc<Hub>,
    authorization: Vec<HeaderValue>,
    record: RequestRecord,
    from: IpAddr,
    /// The caller with a slot, once a module has requested it.
    caller: OnceCell<Result<Arc<Caller>, AuthenticateError>>,
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

    async fn identify(&self) -> Result<Arc<Caller>, AuthenticateError> {
        let unidentified = UnidentifiedRequest {
            hub: &self.hub,
            record: &self.record,
            from: self.from,
        };
        unidentified.identify(bearer(&self.authorization)).await
    }
}

#[async_trait]
impl Identify for BearerPrincipal {
    async fn caller(&self) -> Result<Caller, AuthenticateError> {
        let authenticated = self.caller.get_or_init(async || {
            let caller = self.identify().await?;
            self.record
                .keep_slot(self.hub.caller_limit.acquire(&caller)?);
            self.record.report_start();
            Ok(caller)
        });
        let caller = authenticated.await.as_ref().map_err(Clone::clone)?;
        Ok(Caller::clone(caller))
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

    fn request_id(&self) -> &str {
        self.record.id()
    }

    fn from(&self) -> IpAddr {
        self.from
    }

    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        count_wrong_secret(&self.hub, &self.record, self.from)
    }
}

fn bearer<'a>(
    given: impl IntoIterator<Item = &'a HeaderValue>,
) -> Result<&'a str, AuthenticateError> {
    let mut given = given.into_iter();
    let first = given.next().ok_or(AuthenticateError::NoToken)?;
    if given.next().is_some() {
        let detail = "there is more than one token".to_owned();
        return Err(AuthenticateError::BadToken(Some(detail)));
    }
    if let Some(token) = usual_bearer(first) {
        return Ok(token);
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
    if token.len() > MAX_TOKEN_BYTES {
        return Err(AuthenticateError::TooLong);
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(AuthenticateError::BadToken(None));
    }
    Ok(token)
}

/// The token of a header in its usual form: one space, and printable characters only.
fn usual_bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer ".len())?;
    let is_usual = scheme.eq_ignore_ascii_case(b"bearer ")
        && (1..=MAX_TOKEN_BYTES).contains(&token.len())
        // No early end: so the compiler compares many bytes at once.
        && token.iter().fold(true, |fits, it| fits & it.is_ascii_graphic());
    is_usual.then(|| std::str::from_utf8(token).ok()).flatten()
}

#[cfg(test)]
mod tests;
