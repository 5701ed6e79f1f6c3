//! The step from a request to its [`Caller`]: the modules check exactly one bearer token.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{Code, Failure, status::http_status};
use http::{HeaderValue, header};
use secrecy::SecretString;

use crate::{
    front::record::{Inbound, Record},
    hub::Hub,
    seam::{Caller, Identify},
};

/// Maximum length of a token, in bytes; some providers put all groups of a user into it.
const MAX_TOKEN: usize = 16 * 1024;

/// A request with its authenticated caller.
pub(crate) struct Authenticated<T> {
    pub(crate) caller: Caller,
    pub(crate) request: T,
}

/// Authenticates the caller of a request.
///
/// # Errors
/// `FL-1101` to `FL-1104`, `FL-5102`.
pub(crate) async fn authenticate<T>(hub: &Arc<Hub>, request: T) -> Result<Authenticated<T>, Failure>
where
    T: AsRef<Inbound>,
{
    let caller = BearerPrincipal::new(hub, request.as_ref())
        .identify()
        .await?;
    Ok(Authenticated { caller, request })
}

/// The sender of a request, not authenticated yet.
pub(crate) struct BearerPrincipal {
    hub: Arc<Hub>,
    authorization: Vec<HeaderValue>,
    record: Record,
    from: IpAddr,
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
        }
    }

    async fn identify(&self) -> Result<Caller, Failure> {
        let caller = async {
            let token = bearer(&self.authorization)?;
            self.authenticate(&token).await
        };
        let caller = caller.await.map_err(|failure| self.wrong(failure))?;
        self.record.set_caller(&caller);
        Ok(caller)
    }

    /// Calls the modules for every request: a revoked token is rejected from the next request on.
    async fn authenticate(&self, token: &SecretString) -> Result<Caller, Failure> {
        let authenticator = &self.hub.seam.authenticator;
        authenticator.authenticate(token, self.from).await
    }

    fn wrong(&self, failure: Failure) -> Failure {
        let failure = self.hub.wrong_tokens.failure_for(self.from, failure);
        if failure.code == Code::TooManyWrongTokens {
            self.record.omit_from_audit();
        }
        failure
    }
}

#[async_trait]
impl Identify for BearerPrincipal {
    async fn caller(&self) -> Result<Caller, Failure> {
        let caller = self.identify().await?;
        self.record
            .keep(self.hub.caller_limit.acquire(&caller.name)?);
        Ok(caller)
    }

    async fn is_still_valid(&self, caller: &Caller) -> bool {
        let Ok(token) = bearer(&self.authorization) else {
            return false;
        };
        match self.authenticate(&token).await {
            Ok(now) => now == *caller,
            Err(failure) => http_status(failure.code) >= 500,
        }
    }

    fn from(&self) -> IpAddr {
        self.from
    }

    fn wrong(&self, failure: Failure) -> Failure {
        BearerPrincipal::wrong(self, failure)
    }
}

fn bearer(given: &[HeaderValue]) -> Result<SecretString, Failure> {
    let [first, more @ ..] = given else {
        return Err(Code::NoToken.into());
    };
    if !more.is_empty() {
        return Err(Failure::because(
            Code::BadToken,
            "there is more than one token",
        ));
    }
    let (scheme, token) = first
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or(Code::NoToken)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Code::NoToken.into());
    }
    let token = token.trim();
    if token.is_empty() {
        return Err(Code::NoToken.into());
    }
    if token.len() > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Code::BadToken.into());
    }
    Ok(SecretString::from(token))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn read(values: &[&str]) -> Result<String, Code> {
        let given = values
            .iter()
            .map(|value| HeaderValue::from_str(value).unwrap());
        bearer(&given.collect::<Vec<_>>())
            .map(|token| token.expose_secret().to_owned())
            .map_err(|failure| failure.code)
    }

    #[test]
    fn token_comes_from_exactly_one_header() {
        assert_eq!(read(&["Bearer abc"]).as_deref(), Ok("abc"));
        assert_eq!(read(&["bearer abc"]).as_deref(), Ok("abc"));
        for none in [
            &[][..],
            &[""],
            &["abc"],
            &["Bearer"],
            &["Bearer "],
            &["Basic abc"],
        ] {
            assert_eq!(read(none), Err(Code::NoToken), "{none:?}");
        }
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
        for bad in [&["Bearer a", "Bearer a"][..], &["Bearer a b"], &[&long]] {
            assert_eq!(read(bad), Err(Code::BadToken), "{bad:?}");
        }
    }
}
