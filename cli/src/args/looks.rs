//! Arguments of the commands that look at what was compiled, desired, changed and found.

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;

use super::Output;
use crate::complete::{clusters, tenants};

const COMPILED_EXAMPLES: &str = "\
Examples:
  fairlead cluster compiled --component argocd --below v6.1.0
  fairlead cluster compiled --stale-days 7 -o name";

#[derive(Parser)]
#[command(after_help = COMPILED_EXAMPLES)]
pub(crate) struct Compiled {
    /// Instances of this component only
    #[arg(long, value_name = "NAME")]
    pub(crate) component: Option<String>,
    /// In a version below this one
    #[arg(long, value_name = "VERSION", requires = "component")]
    pub(crate) below: Option<String>,
    /// Only what was not compiled for so many days
    #[arg(long, value_name = "N")]
    pub(crate) stale_days: Option<u32>,
    /// Of this tenant and of those below it only
    #[arg(long, value_name = "T", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Subcommand)]
pub(crate) enum ClusterCatalog {
    /// Show it
    Get {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Put other objects in its place
    Set {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// File of Kubernetes objects in YAML or JSON, a folder of such files, or - for standard input; repeatable
        #[arg(short, long = "filename", value_name = "F", required = true)]
        files: Vec<std::path::PathBuf>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: Output,
    },
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  fairlead audit --cluster demo
  fairlead audit --actor ann --limit 20 -o json";

#[derive(Parser)]
#[command(after_help = AUDIT_EXAMPLES)]
pub(crate) struct Audit {
    /// Of this cluster only; by its id also where it was deleted
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Of this tenant, of those below it and of their clusters only
    #[arg(long, value_name = "T", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    /// By this one only, as the column BY has it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Of earlier revisions only, to go on where an answer ended
    #[arg(long, value_name = "REVISION")]
    pub(crate) before: Option<u64>,
    /// How many lines, 1 to 1000; the change of the last one is shown whole
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

const INVENTORY_EXAMPLES: &str = "\
Examples:
  fairlead inventory query \"SELECT LAST(count) FROM nodes GROUP BY cluster\"
  fairlead inventory query \"SELECT * FROM nodes WHERE time > now() - 7d\" --backend influxdb -o json
  fairlead inventory store demo -f found.yaml";

#[derive(Subcommand)]
#[command(after_help = INVENTORY_EXAMPLES)]
pub(crate) enum Inventory {
    /// Ask in a part of InfluxQL what facts were (docs/facts.md)
    Query {
        query: String,
        /// Who answers [default: as the platform operator has chosen]
        #[arg(long, value_name = "hub|influxdb", value_parser = ["hub", "influxdb"])]
        backend: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Make a fact of each entry of a document; null removes one
    Store {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        cluster: String,
        /// File with the document in YAML or JSON, or - for standard input
        #[arg(short, long = "filename", value_name = "F")]
        file: std::path::PathBuf,
    },
}
