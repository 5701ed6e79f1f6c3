//! Errors of the seam's traits, and their codes.

use fairlead_api::{Code, Failure, error_chain, resources::Role};

/// Reason not to authenticate a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticateError {
    /// The request has no bearer token.
    #[error("the request has no bearer token")]
    NoToken,
    /// The token is invalid, with a detail if there is one.
    #[error("the token is invalid{}", detail(.0.as_deref()))]
    BadToken(Option<String>),
    /// The token is longer than the hub accepts.
    #[error("the bearer token is longer than 16 KiB")]
    TooLong,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The address has sent too many wrong secrets.
    #[error(transparent)]
    TooManyWrongTokens(#[from] TooManyWrongTokens),
    /// The caller has too many concurrent requests.
    #[error("{caller} has {limit} of them")]
    TooManyRequests {
        /// Name of the caller.
        caller: String,
        /// Limit of concurrent requests.
        limit: usize,
    },
    /// The issuer of the token cannot be reached.
    #[error("{0}")]
    IssuerDown(String),
    /// The token is valid, and its user has no role here.
    #[error("{0}")]
    NoRole(String),
    /// An admin has locked the caller, its token or its tenant.
    #[error("{0}")]
    Locked(String),
    /// The hub cannot check the token.
    #[error("{0}")]
    Internal(String),
}

/// The address has sent too many wrong secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this address has sent too many invalid tokens")]
pub struct TooManyWrongTokens;

impl AuthenticateError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            AuthenticateError::NoToken => Code::NoToken,
            AuthenticateError::BadToken(_) => Code::BadToken,
            AuthenticateError::TooLong => Code::TokenTooLong,
            AuthenticateError::Expired => Code::TokenExpired,
            AuthenticateError::TooManyWrongTokens(_) => Code::TooManyWrongTokens,
            AuthenticateError::TooManyRequests { .. } => Code::TooManyRequests,
            AuthenticateError::IssuerDown(_) => Code::IssuerDown,
            AuthenticateError::NoRole(_) => Code::NoRole,
            AuthenticateError::Locked(_) => Code::Locked,
            AuthenticateError::Internal(_) => Code::Internal,
        }
    }

    /// True if the token may have been guessed. Such tokens count against the rate limit of the address.
    #[must_use]
    pub const fn may_be_guess(&self) -> bool {
        matches!(
            self,
            AuthenticateError::BadToken(_) | AuthenticateError::Expired
        )
    }

    /// True if the token cannot be checked now.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(
            self,
            AuthenticateError::IssuerDown(_) | AuthenticateError::Internal(_)
        )
    }
}

fn detail(text: Option<&str>) -> String {
    text.map(|text| format!(": {text}")).unwrap_or_default()
}

/// Reason not to authorize a caller for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// An admin has locked the cluster or its tenant.
    #[error("{0}")]
    Locked(String),
    /// There is no such cluster, or the caller may not see it.
    #[error("no cluster with this id is visible")]
    NoSuchCluster,
    /// The caller's role has no access inside clusters.
    #[error("{caller:?} has the role {role}, which has no access inside clusters")]
    NotAllowed {
        /// Name of the caller.
        caller: String,
        /// Role of the caller.
        role: Role,
    },
}

impl AuthorizeError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            AuthorizeError::Locked(_) => Code::Locked,
            AuthorizeError::NoSuchCluster => Code::NoSuchCluster,
            AuthorizeError::NotAllowed { .. } => Code::NotAllowed,
        }
    }
}

/// Reason not to admit an agent, or not to read or write the list of clusters.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The cluster of the identity is gone.
    #[error("the cluster of this identity has been deleted")]
    ClusterDeleted,
    /// The identity was revoked: by hand, by a newer key, or with the move of its cluster.
    #[error("{0}")]
    Revoked(&'static str),
    /// The identity belongs to another Kubernetes cluster.
    #[error("{0}")]
    Cloned(String),
    /// The directory does not answer now.
    #[error("the directory is not available")]
    Unavailable(#[source] Failure),
}

impl DirectoryError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            DirectoryError::ClusterDeleted => Code::ClusterDeleted,
            DirectoryError::Revoked(_) => Code::IdentityRevoked,
            DirectoryError::Cloned(_) => Code::IdentityCloned,
            DirectoryError::Unavailable(failure) => failure.code,
        }
    }
}

impl From<AuthenticateError> for Failure {
    fn from(error: AuthenticateError) -> Self {
        let code = error.code();
        match error {
            AuthenticateError::NoToken
            | AuthenticateError::BadToken(None)
            | AuthenticateError::TooLong
            | AuthenticateError::Expired
            | AuthenticateError::TooManyWrongTokens(_) => code.into(),
            AuthenticateError::BadToken(Some(detail)) => Failure::because(code, detail),
            other => Failure::because(code, error_chain(&other)),
        }
    }
}

impl From<TooManyWrongTokens> for Failure {
    fn from(error: TooManyWrongTokens) -> Self {
        AuthenticateError::from(error).into()
    }
}

impl From<AuthorizeError> for Failure {
    fn from(error: AuthorizeError) -> Self {
        match error {
            AuthorizeError::NoSuchCluster => error.code().into(),
            AuthorizeError::Locked(cause) => Failure::because(Code::Locked, cause),
            AuthorizeError::NotAllowed { .. } => Failure::because(error.code(), &error)
                .next("Use a token with the role admin, operator, viewer or tenant."),
        }
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::ClusterDeleted => error.code().into(),
            DirectoryError::Unavailable(failure) => failure,
            _ => Failure::because(error.code(), &error),
        }
    }
}

#[cfg(test)]
mod tests;
