//! Errors of the registry and of modules that use it, and their codes.

use std::error::Error;

use fairlead_api::{ClusterId, Code, Failure, error_chain};
use fairlead_certs::CertsError;
use fairlead_routes::InvalidValue;
use fairlead_store::{Refusal, Revision, StoreError, random::RandomError};

/// Reason not to answer or not to change the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] InvalidValue),
    /// The caller's role does not allow the operation.
    #[error("{detail}")]
    NotAllowed {
        /// One clause: role, and the needed one.
        detail: String,
        /// Next step for the caller.
        next: String,
    },
    /// No such cluster, or it is hidden from the caller.
    #[error("no cluster with this id is visible")]
    NoSuchCluster,
    /// No such tenant, or it is hidden from the caller.
    #[error("no tenant with this id is visible")]
    NoSuchTenant,
    /// The tenant of a document does not exist, or is hidden from the caller.
    #[error("tenant: there is no such tenant")]
    UnknownTenant,
    /// The tenant or cluster of a new token does not exist.
    #[error("no such tenant or cluster")]
    UnknownScope,
    /// No token has this id, or it is hidden from the caller.
    #[error("no token has the id {0:?}")]
    NoSuchToken(String),
    /// No access request has this id, or it is hidden from the caller.
    #[error("no access request has the id {0:?}")]
    NoSuchAccess(String),
    /// No repository of a deleted owner has this id.
    #[error("no retired repository has the id {0:?}")]
    NoSuchRetiredRepository(String),
    /// The store has no credential of this name.
    #[error("no credential has the name {0:?}")]
    NoSuchGitCredential(String),
    /// No access to Vault of an earlier cluster has this id.
    #[error("no retired access to Vault has the id {0:?}")]
    NoSuchVaultAccess(String),
    /// The hub's settings have no such Git server.
    #[error("the hub has no Git server {0:?}")]
    NoSuchGitServer(String),
    /// The caller may be the requester.
    #[error("it is your own request, or of the owner or holder of your token")]
    SecondPerson,
    /// The request is not in the state for this decision.
    #[error("{0}")]
    Decided(String),
    /// The id is taken, or the resource has changed since the request was checked.
    #[error("it exists already, or has changed meanwhile")]
    Conflict,
    /// A name is used by another cluster.
    #[error("{0}")]
    NameUsed(String),
    /// A newer or stronger source has set the value.
    #[error("{0}")]
    Overruled(String),
    /// The precondition of the request (`If-Match`) does not hold.
    #[error("the resource has changed since it was read")]
    Outdated,
    /// The resource is in use.
    #[error("{0}")]
    InUse(&'static str),
    /// The cluster is protected against deletion.
    #[error("{0}")]
    Protected(ClusterId),
    /// Changes since a revision are no longer retained.
    #[error("the oldest retained revision is {0}")]
    Compacted(Revision),
    /// A revision was not reached yet, as after a restore.
    #[error("since: the hub is at revision {now} and has not reached {since}")]
    NotReached {
        /// Revision of the hub.
        now: Revision,
        /// Requested revision.
        since: Revision,
    },
    /// The store refused or failed.
    #[error("the store refused")]
    Store(#[from] StoreError),
    /// Another module refuses the change.
    #[error("{}", .0.cause)]
    Refused(Box<Failure>),
    /// An error that no caller can cause.
    #[error(transparent)]
    Internal(Box<dyn Error + Send + Sync>),
}

impl RegistryError {
    /// Code of the error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            RegistryError::Invalid(error) => error.code(),
            RegistryError::NotAllowed { .. } => Code::NotAllowed,
            RegistryError::NoSuchCluster => Code::NoSuchCluster,
            RegistryError::NoSuchTenant
            | RegistryError::UnknownTenant
            | RegistryError::UnknownScope
            | RegistryError::NoSuchToken(_)
            | RegistryError::NoSuchRetiredRepository(_)
            | RegistryError::NoSuchGitCredential(_)
            | RegistryError::NoSuchVaultAccess(_)
            | RegistryError::NoSuchGitServer(_)
            | RegistryError::NoSuchAccess(_) => Code::NotFound,
            RegistryError::SecondPerson => Code::SecondPerson,
            RegistryError::Conflict
            | RegistryError::NameUsed(_)
            | RegistryError::Overruled(_)
            | RegistryError::Decided(_) => Code::Conflict,
            RegistryError::Outdated => Code::ChangedMeanwhile,
            RegistryError::InUse(_) => Code::InUse,
            RegistryError::Protected(_) => Code::Protected,
            RegistryError::Compacted(_) | RegistryError::NotReached { .. } => Code::Compacted,
            RegistryError::Store(error) => error.code(),
            RegistryError::Refused(failure) => failure.code,
            RegistryError::Internal(_) => Code::Internal,
        }
    }

    /// An error that no caller can cause.
    #[must_use]
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        RegistryError::Internal(error.into())
    }

    /// True if the id of a new resource is taken.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(
            self,
            RegistryError::Conflict | RegistryError::Store(StoreError::Conflict)
        )
    }
}

impl Refusal for RegistryError {
    fn has_lost(&self) -> bool {
        matches!(self, RegistryError::Outdated)
    }
}

impl From<RandomError> for RegistryError {
    fn from(error: RandomError) -> Self {
        RegistryError::internal(error)
    }
}

/// Refusal of another module in the turn of a change.
impl From<Failure> for RegistryError {
    fn from(failure: Failure) -> Self {
        RegistryError::Refused(Box::new(failure))
    }
}

/// Serialization of an answer; a document of a caller that cannot be read is an [`InvalidValue`].
impl From<serde_json::Error> for RegistryError {
    fn from(error: serde_json::Error) -> Self {
        RegistryError::internal(error)
    }
}

/// Registrations need random bytes.
impl From<CertsError> for RegistryError {
    fn from(error: CertsError) -> Self {
        RegistryError::internal(error)
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let code = error.code();
        match error {
            RegistryError::NoSuchCluster
            | RegistryError::NoSuchTenant
            | RegistryError::Conflict
            | RegistryError::Outdated => code.into(),
            RegistryError::Store(error) => error.into(),
            RegistryError::Refused(failure) => *failure,
            RegistryError::Invalid(_) | RegistryError::UnknownTenant => {
                Failure::with_cause(code, error.to_string())
            }
            RegistryError::Decided(cause) => Failure::with_cause(code, cause)
                .next("List the requests with `fairlead access list`."),
            RegistryError::NoSuchAccess(_) => Failure::with_cause(code, error.to_string())
                .next("List the requests with `fairlead access list`."),
            RegistryError::NameUsed(cause) => Failure::with_cause(code, cause)
                .next("Choose another name, or allow two of one name with `--allow-duplicate-name`."),
            RegistryError::NotReached { .. } => Failure::with_cause(code, error.to_string()).next(
                "Take the revision from a response of this hub. After a restore, list again and watch from there.",
            ),
            RegistryError::NotAllowed { detail, next } => Failure::because(code, detail).next(next),
            _ => Failure::because(code, error_chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests;
