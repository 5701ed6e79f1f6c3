//! Arguments of the commands that list resources.

use clap::Parser;
use clap_complete::ArgValueCompleter;
use fairlead_api::TenantId;

use super::common::OutputArgs;
use crate::complete::tenants;

pub(super) const TENANT_LIST_EXAMPLES: &str = "\
Examples:
  fairlead tenant list --tenant t-acme -o name      # the tenant and its descendants
  fairlead tenant list --selector 'sla in (gold, silver)' --sort-by displayName";

#[derive(Parser)]
pub struct TenantList {
    /// Filter: this tenant and its descendants
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Filter: Kubernetes label selector over annotations
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Filter: text in id or name
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Sort key
    #[arg(long, value_name = "id|displayName")]
    pub(crate) sort_by: Option<String>,
    /// Keep watching, and print each item again when it changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl TenantList {
    /// True if the list is filtered.
    pub(crate) fn filters(&self) -> bool {
        self.tenant.is_some() || self.selector.is_some() || self.text.is_some()
    }
}

pub(super) const CLUSTER_LIST_EXAMPLES: &str = "\
Examples:
  fairlead cluster list -w
  fairlead cluster list --status Lost -o name
  fairlead cluster list --fact distribution:openshift4 --selector 'env in (prod, test)'";

#[derive(Parser)]
pub struct ClusterList {
    /// Filter: clusters of this tenant and its descendants
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Filter: clusters with this fact, as NAME or NAME:VALUE; repeatable
    #[arg(long, value_name = "FACT")]
    pub(crate) fact: Vec<String>,
    /// Filter: Kubernetes label selector over annotations and facts
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Ignore stale facts for --fact and --selector
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Filter: clusters in this state
    #[arg(long, value_name = "Never|Connected|ApiUnreachable|Lost")]
    pub(crate) status: Option<String>,
    /// Filter: text in id, name or tenant
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Filter: clusters with a component of Argo CD or Flux that is not in sync, or a problem of the last sync
    #[arg(long, conflicts_with = "watch")]
    pub(crate) out_of_sync: bool,
    /// Sort key
    #[arg(long, value_name = "id|tenant|displayName")]
    pub(crate) sort_by: Option<String>,
    /// Keep watching, and print each item again when it changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl ClusterList {
    /// True if the list is filtered.
    pub(crate) fn filters(&self) -> bool {
        let single = [&self.selector, &self.status, &self.text];
        let is_single = single.into_iter().any(Option::is_some);
        is_single || self.tenant.is_some() || !self.fact.is_empty()
    }
}

#[derive(Parser)]
pub struct TokenList {
    /// Filter: tokens of this tenant, its descendants and their clusters
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Filter: text in id or name
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
