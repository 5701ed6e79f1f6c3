//! Arguments of `fairlead ca`.

use clap::{Parser, Subcommand};

use super::common::OutputArgs;

#[derive(Subcommand)]
pub enum CaArgs {
    /// Create a new CA and announce it to the agents; no session ends
    #[command(after_help = "Example:\n  fairlead ca rotate")]
    Rotate {
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the CA, the progress of a rotation and the clusters that are behind
    #[command(after_help = "Example:\n  fairlead ca status")]
    Status(OutputArgs),
    /// Trust the old CA no longer and delete its key; refused while agents are behind
    #[command(after_help = "Example:\n  fairlead ca retire")]
    Retire(RetireArgs),
}

#[derive(Parser)]
pub struct ConfirmRestore {
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Parser)]
pub struct RetireArgs {
    /// Cut off the clusters that are behind: their agents have to enrol again
    #[arg(long)]
    pub(crate) force: bool,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
