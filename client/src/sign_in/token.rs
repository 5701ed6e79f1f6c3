//! Tokens of an issuer, and the claims of the ID token.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::resources::SignInIssuer;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::error::SignInError;

/// Response of the token endpoint.
#[derive(Debug, Deserialize)]
pub struct IssuedTokens {
    /// Credential for the hub; some issuers omit it in the answer to a refresh.
    pub id_token: Option<SecretString>,
    /// Absent without the scope `offline_access`.
    pub refresh_token: Option<SecretString>,
}

impl IssuedTokens {
    /// The ID token and its expiry, after a comparison of its claims with the request.
    ///
    /// # Errors
    /// [`SignInError::BadIssuer`] without a usable token, [`SignInError::Mismatch`] for a token of another request.
    pub(super) fn id_token(
        &self,
        issuer: &SignInIssuer,
        nonce: Option<&str>,
    ) -> Result<(SecretString, OffsetDateTime), SignInError> {
        let bad = |cause: &str| SignInError::BadIssuer(format!("{}: {cause}", issuer.url));
        let token = self.id_token.as_ref();
        let token = token.ok_or_else(|| bad("the answer has no ID token; is `openid` a scope?"))?;
        let claims =
            claims(token.expose_secret()).ok_or_else(|| bad("the ID token is malformed"))?;
        if claims.iss != issuer.url {
            return Err(SignInError::Mismatch("the ID token is of another issuer"));
        }
        let client = issuer.client_id.as_str();
        let is_ours = match &claims.aud {
            Value::Array(all) => all.iter().any(|it| it == client),
            one => one == client,
        };
        if !is_ours {
            return Err(SignInError::Mismatch("the ID token is for another client"));
        }
        if nonce.is_some_and(|nonce| claims.nonce.as_deref() != Some(nonce)) {
            return Err(SignInError::Mismatch("the ID token has another nonce"));
        }
        let expires = OffsetDateTime::from_unix_timestamp(claims.exp).ok();
        Ok((
            token.clone(),
            expires.ok_or_else(|| bad("the ID token has no expiry"))?,
        ))
    }
}

/// Claims of an ID token that concern its request.
#[derive(Deserialize)]
struct IdClaims {
    iss: String,
    /// A text or a list of texts.
    aud: Value,
    exp: i64,
    nonce: Option<String>,
}

fn claims(token: &str) -> Option<IdClaims> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}
