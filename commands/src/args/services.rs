//! Arguments of `fairlead service`.

use clap::{ArgGroup, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::resources::ServiceName;

use super::common::OutputArgs;
use crate::complete::clusters;

const CREATE_EXAMPLES: &str = "The hub listens for the service, and connects its clients to the target. The site operator allows the target with \
`--allow-connect` of the agent. `--from 0.0.0.0/0,::/0` admits clients from everywhere.

Examples:
  fairlead service create shop-db --cluster demo --target db.shop:5432 --port 20000 --from 10.0.0.0/8
  fairlead service create shop --cluster demo --target web.shop:80 --http-host shop.apps.example.com --from 10.0.0.0/8 --callers
  fairlead service create vpn --cluster demo --target web.shop:443 --https-host vpn.apps.example.com --from 192.0.2.0/24";

#[derive(Subcommand)]
pub enum ServiceArgs {
    /// List the named services of the visible clusters
    #[command(visible_alias = "ls")]
    List {
        /// Filter: services of this cluster, by id or name
        #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
        cluster: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a named service, or replace one; you need the role admin
    #[command(after_help = CREATE_EXAMPLES, group = ArgGroup::new("entry").required(true))]
    Create {
        /// Name of the service: lower-case letters, digits and inner dashes
        #[arg(value_name = "NAME")]
        name: ServiceName,
        /// Id or name of the cluster
        #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
        cluster: String,
        /// Address in the cluster
        #[arg(long, value_name = "HOST:PORT")]
        target: String,
        /// Port of the hub, within its `--service-ports`
        #[arg(long, value_name = "PORT", group = "entry")]
        port: Option<u16>,
        /// Host name at the hub, below its `--service-domain`; the hub ends TLS
        #[arg(long, value_name = "HOST", group = "entry")]
        http_host: Option<String>,
        /// Server name at the hub, below its `--service-domain`; the target ends TLS
        #[arg(long, value_name = "HOST", group = "entry")]
        https_host: Option<String>,
        /// Networks of clients, separated by commas
        #[arg(long, value_name = "NETWORK", required = true, value_delimiter = ',')]
        from: Vec<String>,
        /// Require a token of the hub with the role tcp for the cluster; with `--http-host` only
        #[arg(long, requires = "http_host")]
        callers: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a named service; its connections end within seconds
    #[command(after_help = "Example:\n  fairlead service delete shop-db --yes")]
    Delete {
        /// Name of the service
        #[arg(value_name = "NAME")]
        name: ServiceName,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}
