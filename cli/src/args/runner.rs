//! Arguments of `runner` and of its guard.

use std::{ffi::OsString, path::PathBuf};

use clap::Parser;

use super::process::ProcessArgs;

const RUNNER_EXAMPLE: &str = "\
Example:
  fairlead runner --socket /run/fairlead/runner/socket --work /run/fairlead/work --helm /usr/local/bin/helm";

#[derive(Parser)]
#[command(after_help = RUNNER_EXAMPLE)]
pub(crate) struct RunnerArgs {
    /// Unix socket for the agent; its folder gets private to the user
    #[arg(long, value_name = "FILE")]
    socket: Option<String>,
    /// Folder for the files of runs, private to the user; it should be in memory, because the files hold secrets
    #[arg(long, value_name = "DIR")]
    work: Option<String>,
    /// Program Helm 4, with its whole path
    #[arg(long, value_name = "FILE")]
    helm: Option<String>,
    /// End once no agent has made contact for a minute
    #[arg(long)]
    end_without_agent: bool,
    #[command(flatten)]
    process: ProcessArgs,
}

#[derive(Parser)]
pub(crate) struct GuardArgs {
    /// Process id of the runner
    #[arg(long, value_name = "PID")]
    pub(crate) parent: u32,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Parser)]
pub(crate) struct PostRenderArgs {
    /// File with the kept fields
    #[arg(value_name = "FILE")]
    pub(crate) kept: PathBuf,
}
