//! Arguments of `fairlead group`.

use clap::Subcommand;
use clap_complete::ArgValueCompleter;
use fairlead_api::{GroupId, Selector, TenantId};

use crate::{
    args::{Apply, OutputArgs},
    complete::{groups, tenants},
};

const SET_EXAMPLES: &str = "\
Example:
  fairlead group set edge --selector site=edge";

#[derive(Subcommand)]
pub enum GroupArgs {
    /// List the visible groups with the number of their clusters
    #[command(visible_alias = "ls")]
    List {
        /// Filter: groups of this tenant and its descendants
        #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<TenantId>,
        /// Filter: text in id or tenant
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show one group
    Get {
        /// Id of the group
        #[arg(value_name = "GROUP", value_parser = GroupId::from_name, add = ArgValueCompleter::new(groups))]
        id: GroupId,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a group, or change its selector
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Id of the group
        #[arg(value_name = "GROUP", value_parser = GroupId::from_name, add = ArgValueCompleter::new(groups))]
        id: GroupId,
        /// Members: Kubernetes label selector over annotations and facts
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Selector,
        /// Tenant of a new group; members are clusters of this tenant and its descendants [default: your tenant]
        #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<TenantId>,
        /// Skip the confirmation prompt for clusters that lose a bundle
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create or change groups, bundles and sources from documents
    Apply(Apply),
    /// Delete a group; its clusters stay
    Delete {
        /// Id of the group
        #[arg(value_name = "GROUP", value_parser = GroupId::from_name, add = ArgValueCompleter::new(groups))]
        id: GroupId,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}
