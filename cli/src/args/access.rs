//! Arguments of the commands that give access to a hub and to its clusters.

use std::path::PathBuf;

use clap::Parser;
use clap_complete::ArgValueCompleter;
use fairlead_api::HubUrl;

use crate::{complete, kubeconfig::ContextName};

const KUBECONFIG_EXAMPLES: &str = "\
Examples:
  fairlead kubeconfig > fl.yaml && kubectl --kubeconfig fl.yaml config get-contexts
  fairlead kubeconfig --merge                               # into ~/.kube/config, with a backup beside it
  fairlead kubeconfig --cluster demo --context-name demo --output demo.yaml

A context is named NAME@HUB, like demo@hub.example.com. Where a display name is not unique on the hub, or looks like an
id, its place is taken by the cluster's id. The same cluster has the same name in every form of this command.";

#[derive(Parser)]
#[command(after_help = KUBECONFIG_EXAMPLES)]
pub(crate) struct Kubeconfig {
    /// Only this cluster, by id or name; repeatable
    #[arg(long = "cluster", value_name = "NAME|ID", add = ArgValueCompleter::new(complete::clusters))]
    pub(crate) clusters: Vec<String>,
    /// How to name clusters towards the hub [default: name where its certificate covers that, else path]
    #[arg(long, value_enum)]
    pub(crate) address: Option<Address>,
    /// Names of contexts, of {name}, {id}, {tenant} and {hub}
    #[arg(long, value_name = "TEMPLATE", default_value = ContextName::DEFAULT)]
    pub(crate) context_name: ContextName,
    /// Write this file, readable by its owner alone (0600); - for standard output
    #[arg(long, value_name = "F")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the other entries of the file [default file: the first of $KUBECONFIG, else ~/.kube/config]
    #[arg(long)]
    pub(crate) merge: bool,
    /// With --merge of one cluster: make it the current context
    #[arg(long, requires = "merge")]
    pub(crate) set_current: bool,
    /// Do not ask before a file with other entries is replaced
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Address {
    /// /k8s/clusters/<id>/ on the hub: passes every load balancer
    Path,
    /// <id>.<cluster domain> as TLS server name: for tools that drop a server's path
    Name,
}

#[derive(Parser)]
pub(crate) struct Login {
    /// The hub, like https://hub.example.com
    #[arg(value_name = "URL")]
    pub(crate) url: HubUrl,
    /// File that holds the token
    #[arg(long, value_name = "F")]
    pub(crate) token_file: PathBuf,
    /// CA of the hub's front, PEM, where the web's own does not do
    #[arg(long, value_name = "F")]
    pub(crate) ca_file: Option<PathBuf>,
}
