//! Token of the caller: given, signed in, or exchanged.

use fairlead_api::{
    Code, Failure,
    resources::{ExchangeToken, ExchangedToken},
};
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

use super::{Credential, HubClient, calls::from_json};
use crate::exchanged::{CachedToken, ExchangeStore};

impl HubClient {
    /// Token of the caller; `None` for open routes.
    ///
    /// # Errors
    /// Failures of the sign-in.
    pub async fn token(&self) -> Result<Option<SecretString>, Failure> {
        match &self.credential {
            Credential::Token(token) => Ok(token.clone()),
            Credential::Exchange(store) => Ok(Some(self.exchanged(store).await?.token().clone())),
            Credential::SignIn(store) => match store.current(&self.url).await {
                Ok(stored) => Ok(Some(stored.token().clone())),
                Err(error) => {
                    let failure = Failure::from(error);
                    let step = format!("Sign in again with `fairlead login {}`.", self.url);
                    Err(match failure.code {
                        Code::SignInEnded | Code::NotLoggedIn => failure.next(step),
                        _ => failure,
                    })
                }
            },
        }
    }

    /// The token of the hub for a token of an issuer, exchanged again ahead of its end.
    ///
    /// # Errors
    /// Failures of the hub; `FL-4119`, `FL-4112`.
    pub async fn exchanged(&self, store: &ExchangeStore) -> Result<CachedToken, Failure> {
        let issuer_token = store.issuer_token()?;
        let known = store.load(&self.url, &issuer_token);
        let is_fresh = |it: &CachedToken| OffsetDateTime::now_utc() < it.refresh_after();
        if let Some(known) = known.as_ref().filter(|it| is_fresh(it)) {
            return Ok(known.clone());
        }
        match (self.exchange_token(&issuer_token).await, known) {
            (Ok(exchanged), _) => {
                let cached = CachedToken::new(self.url.clone(), &exchanged);
                store.save(&cached, &issuer_token)?;
                Ok(cached)
            }
            // The token of the issuer ends before the one of the hub.
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    /// Exchanges a token of an issuer (RFC 8693).
    ///
    /// # Errors
    /// Failures of the hub.
    pub async fn exchange_token(
        &self,
        issuer_token: &SecretString,
    ) -> Result<ExchangedToken, Failure> {
        let form = percent_encoded(&[
            ("grant_type", ExchangeToken::GRANT_TYPE),
            ("subject_token_type", ExchangeToken::JWT),
            ("subject_token", issuer_token.expose_secret()),
        ]);
        let path = ExchangeToken::PATH;
        let answer = self.request_as(None, Method::POST, path, None, form.into());
        Ok(from_json(&answer.await?.1)?)
    }
}

/// A form. The names are safe; of a value, all but unreserved characters are encoded.
fn percent_encoded(fields: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    form.push(char::from(byte));
                }
                _ => form.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    form
}
