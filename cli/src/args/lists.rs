//! Arguments of the commands that list things.

use clap::Parser;
use clap_complete::ArgValueCompleter;
use fairlead_api::TenantId;

use super::Output;
use crate::complete::tenants;

pub(super) const TENANT_LIST_EXAMPLES: &str = "\
Examples:
  fairlead tenant list --tenant t-acme -o name      # it, and all below it
  fairlead tenant list --selector 'sla in (gold, silver)' --sort-by displayName";

#[derive(Parser)]
pub(crate) struct TenantList {
    /// This one and all below it only
    #[arg(long, value_name = "T", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Label selector, as kubectl's, over annotations
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// With this in id or name
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// By what they are sorted
    #[arg(long, value_name = "id|displayName")]
    pub(crate) sort_by: Option<String>,
    /// Go on, and print those again of which something is another
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl TenantList {
    /// Whether there may be some that it leaves out.
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
pub(crate) struct ClusterList {
    /// Of this tenant and of those below it only
    #[arg(long, value_name = "T", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// With this fact, as NAME or NAME:VALUE; repeatable
    #[arg(long, value_name = "FACT")]
    pub(crate) fact: Vec<String>,
    /// Label selector, as kubectl's, over annotations and facts
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// For --fact and --selector, facts whose source has stopped reporting do not count
    #[arg(long)]
    pub(crate) fresh: bool,
    /// In this state
    #[arg(long, value_name = "Never|Connected|ApiUnreachable|Lost")]
    pub(crate) status: Option<String>,
    /// With this in id, name or tenant
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// By what they are sorted
    #[arg(long, value_name = "id|tenant|displayName")]
    pub(crate) sort_by: Option<String>,
    /// Go on, and print those again of which something is another
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl ClusterList {
    /// Whether there may be some that it leaves out.
    pub(crate) fn filters(&self) -> bool {
        let single = [&self.selector, &self.status, &self.text];
        let is_single = single.into_iter().any(Option::is_some);
        is_single || self.tenant.is_some() || !self.fact.is_empty()
    }
}

#[derive(Parser)]
pub(crate) struct TokenList {
    /// Of this tenant, of those below it and of their clusters only
    #[arg(long, value_name = "T", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// With this in id or name
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}
