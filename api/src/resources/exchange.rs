//! Exchange of tokens (RFC 8693).

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::secret::exposed;

/// Form of `POST /v1/token`, as in RFC 8693, section 2.1.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub struct ExchangeToken {
    /// `urn:ietf:params:oauth:grant-type:token-exchange`.
    pub grant_type: String,
    /// JSON Web Token of a configured issuer.
    #[schema(value_type = String)]
    pub subject_token: SecretString,
    /// Type of that token: `urn:ietf:params:oauth:token-type:jwt`, `...:id_token` or `...:access_token`.
    pub subject_token_type: String,
    /// Type of the answer; only `urn:ietf:params:oauth:token-type:access_token`.
    #[serde(default)]
    pub requested_token_type: Option<String>,
    /// Refused: tokens are valid for this hub only.
    #[serde(default)]
    pub audience: Option<String>,
    /// Refused, as `audience`.
    #[serde(default)]
    pub resource: Option<String>,
    /// Refused unless empty: the rules of the issuer give the role.
    #[serde(default)]
    pub scope: Option<String>,
    /// Refused: no delegation.
    #[serde(default)]
    pub actor_token: Option<String>,
    /// Refused: no delegation.
    #[serde(default)]
    pub actor_token_type: Option<String>,
}

impl ExchangeToken {
    /// Path of the route.
    pub const PATH: &'static str = "/v1/token";
    /// Grant type of RFC 8693.
    pub const GRANT_TYPE: &'static str = "urn:ietf:params:oauth:grant-type:token-exchange";
    /// Type of an issued token.
    pub const ACCESS_TOKEN: &'static str = "urn:ietf:params:oauth:token-type:access_token";
    /// Type of a JSON Web Token.
    pub const JWT: &'static str = "urn:ietf:params:oauth:token-type:jwt";
    /// Types of subject tokens; each one is a JSON Web Token here.
    pub const SUBJECT_TOKEN_TYPES: [&'static str; 3] = [
        ExchangeToken::JWT,
        "urn:ietf:params:oauth:token-type:id_token",
        ExchangeToken::ACCESS_TOKEN,
    ];
}

/// Response to `POST /v1/token`, as in RFC 8693, section 2.2.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExchangedToken {
    /// Token of the hub.
    #[serde(serialize_with = "exposed")]
    #[schema(value_type = String)]
    pub access_token: SecretString,
    /// Type of the token.
    pub issued_token_type: String,
    /// `Bearer`.
    pub token_type: String,
    /// Lifetime in seconds.
    pub expires_in: u64,
}

impl ExchangedToken {
    /// End of a token that was issued at this time.
    #[must_use]
    pub fn expires(&self, issued: OffsetDateTime) -> OffsetDateTime {
        let seconds = i64::try_from(self.expires_in).unwrap_or(i64::MAX);
        issued.saturating_add(time::Duration::seconds(seconds))
    }
}
