//! Settings of a runner.

use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Settings of a runner.
#[derive(Debug, Clone)]
pub struct Config {
    /// Unix socket. Its folder is private to the user, and is made if it is missing.
    pub socket: PathBuf,
    /// Folder for the files of runs, private to the user; it should be in memory.
    pub work: PathBuf,
    /// Program Helm.
    pub helm: PathBuf,
    /// Program and first arguments of the guard: `fairlead guard`.
    pub guard: Vec<OsString>,
    /// This program; Helm starts it as its post-renderer: `fairlead post-render`.
    pub program: PathBuf,
    /// Version of Fairlead, for agents.
    pub version: String,
    /// True: the runner ends once no agent has contacted it for [`Limits::agent_absence`].
    pub end_without_agent: bool,
    /// Limits.
    pub limits: Limits,
}

/// Limits of a runner.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Number of programs that run at once.
    pub running: usize,
    /// Number of runs in the table, with those that have ended and wait for their acknowledgement.
    pub runs: usize,
    /// Bytes of all files of one run.
    pub file_bytes: u64,
    /// Number of files of one run.
    pub files: usize,
    /// Bytes of output that are kept of one run.
    pub output_bytes: usize,
    /// Bytes of output that are kept of a query, whose answer is of use as a whole only.
    pub query_bytes: usize,
    /// Time without contact of an agent until programs are terminated.
    pub agent_absence: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub kill_delay: Duration,
    /// Time for the upload of a request.
    pub upload: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            running: 2,
            runs: 16,
            file_bytes: 64 << 20,
            files: 10_000,
            output_bytes: 1 << 20,
            query_bytes: 32 << 20,
            agent_absence: Duration::from_secs(60),
            kill_delay: Duration::from_secs(30),
            upload: Duration::from_secs(60),
        }
    }
}
