//! Flags of commands that open TCP connections into clusters.

use std::net::SocketAddr;

use clap::Args;
use clap_complete::ArgValueCompleter;

use crate::complete::clusters;

pub(super) const FORWARD_EXAMPLES: &str = "Addresses:
  HOST:PORT                    from 127.0.0.1, with the same port
  LOCAL:HOST:PORT              from 127.0.0.1, with the port LOCAL; 0 for a free one
  ADDRESS:LOCAL:HOST:PORT      from this address; [::1] is one, too

The site operator allows addresses with `--allow-connect` of the agent. You need the role tcp or admin.

Examples:
  fairlead forward demo 15432:db.shop:5432
  fairlead forward demo 0:db.shop:5432 18080:web.shop:80";

pub(super) const NC_EXAMPLES: &str = "Standard input goes to the address, and its answer to standard output. The end of one direction leaves the other open.

Examples:
  fairlead nc web.shop:80 --cluster demo < request.txt
  ssh -o ProxyCommand='fairlead nc %h:%p --cluster demo' git@git.shop";

pub(super) const PROXY_EXAMPLES: &str = "Programs use it as a proxy of SOCKS5 (`socks5h://127.0.0.1:1080`) or HTTP (`http://127.0.0.1:1080`, by CONNECT). Names are resolved in the cluster.

Examples:
  fairlead proxy demo --listen 127.0.0.1:11080";

#[derive(Args)]
pub struct ForwardArgs {
    /// Id or name of the cluster
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: String,
    /// Address in the cluster, and the local one before it
    #[arg(value_name = "[LOCAL:]HOST:PORT", required = true)]
    pub(crate) forwards: Vec<String>,
    /// Allow local addresses that other machines reach; each of their users gets your access
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

#[derive(Args)]
pub struct NcArgs {
    /// Address in the cluster: HOST:PORT, or HOST and PORT
    #[arg(value_name = "HOST:PORT", required = true, num_args = 1..=2)]
    pub(crate) target: Vec<String>,
    /// Id or name of the cluster
    #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: String,
}

#[derive(Args)]
pub struct ProxyArgs {
    /// Id or name of the cluster
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: String,
    /// Local address of the proxy; port 0 for a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:1080")]
    pub(crate) listen: SocketAddr,
    /// Allow a local address that other machines reach; each of their users gets your access
    #[arg(long)]
    pub(crate) allow_remote: bool,
}
