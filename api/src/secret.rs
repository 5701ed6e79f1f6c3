//! Serialization of secrets.

use secrecy::{ExposeSecret, SecretString};
use serde::Serializer;

/// Serializes a secret as plain text, for messages that deliver it.
pub(crate) fn exposed<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

/// As [`exposed`]; a missing secret is `null`.
pub(crate) fn exposed_option<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => exposed(secret, serializer),
        None => serializer.serialize_none(),
    }
}
