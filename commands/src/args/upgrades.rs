//! Arguments of `fairlead agent upgrade` and `fairlead upgrade`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::TimeSpan;

use super::common::OutputArgs;
use crate::complete::{clusters, upgrades};

/// Upgrade of the agents of many clusters.
#[derive(Args)]
pub struct AgentUpgradeArgs {
    /// Version of the agents: that of the hub, or one of the two minor versions before it
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: String,
    /// Clusters: Kubernetes label selector over annotations and facts
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        required_unless_present_any = ["clusters", "all"],
        conflicts_with_all = ["clusters", "all"]
    )]
    pub(crate) selector: Option<String>,
    /// Cluster, by name or id; repeatable, in the order of the waves
    #[arg(long = "cluster", value_name = "NAME|ID", conflicts_with = "all", add = ArgValueCompleter::new(clusters))]
    pub(crate) clusters: Vec<String>,
    /// All clusters that you may see
    #[arg(long)]
    pub(crate) all: bool,
    /// Image of the agents [default: --image of the hub with the version as its tag]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Time for the new pods of a cluster to connect; after it the agent returns to its former image
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) ready_timeout: TimeSpan,
    /// Number of failed clusters that the upgrade tolerates before it stops
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_failed: u32,
    /// Follow the upgrade to its end, and print each change
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Longest time of --wait
    #[arg(long, value_name = "DURATION", default_value = "2h")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Subcommand)]
pub enum UpgradeArgs {
    /// List the upgrades, latest first
    #[command(visible_alias = "ls", after_help = "Example:\n  fairlead upgrade list")]
    List(OutputArgs),
    /// Show the clusters of an upgrade with their states
    #[command(
        after_help = "Examples:\n  fairlead upgrade get au-0123456789abcdef\n  fairlead upgrade get au-0123456789abcdef -w\n\nExit code 1: the upgrade has ended with failed clusters; 5: it is not done in time."
    )]
    Get(UpgradeGet),
    /// Pause an upgrade: no further cluster begins
    #[command(after_help = "Example:\n  fairlead upgrade pause au-0123456789abcdef")]
    Pause(OneUpgrade),
    /// Resume a paused upgrade
    #[command(after_help = "Example:\n  fairlead upgrade resume au-0123456789abcdef")]
    Resume(OneUpgrade),
    /// Cancel an upgrade: no further cluster begins, and clusters in progress end by themselves
    #[command(after_help = "Example:\n  fairlead upgrade cancel au-0123456789abcdef")]
    Cancel(OneUpgrade),
}

#[derive(Args)]
pub struct UpgradeGet {
    #[command(flatten)]
    pub(crate) one: OneUpgrade,
    /// Keep watching until the upgrade ends, and print each change
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Longest time of --watch
    #[arg(long, value_name = "DURATION", default_value = "2h")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub struct OneUpgrade {
    /// Id of the upgrade, from `fairlead upgrade list`
    #[arg(value_name = "UPGRADE", add = ArgValueCompleter::new(upgrades))]
    pub(crate) id: String,
}
