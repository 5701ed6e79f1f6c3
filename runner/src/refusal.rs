//! Reasons for which a runner refuses a request.

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// Reason for which a runner refused a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "reason", content = "detail")]
pub enum Refusal {
    /// The request is malformed.
    #[error("runner cannot read the request: {0}")]
    Invalid(String),
    /// The program is not in the runner's table.
    #[error("runner has no program {0:?}")]
    UnknownProgram(String),
    /// The program of the table is not installed.
    #[error("runner's program is missing: {0}")]
    ProgramMissing(String),
    /// The files exceed a limit of size or number.
    #[error("files of the run exceed a limit of the runner")]
    TooLarge,
    /// As many programs run as the runner starts at once.
    #[error("runner is busy")]
    Busy,
    /// Too many ended runs have not been acknowledged.
    #[error("runner holds too many results that were not acknowledged")]
    TableFull,
    /// The key belongs to a run with other work.
    #[error("runner has another run with this id and attempt")]
    OtherRun,
    /// The runner has no such run.
    #[error("runner has no such run")]
    UnknownRun,
    /// The run has not ended.
    #[error("run has not ended")]
    NotEnded,
    /// The run has ended.
    #[error("run has ended")]
    Ended,
    /// The offset lies behind the end of the output.
    #[error("output ends at byte {0}")]
    BeyondEnd(u64),
    /// The runner ends.
    #[error("runner is shutting down")]
    ShuttingDown,
    /// The work folder has no space.
    #[error("work folder of the runner is full")]
    NoSpace,
    /// The operating system refused.
    #[error("runner failed: {0}")]
    System(String),
}

impl Refusal {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Refusal::Busy
                | Refusal::TableFull
                | Refusal::ShuttingDown
                | Refusal::NoSpace
                | Refusal::NotEnded
                | Refusal::System(_)
        )
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
            Refusal::UnknownProgram(_) | Refusal::ProgramMissing(_) => StatusCode::FORBIDDEN,
            Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Busy | Refusal::TableFull => StatusCode::TOO_MANY_REQUESTS,
            Refusal::OtherRun | Refusal::NotEnded | Refusal::Ended => StatusCode::CONFLICT,
            Refusal::UnknownRun => StatusCode::NOT_FOUND,
            Refusal::BeyondEnd(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            Refusal::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Refusal::System(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Refusal::NoSpace,
            _ => Refusal::System(error.to_string()),
        }
    }
}
