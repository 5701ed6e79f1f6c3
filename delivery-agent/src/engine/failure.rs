//! Failures of runs: class, code, one sentence.

use std::fmt;

use fairlead_api::Code;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::kube::KubeError;

/// Consequence of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    /// Another attempt may succeed; it counts.
    Retry,
    /// Every attempt fails until content or a person changes something.
    Permanent,
    /// Something else must come first. The attempt does not count.
    Waiting,
    /// A person must decide.
    Blocked,
    /// A person, or a newer order, ended the run.
    Cancelled,
    /// The outcome cannot be determined. A person must decide.
    Unknown,
}

/// Failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// Consequence.
    pub class: FailureClass,
    /// Code.
    pub code: Code,
    /// One sentence that names the object. It holds no secret value.
    pub sentence: String,
    /// Earliest time of the next attempt, if somebody gave one.
    pub not_before: Option<OffsetDateTime>,
    /// True: nothing is left of the program's step in the journal. The note of the failure clears the step, so that a kill
    /// before the note does not repeat it.
    pub ends_step: bool,
}

impl RunFailure {
    /// Makes a failure.
    #[must_use]
    pub fn new(class: FailureClass, code: Code, sentence: impl Into<String>) -> Self {
        Self {
            class,
            code,
            sentence: sentence.into(),
            not_before: None,
            ends_step: false,
        }
    }

    /// The failure of a program whose step is over.
    #[must_use]
    pub fn ending_step(self) -> Self {
        Self {
            ends_step: true,
            ..self
        }
    }

    /// Failure of a request about the engine's own objects, or without an answer.
    #[must_use]
    pub fn of_kube(error: &KubeError) -> Self {
        let class = if error.is_unavailable() {
            FailureClass::Waiting
        } else {
            FailureClass::Retry
        };
        let code = match error.status() {
            Some(403) => Code::MissingRight,
            _ => Code::ApiServerAway,
        };
        Self::new(class, code, error.to_string())
    }

    /// End of a run by a person.
    #[must_use]
    pub fn cancelled() -> Self {
        let class = FailureClass::Cancelled;
        Self::new(class, Code::RunCancelled, "the run was cancelled")
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.sentence, self.code)
    }
}

impl std::error::Error for RunFailure {}
