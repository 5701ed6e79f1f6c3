//! Errors of requests to a hub, by the cases that commands tell apart.

use fairlead_api::{Code, Failure};

/// Failed request to a hub. Each variant has the words of the hub, or of the connection to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// No hub answers. It may be restarting.
    #[error("{0}")]
    Unreachable(Failure),
    /// The hub answers that it cannot serve the request now.
    #[error("{0}")]
    Unavailable(Failure),
    /// The hub does not accept the token.
    #[error("{0}")]
    TokenRejected(Failure),
    /// The caller's role does not allow the request.
    #[error("{0}")]
    NotAllowed(Failure),
    /// No such tenant, token or other resource is visible.
    #[error("{0}")]
    NotFound(Failure),
    /// No such cluster is visible.
    #[error("{0}")]
    NoSuchCluster(Failure),
    /// The resource has changed since it was read.
    #[error("{0}")]
    Outdated(Failure),
    /// The hub no longer has the changes since that revision.
    #[error("{0}")]
    Compacted(Failure),
    /// Any other rejection.
    #[error("{0}")]
    Rejected(Failure),
}

/// Reads the code of a response or connection.
impl From<Failure> for HubError {
    fn from(failure: Failure) -> Self {
        let variant = match failure.code {
            Code::HubUnreachable => HubError::Unreachable,
            Code::Draining
            | Code::HubTimeout
            | Code::TooManyRequests
            | Code::TooManyTransfers
            | Code::Store
            | Code::StoreAway => HubError::Unavailable,
            Code::BadToken | Code::TokenExpired => HubError::TokenRejected,
            Code::NotAllowed => HubError::NotAllowed,
            Code::NotFound => HubError::NotFound,
            Code::NoSuchCluster => HubError::NoSuchCluster,
            Code::ChangedMeanwhile => HubError::Outdated,
            Code::Compacted => HubError::Compacted,
            _ => HubError::Rejected,
        };
        variant(failure)
    }
}

impl HubError {
    /// Code, cause and next step as reported.
    #[must_use]
    pub const fn failure(&self) -> &Failure {
        match self {
            HubError::Unreachable(failure)
            | HubError::Unavailable(failure)
            | HubError::TokenRejected(failure)
            | HubError::NotAllowed(failure)
            | HubError::NotFound(failure)
            | HubError::NoSuchCluster(failure)
            | HubError::Outdated(failure)
            | HubError::Compacted(failure)
            | HubError::Rejected(failure) => failure,
        }
    }

    /// True if the same request can succeed later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, HubError::Unreachable(_) | HubError::Unavailable(_))
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        error.failure().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_that_commands_tell_apart_has_its_variant() {
        let variant = |code: Code| {
            let error = HubError::from(Failure::new(code));
            assert_eq!(Failure::from(error.clone()), Failure::new(code));
            error
        };
        for code in [
            Code::Draining,
            Code::HubTimeout,
            Code::TooManyRequests,
            Code::TooManyTransfers,
            Code::Store,
            Code::StoreAway,
        ] {
            assert!(matches!(variant(code), HubError::Unavailable(_)), "{code}");
            assert!(variant(code).is_temporary());
        }
        assert!(variant(Code::HubUnreachable).is_temporary());
        for code in [Code::BadToken, Code::TokenExpired] {
            assert!(
                matches!(variant(code), HubError::TokenRejected(_)),
                "{code}"
            );
        }
        assert!(matches!(variant(Code::NotAllowed), HubError::NotAllowed(_)));
        assert!(matches!(variant(Code::NotFound), HubError::NotFound(_)));
        let gone = variant(Code::NoSuchCluster);
        assert!(matches!(gone, HubError::NoSuchCluster(_)));
        let outdated = variant(Code::ChangedMeanwhile);
        assert!(matches!(outdated, HubError::Outdated(_)));
        assert!(matches!(variant(Code::Compacted), HubError::Compacted(_)));
        for code in [Code::NoToken, Code::Invalid, Code::Protected, Code::DialTls] {
            assert!(matches!(variant(code), HubError::Rejected(_)), "{code}");
            assert!(!variant(code).is_temporary());
        }
    }
}
