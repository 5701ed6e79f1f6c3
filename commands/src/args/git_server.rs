//! Arguments of `fairlead git-server`.

use clap::{Parser, Subcommand};

use super::common::OutputArgs;

#[derive(Subcommand)]
pub enum GitServerArgs {
    /// List the Git servers of the hub's settings, with their host keys
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  fairlead git-server list"
    )]
    List(OutputArgs),
    /// Read the host keys that a Git server shows now, unconfirmed
    #[command(after_help = "Example:\n  fairlead git-server scan git.example")]
    Scan {
        /// Name in the hub's settings
        server: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Confirm host keys for repositories without own ones
    #[command(
        after_help = "Example:\n  fairlead git-server confirm git.example --fingerprint SHA256:cJ6AyISHokEeHuTfufIqhhSS0gxHZRUMDHlKvXD4FHw"
    )]
    Confirm(ConfirmKeysArgs),
    /// List repositories of deleted tenants and clusters that wait for their Git server
    #[command(after_help = "Example:\n  fairlead git-server retired")]
    Retired(OutputArgs),
    /// Keep a repository of a deleted tenant or cluster unchanged
    #[command(after_help = "Example:\n  fairlead git-server keep c-edge.4711")]
    Keep {
        /// Id in the list of retired repositories
        id: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Parser)]
pub struct ConfirmKeysArgs {
    /// Name in the hub's settings
    pub(crate) server: String,
    /// Fingerprint that the operator of the Git server has published; repeatable
    #[arg(long = "fingerprint", value_name = "SHA256:...", required = true)]
    pub(crate) fingerprints: Vec<String>,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
