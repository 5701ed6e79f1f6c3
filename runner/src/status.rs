//! State of a run, as the agent reads it.

use serde::{Deserialize, Serialize};

use crate::request::RunKey;

/// The runner itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerInfo {
    /// Random name of this process.
    pub instance: String,
    /// Random name of the work folder. Another instance at the same place means that all earlier children are dead.
    pub place: String,
    /// Memory limit of the runner with its programs, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// True: the runner before this one at the same place was probably killed for memory.
    #[serde(default)]
    pub replaces_memory_kill: bool,
    /// Process id of the runner.
    pub pid: u32,
    /// Version of Fairlead.
    pub version: String,
    /// Number of programs that run.
    pub running: usize,
}

/// State of one run in the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Run and attempt.
    pub key: RunKey,
    /// Name of the operation, like `upgrade-install`.
    pub operation: String,
    /// Running, or the end.
    pub state: RunState,
    /// Bytes of output so far, with cut ones.
    pub output_bytes: u64,
    /// The last 4 KiB of stderr.
    pub error_tail: String,
}

/// Running, or the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// The program has this process id, which is the id of its process group, too.
    Running {
        /// Process id.
        pid: u32,
    },
    /// The program has ended, and its process group is gone.
    Ended(Ending),
}

/// The end of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// Exit code or signal.
    pub exit: Exit,
    /// Cause of the end.
    pub cause: Cause,
    /// Whether the kernel probably ended it for memory: it counted such a kill meanwhile.
    pub out_of_memory: bool,
    /// Duration of the run in milliseconds.
    pub duration_ms: u64,
}

impl Ending {
    /// Whether the program ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit == Exit::Code(0) && self.cause == Cause::Finished
    }
}

/// Exit code or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// Exit code.
    Code(i32),
    /// Number of the signal.
    Signal(i32),
}

/// Cause of a program's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The program ended by itself.
    Finished,
    /// The agent cancelled it.
    Cancelled,
    /// The run's time was over.
    TimedOut,
    /// No agent contacted the runner.
    AgentGone,
    /// The runner was told to end.
    RunnerEnded,
}

impl RunStatus {
    /// The end, or `None` while the program runs.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            RunState::Running { .. } => None,
            RunState::Ended(ending) => Some(ending),
        }
    }
}
