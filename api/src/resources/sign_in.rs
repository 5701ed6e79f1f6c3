//! Sign-in of people through OpenID Connect issuers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Response to `GET /v1/sign-in`: the issuers through which people sign in. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInOptions {
    /// Issuers, ordered by name; empty if this hub knows its own tokens only.
    pub issuers: Vec<SignInIssuer>,
    /// Issuers whose tokens `POST /v1/token` exchanges, ordered by name.
    #[serde(
        default,
        rename = "tokenExchange",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub token_exchange: Vec<ExchangeIssuer>,
}

/// An issuer, such as a CI, whose tokens are exchanged (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExchangeIssuer {
    /// Name of the issuer on this hub.
    pub name: String,
    /// The `iss` of its tokens.
    pub url: String,
    /// Audiences of the tokens that the hub accepts.
    pub audience: Vec<String>,
    /// Lifetime of an exchanged token.
    pub ttl_seconds: u64,
}

/// An OpenID Connect issuer with a public client for the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInIssuer {
    /// Name of the issuer on this hub.
    pub name: String,
    /// Issuer identifier: the `iss` of its tokens, and the base of its discovery document.
    pub url: String,
    /// Id of the public client (RFC 6749, section 2.1).
    pub client_id: String,
    /// Scopes to request.
    pub scopes: Vec<String>,
    /// Audiences of the tokens that the hub accepts.
    pub audience: Vec<String>,
    /// Flows that the issuer permits for this client.
    pub flows: Vec<SignInFlow>,
    /// Host of the loopback redirect (RFC 8252, section 7.3): `127.0.0.1` or `localhost`.
    pub redirect_host: String,
    /// CA of the issuer's certificate, in PEM; `None` for a public CA.
    #[schema(required = true)]
    pub ca: Option<String>,
}

/// Way to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SignInFlow {
    /// Authorization code with PKCE on a loopback redirect (RFC 7636, RFC 8252).
    Browser,
    /// Device authorization (RFC 8628).
    Device,
}
