//! Arguments of `fairlead run`.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use fairlead_api::{
    BundleId, RunId,
    delivery::{RunKind, RunState},
};

use super::deployments::{OneDeployment, RunWait};
use crate::{
    args::OutputArgs,
    complete::{bundles, clusters, runs},
};

const LIST_EXAMPLES: &str = "\
Examples:
  fairlead run list --bundle shop
  fairlead run list --cluster demo --state Failed";

const LOGS_EXAMPLES: &str = "\
Examples:
  fairlead run logs run-01KB0000000000000000000000
  fairlead run logs -f run-01KB0000000000000000000000";

const CREATE_EXAMPLES: &str = "\
Examples:
  fairlead run create demo shop --kind sync --wait
  fairlead run create demo shop --kind diff";

#[derive(Subcommand)]
pub enum RunArgs {
    /// List the runs, latest first
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(RunList),
    /// Show one run
    Get {
        /// Id of the run
        #[arg(value_name = "RUN", add = ArgValueCompleter::new(runs))]
        id: RunId,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the log of a run
    #[command(visible_alias = "log", after_help = LOGS_EXAMPLES)]
    Logs(RunLogs),
    /// Cancel a run after its current step
    Cancel {
        /// Id of the run
        #[arg(value_name = "RUN", add = ArgValueCompleter::new(runs))]
        id: RunId,
        /// End its programs at once
        #[arg(long)]
        hard: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make a run for a bundle in a cluster
    #[command(after_help = CREATE_EXAMPLES)]
    Create(RunCreate),
}

#[derive(Args)]
pub struct RunList {
    /// Filter: runs of this bundle
    #[arg(long, value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) bundle: Option<BundleId>,
    /// Filter: runs in this cluster
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Filter: runs in this state
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<RunState>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub struct RunLogs {
    /// Id of the run
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(runs))]
    pub(crate) id: RunId,
    /// Keep following until the run ends; survives restarts of the hub without gaps
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Args)]
pub struct RunCreate {
    #[command(flatten)]
    pub(crate) one: OneDeployment,
    /// Work of the run; diff changes nothing, remove deletes the objects
    #[arg(long, value_name = "sync|diff|remove")]
    pub(crate) kind: KindWord,
    /// Skip the confirmation prompt of --kind remove
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) wait: RunWait,
}

/// Work of a run, on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum KindWord {
    Sync,
    Diff,
    Remove,
}

impl From<KindWord> for RunKind {
    fn from(word: KindWord) -> RunKind {
        match word {
            KindWord::Sync => RunKind::Sync,
            KindWord::Diff => RunKind::Diff,
            KindWord::Remove => RunKind::Remove,
        }
    }
}
