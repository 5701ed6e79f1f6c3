//! Errors of a sign-in.

use std::{io, path::PathBuf};

use fairlead_api::{Code, Failure, error_chain};

/// Failed sign-in or refresh.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The person or the issuer's policy denied the sign-in.
    #[error("the issuer answered {0}")]
    Denied(String),
    /// Nobody completed the sign-in in time.
    #[error("nobody completed the sign-in within {0} s")]
    TimedOut(u64),
    /// No answer from the issuer.
    #[error("{url}: {cause}")]
    IssuerAway {
        /// URL of the request.
        url: String,
        /// Error of the connection, or the HTTP status.
        cause: String,
    },
    /// The issuer's answer is invalid, or an error that no repetition mends.
    #[error("{0}")]
    BadIssuer(String),
    /// The answer does not belong to this sign-in.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The refresh token is no longer valid.
    #[error("the issuer answered {0}")]
    Ended(String),
    /// No loopback address is available for the redirect.
    #[error("no loopback address is available: {0}")]
    NoLoopback(#[source] io::Error),
    /// The sign-in to this hub is not stored.
    #[error("{} holds no sign-in", .0.display())]
    NotStored(PathBuf),
    /// Another process holds the lock of the stored sign-in.
    #[error("another process holds the lock {}", .0.display())]
    Locked(PathBuf),
    /// A file of the sign-in cannot be used.
    #[error(transparent)]
    File(#[from] crate::files::FileError),
    /// The system returned no random bytes.
    #[error("the system returned no random bytes")]
    NoRandomness,
    /// The HTTP client cannot be built.
    #[error("{}", .0.cause)]
    Client(Failure),
}

impl SignInError {
    fn code(&self) -> Code {
        match self {
            SignInError::Denied(_) => Code::SignInDenied,
            SignInError::TimedOut(_) => Code::SignInTimeout,
            SignInError::IssuerAway { .. } => Code::SignInIssuerAway,
            SignInError::BadIssuer(_) => Code::SignInBadIssuer,
            SignInError::Mismatch(_) => Code::SignInMismatch,
            SignInError::Ended(_) => Code::SignInEnded,
            SignInError::NotStored(_) => Code::NotLoggedIn,
            SignInError::Locked(_) => Code::InUse,
            SignInError::NoLoopback(_) => Code::AddressInUse,
            SignInError::NoRandomness | SignInError::Client(_) | SignInError::File(_) => {
                Code::Internal
            }
        }
    }
}

impl From<SignInError> for Failure {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::File(error) => error.into(),
            SignInError::Client(failure) => failure,
            SignInError::NoLoopback(_) => {
                Failure::because(error.code(), error_chain(&error)).next("Sign in with `--device`.")
            }
            error => Failure::because(error.code(), error_chain(&error)),
        }
    }
}
