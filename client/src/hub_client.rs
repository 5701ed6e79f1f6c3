//! Client of a hub's API. Each request has one deadline; consecutive requests share a connection.

pub(crate) mod calls;
mod error;
pub(crate) mod events;
mod failed;
pub(crate) mod http2;
mod place;
pub(crate) mod streams;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_dialer::ProxyRules;
use http::HeaderValue;
use reqwest::{Client, redirect};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    environment::Environment, exchanged::ExchangeStore, files, http_client::client_builder, logins,
    proxy_tunnel::ProxyTunnel, sign_in::SignInStore,
};
use place::Place;

pub use error::HubError;

/// Origin of the token that a client sends.
#[derive(Clone)]
pub enum Credential {
    /// A token of the hub, or none for open routes.
    Token(Option<SecretString>),
    /// A stored sign-in, refreshed ahead of its end.
    SignIn(SignInStore),
    /// A token of a CI's issuer, exchanged at the hub.
    Exchange(ExchangeStore),
}

/// Client of one hub with the caller's token.
#[derive(Clone)]
pub struct HubClient {
    url: HubUrl,
    credential: Credential,
    ca: Option<String>,
    http: Client,
    /// TLS configuration that ignores validity periods, only for reading the hub's time.
    tls_at_any_time: Arc<rustls::ClientConfig>,
    proxy: ProxyRules,
    _tunnel: Option<Arc<ProxyTunnel>>,
    /// Next step for a rejected token, which depends on the token's origin.
    new_token_step: Option<Arc<str>>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HubClient {
    /// Client for the hub of `FAIRLEAD_URL`, `FAIRLEAD_TOKEN` (or `FAIRLEAD_TOKEN_FILE`) and `FAIRLEAD_CA_FILE`. Each variable
    /// takes precedence over the stored login. A token of an issuer (`FAIRLEAD_ISSUER_TOKEN_FILE`, `FAIRLEAD_ISSUER_TOKEN`)
    /// is exchanged, if there is no other one.
    ///
    /// # Errors
    /// `FL-4106` without hub or token, `FL-4101` for an invalid variable; unreadable files.
    pub fn from_environment(environment: &Environment) -> Result<Self, Failure> {
        let place = Place::of(environment, None)?;
        let token = match (
            environment.get("FAIRLEAD_TOKEN"),
            environment.get("FAIRLEAD_TOKEN_FILE"),
        ) {
            (Some(token), _) => Some(SecretString::from(token)),
            (None, Some(file)) => Some(files::token(file.as_ref())?),
            (None, None) => None,
        };
        let exchange = ExchangeStore::of(environment, None).filter(|_| token.is_none());
        let known = place.known.as_ref();
        let token = token.or_else(|| known.and_then(|hub| hub.token.clone()));
        let is_signed_in = known.is_some_and(|hub| hub.issuer.is_some());
        let credential = match (exchange, token) {
            (Some(exchange), _) => Credential::Exchange(exchange),
            (None, Some(token)) => Credential::Token(Some(token)),
            (None, None) if is_signed_in => Credential::SignIn(SignInStore::of(environment)?),
            (None, None) => {
                let cause = format!("no token for {} is known", place.url);
                return Err(Failure::with_cause(Code::NotLoggedIn, cause));
            }
        };
        let step = match &credential {
            Credential::Exchange(_) => {
                "Give the job a new token of its issuer; `fairlead token exchange` shows whether the hub accepts it.".to_owned()
            }
            _ => logins::new_token_step(environment, &place.url, known),
        };
        let hub =
            HubClient::with_credential(place.url, credential, place.ca, environment.proxy()?)?;
        Ok(HubClient {
            new_token_step: Some(step.into()),
            ..hub
        })
    }

    /// Client that exchanges tokens of this store, for `hub` or else the hub of `FAIRLEAD_URL` or the current login.
    ///
    /// # Errors
    /// `FL-4106` without hub, `FL-4101` for an invalid variable; unreadable files.
    pub fn exchanging(
        environment: &Environment,
        hub: Option<&HubUrl>,
        store: ExchangeStore,
    ) -> Result<Self, Failure> {
        let place = Place::of(environment, hub)?;
        let credential = Credential::Exchange(store);
        HubClient::with_credential(place.url, credential, place.ca, environment.proxy()?)
    }

    /// Client for a hub with a certificate of the system's CAs or of `ca` (PEM).
    ///
    /// # Errors
    /// `FL-4101` for an invalid token or CA.
    pub fn new(
        url: HubUrl,
        token: SecretString,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        HubClient::with_credential(url, Credential::Token(Some(token)), ca, proxy)
    }

    /// Client with any credential, as [`HubClient::new`].
    ///
    /// # Errors
    /// `FL-4101` for an invalid token or CA.
    pub fn with_credential(
        url: HubUrl,
        credential: Credential,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        if let Credential::Token(Some(token)) = &credential
            && HeaderValue::from_str(token.expose_secret()).is_err()
        {
            let detail = "the token has characters that no token has";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let (http, tunnel) = http_client(&url, ca.as_deref(), &proxy)?;
        let tls_at_any_time = fairlead_certs::outer_client_at_any_time(ca.as_deref(), None)?;
        Ok(HubClient {
            url,
            credential,
            ca,
            http,
            tls_at_any_time,
            proxy,
            _tunnel: tunnel.map(Arc::new),
            new_token_step: None,
        })
    }

    /// URL of the hub.
    #[must_use]
    pub const fn url(&self) -> &HubUrl {
        &self.url
    }

    /// Credential of the caller.
    #[must_use]
    pub const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// CA of the hub's certificate, if it is not one of the system's.
    #[must_use]
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    fn unreachable(&self, cause: &str) -> Failure {
        Failure::because(Code::HubUnreachable, format_args!("{}: {cause}", self.url))
    }
}

/// HTTP client for one hub. The rules decide about the proxy: reqwest's own reading of NO_PROXY differs from that of agents.
fn http_client(
    url: &HubUrl,
    ca: Option<&str>,
    rules: &ProxyRules,
) -> Result<(Client, Option<ProxyTunnel>), Failure> {
    let (client, tunnel) = client_builder(url, ca, rules)?;
    let client = client.redirect(redirect::Policy::none()).build();
    let client = client.map_err(|error| Failure::because(Code::Internal, error))?;
    Ok((client, tunnel))
}
