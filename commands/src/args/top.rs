//! Flags of `fairlead top`.

use clap::Args;
use clap_complete::ArgValueCompleter;
use fairlead_api::{TenantId, TimeSpan};

use super::common::OutputArgs;
use crate::complete::tenants;

pub(super) const TOP_EXAMPLES: &str = "Keys:
  n s v p r i o   sort by name, state, version, round trip, requests, bytes in, bytes out; again to reverse
  /               filter by name, tenant or state; Enter ends, Escape removes the filter
  q               quit

Examples:
  fairlead top
  fairlead top --once -o json --tenant acme";

#[derive(Args)]
pub struct TopArgs {
    /// Print the table once, after one interval; so does an output that is no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two measurements
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) interval: TimeSpan,
    /// Filter: clusters of this tenant and its descendants
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Filter: text in id, name or tenant
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
