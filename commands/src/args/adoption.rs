//! Arguments of `fairlead adoption`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::adoption::AdoptionCode;

use super::common::OutputArgs;
use crate::{
    complete::{clusters, tenants},
    fields::display_name,
};

const APPROVE_EXAMPLES: &str = "\
The agent's log and an Event in its namespace have the code and the fingerprint of its key. Compare the fingerprint before you
approve: a box on the path could pose as the agent.

Examples:
  fairlead adoption approve 7KQX-M2VP --tenant acme --name demo
  fairlead adoption approve 7KQX-M2VP --cluster demo          # registered before, without an agent
  fairlead adoption approve 7KQX-M2VP --name demo --key 3f5a... --yes";

#[derive(Subcommand)]
pub enum AdoptionArgs {
    /// List agents that wait for their adoption, without their codes
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Approve a waiting agent, as the agent of a new cluster or of a registered one
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(ApproveArgs),
    /// Refuse a waiting agent
    Refuse {
        /// Code in the agent's log
        #[arg(value_name = "CODE")]
        code: AdoptionCode,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub struct ApproveArgs {
    /// Code in the agent's log
    #[arg(value_name = "CODE")]
    pub(crate) code: AdoptionCode,
    /// Display name of the new cluster
    #[arg(long, value_name = "NAME", value_parser = display_name, required_unless_present = "cluster")]
    pub(crate) name: Option<String>,
    /// Tenant of the new cluster [default: your own]
    #[arg(long, value_name = "ID", conflicts_with = "cluster", add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<String>,
    /// Registered cluster without an agent, by name or id
    #[arg(long, value_name = "NAME|ID", conflicts_with = "name", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Fingerprint in the agent's log; another key is refused
    #[arg(long, value_name = "SHA256")]
    pub(crate) key: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
