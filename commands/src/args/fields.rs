//! Arguments of the commands that create and change clusters and tenants.

use clap::Parser;
use clap_complete::ArgValueCompleter;

use super::common::{OutputArgs, SiteArgs};
use crate::{
    complete::{clusters, tenants},
    fields::{ClusterFields, display_name},
};

#[derive(Parser)]
#[command(
    after_help = "A tenant has one cluster of each name; --allow-duplicate-name lifts that.\n\nExamples:\n  fairlead cluster create demo --wait\n  fairlead cluster create edge-7 --tenant t-acme -o json | jq -r .agentInstallURL"
)]
pub struct NewCluster {
    /// Display name, also used in context names
    #[arg(value_parser = display_name)]
    pub(crate) name: String,
    /// Id of the cluster [default: generated]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Tenant that owns the cluster, by id [default: your tenant, else t-default]
    #[arg(long, value_name = "TENANT", add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<String>,
    /// Management of the catalog's repository: auto, or unmanaged
    #[arg(long, value_name = "auto|unmanaged")]
    pub(crate) git_repo_type: Option<String>,
    #[command(flatten)]
    pub(crate) fields: Box<ClusterFields>,
    /// Allow a name that another cluster of the tenant has
    #[arg(long)]
    pub(crate) allow_duplicate_name: bool,
    #[command(flatten)]
    pub(crate) site: SiteArgs,
    /// Wait until kubectl works, and show each step
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest time to wait
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30m",
        requires = "wait"
    )]
    pub(crate) timeout: fairlead_api::TimeSpan,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead cluster set demo --delete-protection --fact region=eu-1 --fact zone-\n  fairlead cluster set demo --deletion-policy Retain --name prod"
)]
pub struct SetCluster {
    /// Cluster, by name or id
    #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: String,
    /// New display name
    #[arg(long = "name", value_name = "NAME", value_parser = display_name)]
    pub(crate) new_name: Option<String>,
    /// Allow a name that another cluster of the tenant has
    #[arg(long, requires = "new_name")]
    pub(crate) allow_duplicate_name: bool,
    #[command(flatten)]
    pub(crate) fields: Box<ClusterFields>,
    /// Validate on the hub and show the changes, without making them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}
