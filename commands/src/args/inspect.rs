//! Arguments of the commands for catalogs, compilations, the audit log and the inventory.

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;

use super::{common::OutputArgs, registry::OneCluster};
use crate::complete::{clusters, tenants};

const COMPILED_EXAMPLES: &str = "\
Examples:
  fairlead cluster compiled --component argocd --below v6.1.0
  fairlead cluster compiled --stale-days 7 -o name";

#[derive(Parser)]
#[command(after_help = COMPILED_EXAMPLES)]
pub struct Compiled {
    /// Filter: instances of this component
    #[arg(long, value_name = "NAME")]
    pub(crate) component: Option<String>,
    /// Filter: versions lower than this one
    #[arg(long, value_name = "VERSION", requires = "component")]
    pub(crate) below: Option<String>,
    /// Filter: clusters without a compilation for this number of days
    #[arg(long, value_name = "N")]
    pub(crate) stale_days: Option<u32>,
    /// Filter: clusters of this tenant and its descendants
    #[arg(long, value_name = "TENANT", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Subcommand)]
pub enum ClusterCatalog {
    /// Show the catalog of a cluster
    Get {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the state of the components that Argo CD or Flux apply: revisions, sync, health
    #[command(after_help = "Example:\n  fairlead cluster catalog status demo")]
    Status(OneCluster),
    /// Replace the catalog of a cluster
    Set {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// File of Kubernetes objects in YAML or JSON, a folder of such files, or - for standard input; repeatable
        #[arg(short, long = "filename", value_name = "FILE", required = true)]
        files: Vec<std::path::PathBuf>,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  fairlead audit --cluster demo
  fairlead audit --actor ann --limit 20 -o json
  fairlead audit requests --cluster demo --since 24h
  fairlead audit verify /var/lib/fairlead/audit";

#[derive(Parser)]
#[command(after_help = AUDIT_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Audit {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    /// Filter: changes of this cluster; a deleted cluster is found by its id
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Filter: changes of this tenant, its descendants and their clusters
    #[arg(long, value_name = "TENANT", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    /// Filter: changes by this author, as in column BY
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Filter: changes before this revision, to continue an earlier list
    #[arg(long, value_name = "REVISION")]
    pub(crate) before: Option<u64>,
    /// Number of entries, 1 to 1000; the last change is always complete
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const REQUESTS_EXAMPLES: &str = "\
Examples:
  fairlead audit requests --cluster demo --verb create --since 24h
  fairlead audit requests --caller ann -o json";

const VERIFY_EXAMPLES: &str = "\
Examples:
  fairlead audit verify /var/lib/fairlead/audit
  fairlead audit verify /var/lib/fairlead/audit --heads hub.log";

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List requests that the hub served, with their callers
    Requests(AuditRequests),
    /// Check the hash chain of an audit log on this machine
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// Folder of the log: audit in the data folder of a hub, or a copy of it
        #[arg(value_name = "DIR")]
        dir: std::path::PathBuf,
        /// File with earlier hashes: the hub's own log, or lines of the audit log as delivered elsewhere; repeatable
        #[arg(long, value_name = "FILE")]
        heads: Vec<std::path::PathBuf>,
    },
}

#[derive(Parser)]
#[command(after_help = REQUESTS_EXAMPLES)]
pub(crate) struct AuditRequests {
    /// Filter: requests of this caller, as in column CALLER
    #[arg(long, value_name = "NAME")]
    pub(crate) caller: Option<String>,
    /// Filter: requests to this cluster; a deleted cluster is found by its id
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Filter: requests with this verb, like create
    #[arg(long, value_name = "VERB")]
    pub(crate) verb: Option<String>,
    /// Filter: the request with this id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Filter: requests of the last time, like 24h
    #[arg(long, value_name = "DURATION")]
    pub(crate) since: Option<fairlead_api::TimeSpan>,
    /// Stage of the events
    #[arg(long, value_name = "start|end", value_parser = ["start", "end"], default_value = "end")]
    pub(crate) stage: String,
    /// Number of events, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const RECORDING_EXAMPLES: &str = "\
Examples:
  fairlead recording list /var/lib/fairlead/audit/recordings
  fairlead recording play FILE --identity auditor.key";

#[derive(Subcommand)]
#[command(after_help = RECORDING_EXAMPLES)]
pub enum RecordingArgs {
    /// List the recordings in a folder on this machine
    #[command(visible_alias = "ls")]
    List {
        /// Folder: audit/recordings in the data folder of a hub, or a copy of it
        #[arg(value_name = "DIR")]
        dir: std::path::PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Play a recording on this terminal
    Play {
        /// Recording
        #[arg(value_name = "FILE")]
        file: std::path::PathBuf,
        /// Identity file of age-keygen that opens the recording
        #[arg(long, value_name = "FILE")]
        identity: std::path::PathBuf,
        /// Print the asciicast itself, for asciinema
        #[arg(long)]
        cast: bool,
    },
}

const INVENTORY_EXAMPLES: &str = "\
Examples:
  fairlead inventory query \"SELECT LAST(count) FROM nodes GROUP BY cluster\"
  fairlead inventory query \"SELECT * FROM nodes WHERE time > now() - 7d\" --backend influxdb -o json
  fairlead inventory store demo -f found.yaml";

#[derive(Subcommand)]
#[command(after_help = INVENTORY_EXAMPLES)]
pub enum InventoryArgs {
    /// Query the history of facts in a subset of InfluxQL (docs/facts.md)
    Query {
        /// Query, like "SELECT * FROM nodes"
        query: String,
        /// Backend that answers the query [default: as configured on the hub]
        #[arg(long, value_name = "hub|influxdb", value_parser = ["hub", "influxdb"])]
        backend: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Store each entry of a document as a fact; null removes a fact
    Store {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        cluster: String,
        /// File with the document in YAML or JSON, or - for standard input
        #[arg(short, long = "filename", value_name = "FILE")]
        file: std::path::PathBuf,
    },
}
