//! Why the store did not do it.

use std::sync::Arc;

use fairlead_api::{Code, Failure};
use tracing::error;

/// Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("it exists already, or has changed meanwhile")]
    Conflict,
    #[error("there is no such thing")]
    Missing,
    #[error("it is still in use")]
    InUse,
    #[error("a tenant would be above itself")]
    Nesting,
    #[error(
        "changes of so long ago are no longer kept; the oldest revision to go on from is {oldest}"
    )]
    Compacted { oldest: super::Revision },
    #[error("the store failed")]
    Failed(#[source] Arc<sqlx::Error>),
    #[error("the database cannot be reached")]
    Away,
    #[error("the store holds {0:?}, which nothing of ours has written")]
    Damaged(String),
    #[error("the change ended before it was done")]
    CutOff,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        StoreError::Failed(Arc::new(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Conflict => Code::Conflict.into(),
            StoreError::Missing => Code::NotFound.into(),
            StoreError::InUse => Code::InUse.into(),
            StoreError::Nesting => Failure::because(Code::Invalid, &error),
            StoreError::Compacted { oldest } => {
                let detail = format_args!("the oldest revision to go on from is {oldest}");
                Failure::because(Code::Compacted, detail)
            }
            StoreError::Away => Code::StoreAway.into(),
            StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::CutOff => {
                // What the database says is for whoever runs the hub, not for whoever asked.
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                error!(%error, cause, code = %Code::Store, "store failed");
                Code::Store.into()
            }
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, StoreError>;
