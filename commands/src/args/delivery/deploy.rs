//! Arguments of `fairlead deploy` and `fairlead diff`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use fairlead_api::{BundleId, Selector, TenantId, TimeSpan};

use crate::complete::{bundles, clusters, tenants};

pub(in crate::args) const DEPLOY_EXAMPLES: &str = "\
Examples:
  fairlead deploy ./shop --to env=prod --dry-run      # the plan alone
  fairlead deploy ./shop --to env=prod --yes --wait
  fairlead deploy ./shop --to 'env in (prod, stage)' --diff --dry-run

The folder may have a file `fairlead.yaml` with all options of a bundle (docs/delivery.md). Without --to, and without
targets in that file, the targets of the last deployment stay.";

pub(in crate::args) const DIFF_EXAMPLES: &str = "\
Examples:
  fairlead diff ./shop --cluster demo
  fairlead diff ./shop --cluster edge-1 --cluster edge-2 -o json

Exit code 0: all clusters are as in the folder; 1: at least one differs.";

/// A folder and the bundle that it is for.
#[derive(Args)]
pub(crate) struct FolderArgs {
    /// Folder with manifests or a Helm chart, or an archive of it (tar, tar.gz)
    #[arg(value_name = "DIR|ARCHIVE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// Bundle [default: name of the folder]
    #[arg(long, value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) name: Option<BundleId>,
    /// Tenant of a new bundle; it reaches clusters of this tenant and its descendants [default: your tenant]
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
}

#[derive(Args)]
pub struct DeployArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    /// Clusters: Kubernetes label selector over annotations and facts; targets in fairlead.yaml are narrowed to them
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) to: Option<Selector>,
    /// Show the plan, without a change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Compare with one connected cluster first
    #[arg(long)]
    pub(crate) diff: bool,
    /// Skip the confirmation prompt, also for removals
    #[arg(long)]
    pub(crate) yes: bool,
    /// Follow the rollout to its end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest time of --wait
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) timeout: TimeSpan,
}

#[derive(Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    /// Cluster to compare with, by name or id; repeatable
    #[arg(long = "cluster", value_name = "NAME|ID", required = true, add = ArgValueCompleter::new(clusters))]
    pub(crate) clusters: Vec<String>,
    /// Longest time to wait for the clusters
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) output: crate::args::OutputArgs,
}
