//! Arguments with which clusters and tenants are made and changed.

use clap::Parser;
use clap_complete::ArgValueCompleter;

use super::{Output, access::display_name};
use crate::complete::{clusters, tenants};

#[derive(Parser)]
#[command(
    after_help = "A tenant has one cluster of each name; --allow-duplicate-name lifts that.\n\nExamples:\n  fairlead cluster create demo --wait\n  fairlead cluster create edge-7 --tenant t-acme -o json | jq -r .agentInstallURL"
)]
pub(crate) struct NewCluster {
    /// Shown to people and used in context names
    #[arg(value_parser = display_name)]
    pub(crate) name: String,
    /// Its id [default: made up]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Owner, by id [default: your tenant, else t-default]
    #[arg(long, value_name = "T", add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<String>,
    /// Who looks after its catalog's repository: auto, or unmanaged for nobody
    #[arg(long, value_name = "auto|unmanaged")]
    pub(crate) git_repo_type: Option<String>,
    #[command(flatten)]
    pub(crate) fields: Box<ClusterFields>,
    /// Take a name that another cluster of the tenant has
    #[arg(long)]
    pub(crate) allow_duplicate_name: bool,
    /// Wait until kubectl works, showing each step
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "30m", requires = "wait")]
    pub(crate) timeout: fairlead_runtime::config::Span,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead cluster set demo --delete-protection --fact region=eu-1 --fact zone-\n  fairlead cluster set demo --deletion-policy Retain --name prod"
)]
pub(crate) struct SetCluster {
    #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: String,
    /// Another name to show to people
    #[arg(long = "name", value_name = "NAME", value_parser = display_name)]
    pub(crate) new_name: Option<String>,
    /// Take a name that another cluster of the tenant has
    #[arg(long, requires = "new_name")]
    pub(crate) allow_duplicate_name: bool,
    #[command(flatten)]
    pub(crate) fields: Box<ClusterFields>,
    /// Show what would change, as the hub judges it, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Fields of a cluster.
#[derive(clap::Args)]
pub(crate) struct ClusterFields {
    /// Fact that people tell; NAME- takes it away; repeatable
    #[arg(long = "fact", value_name = "NAME=VALUE")]
    pub(crate) facts: Vec<String>,
    /// Likewise
    #[arg(long = "annotation", value_name = "NAME=VALUE")]
    pub(crate) annotations: Vec<String>,
    /// Whether what is outside (its repository) is made with it or is there already
    #[arg(long, value_name = "Create|Adopt")]
    pub(crate) creation_policy: Option<String>,
    /// What becomes of that when it is deleted
    #[arg(long, value_name = "Delete|Retain|Archive")]
    pub(crate) deletion_policy: Option<String>,
    /// Refuse to delete it; =false lifts that
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) delete_protection: Option<bool>,
    /// Its API server, as https://host:port
    #[arg(long, value_name = "URL")]
    pub(crate) kube_api: Option<String>,
    /// What the credentials for that are called where they are kept; never their value
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) kube_api_credentials: Option<String>,
    /// Repository of its catalog
    #[arg(long, value_name = "URL")]
    pub(crate) git_repo: Option<String>,
    /// Lines of known_hosts for it, or @FILE that holds them
    #[arg(long, value_name = "KEYS|@FILE")]
    pub(crate) git_host_keys: Option<String>,
    /// Revision of the tenant's repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) tenant_revision: Option<String>,
    /// Revision of the global repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) global_revision: Option<String>,
}

/// Fields of a tenant.
#[derive(clap::Args)]
pub(crate) struct TenantFields {
    /// Another name to show to people
    #[arg(long = "name", value_name = "NAME", value_parser = display_name)]
    pub(crate) name: Option<String>,
    /// The tenant above it, whose people see its clusters too; "" for none
    #[arg(long, value_name = "T", add = ArgValueCompleter::new(tenants))]
    pub(crate) parent: Option<String>,
    /// Annotation; NAME- takes it away; repeatable
    #[arg(long = "annotation", value_name = "NAME=VALUE")]
    pub(crate) annotations: Vec<String>,
    /// Its repository
    #[arg(long, value_name = "URL")]
    pub(crate) git_repo: Option<String>,
    /// Lines of known_hosts for it, or @FILE that holds them
    #[arg(long, value_name = "KEYS|@FILE")]
    pub(crate) git_host_keys: Option<String>,
    /// Revision of it to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) git_revision: Option<String>,
    /// The global repository
    #[arg(long, value_name = "URL")]
    pub(crate) global_git_repo: Option<String>,
    /// Revision of the global repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) global_revision: Option<String>,
}
