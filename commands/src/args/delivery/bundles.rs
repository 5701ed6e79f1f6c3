//! Arguments of `fairlead bundle` and `fairlead rollback`.

use clap::{ArgGroup, Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{BundleId, TenantId, TimeSpan};

use crate::{
    args::{Apply, OutputArgs},
    complete::{bundles, tenants},
};

const APPLY_EXAMPLES: &str = "\
Examples:
  fairlead bundle get shop -o yaml > shop.yaml      # then change it, and
  fairlead bundle apply -f shop.yaml

A document has the fields of the API and an `id`. The prefix of the id, or a field `kind` (Bundle, Group, Source, Tenant,
Cluster), selects the resource. Fields that a document omits stay as they are; `null` removes a field.";

const DELETE_EXAMPLES: &str = "\
Examples:
  fairlead bundle delete shop               # the objects in the clusters stay
  fairlead bundle delete web --remove       # they are deleted";

pub(in crate::args) const ROLLBACK_EXAMPLES: &str = "\
Examples:
  fairlead rollback shop --yes
  fairlead rollback shop --to 1 --yes --wait";

#[derive(Subcommand)]
pub enum BundleArgs {
    /// List the visible bundles
    #[command(visible_alias = "ls")]
    List {
        /// Filter: bundles of this tenant and its descendants
        #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<TenantId>,
        /// Filter: text in id or tenant
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show one bundle
    Get {
        /// Id of the bundle
        #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
        id: BundleId,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the clusters of a bundle by target, and those that it cannot reach
    Plan {
        /// Id of the bundle
        #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
        id: BundleId,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create or change bundles, groups and sources from documents
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Stop releases, drift correction and retries of a bundle
    Suspend {
        /// Id of the bundle
        #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
        id: BundleId,
    },
    /// Continue releases, drift correction and retries of a bundle
    Resume {
        /// Id of the bundle
        #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
        id: BundleId,
    },
    /// Delete a bundle; its objects stay in the clusters, unless --remove is given
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(BundleDelete),
}

#[derive(Args)]
#[command(group = ArgGroup::new("objects").args(["keep", "remove"]))]
pub struct BundleDelete {
    /// Id of the bundle
    #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) id: BundleId,
    /// Keep the objects in the clusters [default]
    #[arg(long)]
    pub(crate) keep: bool,
    /// Delete the objects in all clusters
    #[arg(long)]
    pub(crate) remove: bool,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub struct RollbackArgs {
    /// Id of the bundle
    #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) id: BundleId,
    /// Generation with the content to go back to [default: the one before the newest]
    #[arg(long, value_name = "GENERATION")]
    pub(crate) to: Option<u64>,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
    /// Follow the rollout to its end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest time of --wait
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) timeout: TimeSpan,
}
