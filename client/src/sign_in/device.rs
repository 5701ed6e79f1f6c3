//! Device flow (RFC 8628): the person enters a code in a browser of any machine.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{
    error::SignInError,
    provider::{Answered, Provider, quoted},
    token::IssuedTokens,
};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Poll interval if the issuer names none, and its increase for `slow_down` (RFC 8628, section 3.5).
const POLL_INTERVAL: Duration = Duration::from_secs(5);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
const MAX_WAIT: Duration = Duration::from_secs(1800);

/// A device sign-in that waits for its person.
pub struct DeviceSignIn<'a> {
    provider: &'a Provider,
    answer: DeviceAuthorization,
    begun: Instant,
}

#[derive(Deserialize)]
struct DeviceAuthorization {
    device_code: SecretString,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

impl<'a> DeviceSignIn<'a> {
    /// Requests a device code.
    ///
    /// # Errors
    /// [`SignInError::BadIssuer`] if the issuer has no device flow for this client; [`SignInError::IssuerAway`]
    pub async fn begin(provider: &'a Provider) -> Result<Self, SignInError> {
        let issuer = &provider.issuer;
        let Some(at) = &provider.endpoints.device_authorization_endpoint else {
            let cause = format!("{} has no device authorization endpoint", issuer.url);
            return Err(SignInError::BadIssuer(cause));
        };
        let scope = issuer.scopes.join(" ");
        match provider.post(at, &[("scope", &scope)]).await? {
            Answered::Ok(answer) => Ok(DeviceSignIn {
                provider,
                answer,
                begun: Instant::now(),
            }),
            Answered::Error(error) => Err(SignInError::BadIssuer(error.shown())),
        }
    }

    /// Code for the person to compare or to enter.
    #[must_use]
    pub fn user_code(&self) -> String {
        quoted(&self.answer.user_code)
    }

    /// Address for the person's browser.
    #[must_use]
    pub fn verification_uri(&self) -> String {
        let complete = self.answer.verification_uri_complete.as_ref();
        quoted(complete.unwrap_or(&self.answer.verification_uri))
    }

    /// Polls until the person has signed in.
    ///
    /// # Errors
    /// [`SignInError::Denied`], [`SignInError::TimedOut`], [`SignInError::IssuerAway`]
    pub async fn finish(self) -> Result<IssuedTokens, SignInError> {
        let wait = Duration::from_secs(self.answer.expires_in).min(MAX_WAIT);
        let interval = self.answer.interval.map(Duration::from_secs);
        let mut interval = interval.unwrap_or(POLL_INTERVAL).min(MAX_POLL_INTERVAL);
        let fields = [
            ("grant_type", GRANT),
            ("device_code", self.answer.device_code.expose_secret()),
        ];
        let mut away = None;
        while self.begun.elapsed() < wait {
            sleep(interval).await;
            match self.provider.tokens(&fields).await {
                Ok(Answered::Ok(tokens)) => return Ok(tokens),
                Ok(Answered::Error(error)) => match error.error.as_str() {
                    "authorization_pending" => {}
                    "slow_down" => interval = (interval + POLL_INTERVAL).min(MAX_POLL_INTERVAL),
                    "expired_token" => return Err(SignInError::TimedOut(wait.as_secs())),
                    "access_denied" => return Err(SignInError::Denied(error.shown())),
                    _ => return Err(SignInError::BadIssuer(error.shown())),
                },
                // A connection that breaks is no answer: poll again (RFC 8628, section 3.5).
                Err(error @ SignInError::IssuerAway { .. }) => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(away.unwrap_or(SignInError::TimedOut(wait.as_secs())))
    }
}
