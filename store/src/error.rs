//! Errors of the store.

use std::sync::Arc;

use fairlead_api::{Code, Failure, error_chain};
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use tracing::error;

use crate::{
    exceeded_quota::{ExceededQuota, QuotaKind},
    random::RandomError,
    revision::Revision,
};

/// A failed operation; nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Existing name, or a newer version than the precondition's.
    #[error("it already exists or has changed meanwhile")]
    Conflict,
    /// No such resource.
    #[error("not found")]
    Missing,
    /// Other resources refer to it.
    #[error("still in use")]
    InUse,
    /// Cycle in the tree of tenants.
    #[error("a tenant would be its own ancestor")]
    Nesting,
    /// A quota of a tenant is used up.
    #[error("{0}")]
    Quota(ExceededQuota),
    /// The requested revision is older than the log.
    #[error(
        "changes since that revision are no longer retained; the oldest revision to resume from is {oldest}"
    )]
    Compacted {
        /// Oldest revision from which changes can be read.
        oldest: Revision,
    },
    /// Unclassified failure of the database.
    #[error("the store failed")]
    Failed(#[source] Arc<sqlx::Error>),
    /// No space, or a read-only file system.
    #[error("the disk is full or not writable")]
    Full(#[source] Arc<sqlx::Error>),
    /// No connection to the database.
    #[error("the database cannot be reached")]
    Away,
    /// A stored document or value that does not parse.
    #[error("the store contains invalid data: {0:?}")]
    Damaged(String),
    /// Cancelled before its commit.
    #[error("the change was aborted")]
    CutOff,
}

/// A failed backup, restore or migration; the target is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The target contains data, and overwriting was not allowed.
    #[error("{0}")]
    NotEmpty(String),
    /// The backup is damaged, or none.
    #[error("the backup cannot be read: {0}")]
    Unreadable(String),
    /// The destination of the backup rejects a write.
    #[error(transparent)]
    Sink(std::io::Error),
    /// The copy differs from its source.
    #[error("{0}")]
    Differs(String),
    /// A task of the copy has panicked.
    #[error(transparent)]
    Task(tokio::task::JoinError),
    /// A store or a file beside it cannot be used.
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl DumpError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            DumpError::NotEmpty(_) => Code::InUse,
            DumpError::Unreadable(_) => Code::Invalid,
            DumpError::Sink(_) => Code::CannotWrite,
            DumpError::Differs(_) | DumpError::Task(_) => Code::Internal,
            DumpError::Failed(failure) => failure.code,
        }
    }
}

impl From<DumpError> for Failure {
    fn from(error: DumpError) -> Self {
        let code = error.code();
        match error {
            DumpError::Failed(failure) => failure,
            DumpError::Unreadable(_) => Failure::with_cause(code, error.to_string()).next(
                "Pass a complete file of `fairlead backup`; an encrypted file requires `--identity`.",
            ),
            other => Failure::because(code, error_chain(&other)),
        }
    }
}

/// An error that a change may return instead of a result.
pub trait Refusal: From<StoreError> + Send + 'static {
    /// True if the precondition of the change was outdated, as for `If-Match`.
    fn has_lost(&self) -> bool {
        false
    }
}

impl Refusal for StoreError {}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match cannot_write(&error) && !has_ended(&error) {
            true => StoreError::Full(Arc::new(error)),
            false => StoreError::Failed(Arc::new(error)),
        }
    }
}

/// True if PostgreSQL terminated with this error; the current operation may have succeeded all the
/// same.
pub(super) fn has_ended(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| error.severity() == PgSeverity::Panic)
}

/// True if the server is unreachable or reports that it cannot serve.
pub(crate) fn cannot_be_reached(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        // PostgreSQL, appendix A: connection exceptions, shutdowns, too many connections.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.starts_with("08") || code.starts_with("57P") || code == "53300"
        }),
        _ => false,
    }
}

/// True if an operator must free space or make the disk writable.
fn cannot_write(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    let Some(code) = code else {
        return false;
    };
    match code.parse::<u32>() {
        // SQLite: the low byte of the code is 8 (READONLY) or 13 (FULL). Quotas and limits surface
        // as 778, 1034 and 1546: IOERR while writing, syncing and truncating.
        Ok(number) if code.len() < 5 => {
            matches!(number & 0xff, 8 | 13) || matches!(number, 778 | 1034 | 1546)
        }
        // PostgreSQL, appendix A: disk full, read-only.
        _ => matches!(code.as_ref(), "53100" | "25006"),
    }
}

impl StoreError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            StoreError::Conflict => Code::Conflict,
            StoreError::Missing => Code::NotFound,
            StoreError::InUse => Code::InUse,
            StoreError::Nesting => Code::Invalid,
            StoreError::Quota(exceeded) => match exceeded.kind {
                QuotaKind::Changes => Code::TooManyChanges,
                _ => Code::QuotaExceeded,
            },
            StoreError::Compacted { .. } => Code::Compacted,
            StoreError::Away => Code::StoreAway,
            StoreError::Full(_) => Code::StoreFull,
            StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::CutOff => Code::Store,
        }
    }
}

impl From<RandomError> for Failure {
    fn from(error: RandomError) -> Self {
        Failure::because(Code::Internal, error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = error.code();
        match &error {
            StoreError::Nesting | StoreError::Quota(_) => Failure::because(code, &error),
            StoreError::Compacted { oldest } => {
                let detail = format_args!("the oldest revision to resume from is {oldest}");
                Failure::because(code, detail)
            }
            StoreError::Conflict | StoreError::Missing | StoreError::InUse | StoreError::Away => {
                code.into()
            }
            // The database's message is for the operator, not for the caller.
            StoreError::Full(_) => {
                error!(error = error_chain(&error), %code, "store cannot be written");
                code.into()
            }
            StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::CutOff => {
                error!(error = error_chain(&error), %code, "store failed");
                code.into()
            }
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, StoreError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_error_has_its_code() {
        let failed = || Arc::new(sqlx::Error::RowNotFound);
        let compacted = StoreError::Compacted {
            oldest: Revision(3),
        };
        let oldest = "the oldest revision to resume from is 3";
        let nesting = "a tenant would be its own ancestor";
        for (error, failure) in [
            (StoreError::Conflict, Failure::new(Code::Conflict)),
            (StoreError::Missing, Failure::new(Code::NotFound)),
            (StoreError::InUse, Failure::new(Code::InUse)),
            (
                StoreError::Nesting,
                Failure::because(Code::Invalid, nesting),
            ),
            (compacted, Failure::because(Code::Compacted, oldest)),
            (StoreError::Failed(failed()), Failure::new(Code::Store)),
            (StoreError::Full(failed()), Failure::new(Code::StoreFull)),
            (StoreError::Away, Failure::new(Code::StoreAway)),
            (
                StoreError::Damaged("row".to_owned()),
                Failure::new(Code::Store),
            ),
            (StoreError::CutOff, Failure::new(Code::Store)),
        ] {
            assert_eq!(error.code(), failure.code);
            assert_eq!(Failure::from(error), failure);
        }
    }

    #[test]
    fn each_error_of_a_copy_has_its_code() {
        let detail = || "detail".to_owned();
        let failed = Failure::new(Code::DataDir);
        for (error, failure) in [
            (
                DumpError::NotEmpty(detail()),
                Failure::because(Code::InUse, "detail"),
            ),
            (
                DumpError::Sink(std::io::Error::other("disk")),
                Failure::because(Code::CannotWrite, "disk"),
            ),
            (
                DumpError::Differs(detail()),
                Failure::because(Code::Internal, "detail"),
            ),
            (failed.clone().into(), failed),
        ] {
            assert_eq!(error.code(), failure.code);
            assert_eq!(Failure::from(error), failure);
        }
        let unreadable = Failure::from(DumpError::Unreadable(detail()));
        assert_eq!(unreadable.code, Code::Invalid);
        assert_eq!(unreadable.cause, "the backup cannot be read: detail");
        assert!(unreadable.next_step().contains("--identity"));
    }
}
