//! Bearer tokens other than the agent's own credential.

use std::fmt;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// A token with bytes that no header may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token has bytes that no header may have")]
pub struct BadToken;

/// Bearer token of a request, like that of a ServiceAccount.
#[derive(Clone)]
pub struct BearerToken {
    header: HeaderValue,
}

impl BearerToken {
    /// Takes a token.
    ///
    /// # Errors
    /// [`BadToken`].
    pub fn new(token: &SecretString) -> Result<Self, BadToken> {
        let text = format!("Bearer {}", token.expose_secret());
        let mut header = HeaderValue::from_str(&text).map_err(|_| BadToken)?;
        header.set_sensitive(true);
        Ok(Self { header })
    }

    /// Value of the header `Authorization`.
    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }
}

/// Hides the token.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_hidden_and_marked_as_sensitive() {
        let token = BearerToken::new(&"canary".into()).unwrap();
        assert!(token.header().is_sensitive());
        assert!(!format!("{token:?}").contains("canary"));
        assert_eq!(BearerToken::new(&"a\nb".into()).unwrap_err(), BadToken);
    }
}
