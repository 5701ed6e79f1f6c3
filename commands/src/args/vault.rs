//! Arguments of `fairlead vault`.

use clap::Subcommand;

use super::common::OutputArgs;

#[derive(Subcommand)]
pub enum VaultArgs {
    /// List the access of deleted and moved clusters that Vault has not removed yet
    #[command(after_help = "Example:\n  fairlead vault retired")]
    Retired(OutputArgs),
    /// Keep the access of a deleted or moved cluster unchanged in Vault
    #[command(after_help = "Example:\n  fairlead vault keep c-edge.4711")]
    Keep {
        /// Id in the list of retired access
        id: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}
