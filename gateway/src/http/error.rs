//! Errors of requests that are rejected before anything is done for them, and their codes.

use fairlead_api::{Code, Failure, tcp::TcpTargetError};

/// Reason to reject a request by its head alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The headers are too long, or too many.
    #[error("the headers are too long, or too many")]
    HeadTooLarge,
    /// The head is malformed, or has two readings.
    #[error("{0}")]
    Malformed(&'static str),
    /// The path or target has two readings, or a form that is not supported.
    #[error("{0}")]
    Path(String),
    /// Host and TLS server name lead to different places.
    #[error("{0}")]
    WrongHost(&'static str),
    /// No cluster can have this name.
    #[error("no cluster can have this name")]
    NoSuchCluster,
    /// The request has impersonation headers that only the gateway may set.
    #[error("only the gateway may set impersonation headers")]
    NoImpersonation,
    /// The target of a TCP connection has two readings, or none.
    #[error("{0}")]
    TcpTarget(#[from] TcpTargetError),
    /// A TCP connection is requested by something else than its WebSocket.
    #[error("{0}")]
    TcpUpgrade(&'static str),
}

impl RequestError {
    pub(crate) fn path(detail: impl ToString) -> Self {
        RequestError::Path(detail.to_string())
    }

    /// Code of the error.
    pub(crate) const fn code(&self) -> Code {
        match self {
            RequestError::HeadTooLarge => Code::HeadTooLarge,
            RequestError::Malformed(_) => Code::BadRequest,
            RequestError::Path(_) => Code::BadPath,
            RequestError::WrongHost(_) => Code::WrongHost,
            RequestError::NoSuchCluster => Code::NoSuchCluster,
            RequestError::NoImpersonation => Code::NoImpersonation,
            RequestError::TcpTarget(_) => Code::TcpTargetInvalid,
            RequestError::TcpUpgrade(_) => Code::TcpUpgradeMissing,
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::HeadTooLarge
            | RequestError::NoSuchCluster
            | RequestError::NoImpersonation => error.code().into(),
            _ => Failure::because(error.code(), &error),
        }
    }
}

#[cfg(test)]
mod tests;
