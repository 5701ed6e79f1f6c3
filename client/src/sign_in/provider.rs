//! An issuer's endpoints: discovery (OpenID Connect Discovery 1.0), token, device authorization and revocation.

use std::{error::Error, time::Duration};

use fairlead_api::{Failure, HubUrl, error_chain, resources::SignInIssuer};
use fairlead_dialer::ProxyRules;
use http::StatusCode;
use reqwest::{Client, RequestBuilder, Url, redirect};
use serde::{Deserialize, de::DeserializeOwned};

use super::{error::SignInError, token::IssuedTokens};
use crate::proxy_tunnel::ProxyTunnel;

const REQUEST_DEADLINE: Duration = Duration::from_secs(15);
const MAX_RESPONSE_BYTES: usize = 512 * 1024;
/// Limit for texts of the issuer in error messages, in characters.
const MAX_QUOTE_CHARS: usize = 200;

/// An issuer after discovery.
#[derive(Debug)]
pub struct Provider {
    pub(super) issuer: SignInIssuer,
    pub(super) endpoints: Endpoints,
    http: Client,
    _tunnel: Option<ProxyTunnel>,
}

/// Discovery document; RFC 8414, RFC 8628 and RFC 9207 define the optional fields.
#[derive(Debug, Deserialize)]
pub(super) struct Endpoints {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    pub(super) device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Error response of an endpoint (RFC 6749, section 5.2).
#[derive(Debug, Deserialize)]
pub(super) struct ErrorResponse {
    pub(super) error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl ErrorResponse {
    /// The error for a person: printable characters of bounded length.
    pub(super) fn shown(&self) -> String {
        match &self.error_description {
            Some(description) => format!("{}: {}", quoted(&self.error), quoted(description)),
            None => quoted(&self.error),
        }
    }
}

/// Text of the issuer without control characters, so that it cannot steer a terminal.
pub(super) fn quoted(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(MAX_QUOTE_CHARS).collect()
}

/// Answer of an endpoint.
pub(super) enum Answered<T> {
    Ok(T),
    Error(ErrorResponse),
}

impl Provider {
    /// Fetches the discovery document of an issuer.
    ///
    /// # Errors
    /// [`SignInError::IssuerAway`], [`SignInError::BadIssuer`]
    pub async fn discover(issuer: SignInIssuer, proxy: &ProxyRules) -> Result<Self, SignInError> {
        let (http, tunnel) = http_client(&issuer, proxy).map_err(SignInError::Client)?;
        let base = issuer.url.trim_end_matches('/');
        let at = format!("{base}/.well-known/openid-configuration");
        let (status, body) = send(&at, http.get(&at)).await?;
        if !status.is_success() {
            return Err(away(
                &at,
                &format_args!("the server responded with {status}"),
            ));
        }
        let endpoints: Endpoints = from_json(&at, &body)?;
        if endpoints.issuer != issuer.url {
            let other = quoted(&endpoints.issuer);
            let cause = format!("the discovery document of {} names {other}", issuer.url);
            return Err(SignInError::BadIssuer(cause));
        }
        Ok(Provider {
            issuer,
            endpoints,
            http,
            _tunnel: tunnel,
        })
    }

    /// The issuer as the hub describes it.
    #[must_use]
    pub const fn issuer(&self) -> &SignInIssuer {
        &self.issuer
    }

    /// True if the issuer has a device authorization endpoint.
    #[must_use]
    pub const fn has_device_flow(&self) -> bool {
        self.endpoints.device_authorization_endpoint.is_some()
    }

    /// Requests tokens with the fields of a grant.
    pub(super) async fn tokens(
        &self,
        fields: &[(&str, &str)],
    ) -> Result<Answered<IssuedTokens>, SignInError> {
        self.post(&self.endpoints.token_endpoint, fields).await
    }

    /// Posts a form with the client id.
    ///
    /// # Errors
    /// [`SignInError::IssuerAway`], [`SignInError::BadIssuer`]
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        at: &str,
        fields: &[(&str, &str)],
    ) -> Result<Answered<T>, SignInError> {
        let (status, body) = self.post_form(at, fields).await?;
        if status.is_success() {
            return from_json(at, &body).map(Answered::Ok);
        }
        match serde_json::from_slice(&body) {
            // A gateway before the issuer answers 5xx without such a body.
            Ok(error) => Ok(Answered::Error(error)),
            Err(_) => Err(away(
                at,
                &format_args!("the server responded with {status}"),
            )),
        }
    }

    async fn post_form(
        &self,
        at: &str,
        fields: &[(&str, &str)],
    ) -> Result<(StatusCode, Vec<u8>), SignInError> {
        let client = [("client_id", self.issuer.client_id.as_str())];
        let body = form(client.iter().chain(fields));
        let request = self.http.post(at);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        send(at, request.header("accept", "application/json").body(body)).await
    }

    /// Revokes a refresh token (RFC 7009); false if the issuer has no endpoint for it.
    ///
    /// # Errors
    /// [`SignInError::IssuerAway`], [`SignInError::BadIssuer`]
    pub async fn revoke(&self, refresh_token: &str) -> Result<bool, SignInError> {
        let Some(at) = &self.endpoints.revocation_endpoint else {
            return Ok(false);
        };
        let fields = [
            ("token", refresh_token),
            ("token_type_hint", "refresh_token"),
        ];
        let (status, _) = self.post_form(at, &fields).await?;
        match status.is_success() {
            true => Ok(true),
            false => Err(away(
                at,
                &format_args!("the server responded with {status}"),
            )),
        }
    }
}

/// Fields as `application/x-www-form-urlencoded`.
pub(super) fn form<'a>(fields: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut url = Url::parse("https://form").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut()
            .extend_pairs(fields.into_iter().copied());
    }
    let query = url.as_ref().and_then(Url::query);
    query.unwrap_or_default().to_owned()
}

fn http_client(
    issuer: &SignInIssuer,
    proxy: &ProxyRules,
) -> Result<(Client, Option<ProxyTunnel>), Failure> {
    let bad =
        |cause: &dyn std::fmt::Display| Failure::from(SignInError::BadIssuer(cause.to_string()));
    let url = Url::parse(&issuer.url).map_err(|error| bad(&error))?;
    let authority = url.host_str().map(|host| match url.port() {
        Some(port) => format!("https://{host}:{port}"),
        None => format!("https://{host}"),
    });
    let host: HubUrl = authority
        .unwrap_or_default()
        .parse()
        .map_err(|error| bad(&error))?;
    let (client, tunnel) = crate::http_client::client_builder(&host, issuer.ca.as_deref(), proxy)?;
    let client = client
        .https_only(true)
        .redirect(redirect::Policy::none())
        .timeout(REQUEST_DEADLINE)
        .build();
    Ok((client.map_err(|error| bad(&error))?, tunnel))
}

async fn send(at: &str, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), SignInError> {
    let failed = |error: reqwest::Error| away(at, &error_chain(&error.without_url() as &dyn Error));
    let mut response = request.send().await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            let cause = format!("{at}: the response exceeds {MAX_RESPONSE_BYTES} bytes");
            return Err(SignInError::BadIssuer(cause));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

pub(super) fn away(url: &str, cause: &dyn std::fmt::Display) -> SignInError {
    SignInError::IssuerAway {
        url: url.to_owned(),
        cause: cause.to_string(),
    }
}

fn from_json<T: DeserializeOwned>(at: &str, body: &[u8]) -> Result<T, SignInError> {
    // The body may contain tokens, so the error does not quote it.
    serde_json::from_slice(body).map_err(|error| {
        SignInError::BadIssuer(format!("{at}: invalid answer ({:?})", error.classify()))
    })
}
