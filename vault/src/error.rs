//! Failed requests to Vault; each variant is another next step for the operator.

use std::time::Duration;

use fairlead_api::{Code, Failure};

/// A failed request to Vault. The text has the code, the cause and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Vault is sealed.
    #[error("{}", sentence(Code::VaultSealed, None))]
    Sealed,
    /// No usable answer; the result is unknown.
    #[error("{}", sentence(Code::VaultAway, Some(.0)))]
    Away(String),
    /// The token is missing, invalid or expired.
    #[error("{}", sentence(Code::VaultToken, Some(.0)))]
    Token(String),
    /// The token is valid, and its policies do not allow this request.
    #[error("{}", sentence(Code::VaultRight, Some(.0)))]
    Right(String),
    /// A part belongs to somebody else.
    #[error("{}", sentence(Code::VaultTaken, Some(.0)))]
    Taken(String),
    /// The request was refused for its content.
    #[error("{}", sentence(Code::VaultRefused, Some(.0)))]
    Refused(String),
    /// Vault limits the rate of requests.
    #[error("{}", sentence(Code::VaultAway, Some(&"it limits the rate of requests".to_owned())))]
    Throttled {
        /// Time until the next request.
        wait: Duration,
    },
}

impl VaultError {
    /// The failure with its code, for a person.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let (code, cause) = match self {
            VaultError::Sealed => (Code::VaultSealed, None),
            VaultError::Away(cause) => (Code::VaultAway, Some(cause)),
            VaultError::Token(cause) => (Code::VaultToken, Some(cause)),
            VaultError::Right(cause) => (Code::VaultRight, Some(cause)),
            VaultError::Taken(cause) => (Code::VaultTaken, Some(cause)),
            VaultError::Refused(cause) => (Code::VaultRefused, Some(cause)),
            VaultError::Throttled { .. } => (Code::VaultAway, None),
        };
        match cause {
            Some(cause) => Failure::because(code, cause),
            None => Failure::new(code),
        }
    }

    /// True if Vault has judged the access itself, so that a known one is void.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, VaultError::Taken(_) | VaultError::Refused(_))
    }
}

fn sentence(code: Code, cause: Option<&String>) -> String {
    let (title, next) = (code.title(), code.next_step());
    match cause {
        Some(cause) => format!("{code}: {title}: {cause}. {next}"),
        None => format!("{code}: {title}. {next}"),
    }
}
