//! Arguments shared by several commands.

use clap_complete::ArgValueCompleter;
use fairlead_api::site::{
    DeliveryRights, GitProxyTarget, ImpersonationMode, OperatorNamespace, SiteChoices,
};

use crate::{complete, output::OutputFormat};

/// Output format of an answer.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Output format: table, wide, json, yaml, name (ids), jsonpath='{.items[*].id}' or custom-columns=ID:.id
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        add = ArgValueCompleter::new(complete::formats)
    )]
    pub output: OutputFormat,
}

/// Choices of the site operator about the rights of the hub's users.
#[derive(clap::Args)]
pub struct SiteArgs {
    /// Namespaces in which operators get the ClusterRole edit, separated by commas; the namespaces must exist [default: none]
    #[arg(long, value_name = "NAMESPACE,...", value_delimiter = ',')]
    pub(crate) operator_namespaces: Vec<OperatorNamespace>,
    /// Impersonation of the agent: plain, or constrained for Kubernetes 1.36 and later
    #[arg(long, value_name = "plain|constrained", default_value_t)]
    pub(crate) impersonation: ImpersonationMode,
    /// Rights of deliveries in the cluster: admin, or none for a cluster without deliveries
    #[arg(long, value_name = "admin|none", default_value_t)]
    pub(crate) delivery: DeliveryRights,
    /// Git server that the agent lets the GitOps tool reach through the hub, like git.example.com:22 [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) git_proxy: Option<GitProxyTarget>,
}

impl SiteArgs {
    pub(crate) fn choices(&self) -> SiteChoices {
        SiteChoices {
            operator_namespaces: self.operator_namespaces.clone(),
            impersonation: self.impersonation,
            delivery: self.delivery,
            git_proxy: self.git_proxy.clone(),
        }
    }
}

/// Data of a hub on this machine.
#[derive(clap::Args)]
pub struct HubPlace {
    /// Folder of the hub's store and keys
    #[arg(long, value_name = "DIR", default_value = "/var/lib/fairlead")]
    pub data: std::path::PathBuf,
    /// Database of the store, as for `fairlead server` [default: a file in the data folder]
    #[arg(long, value_name = "URL", env = "FAIRLEAD_STORE")]
    pub store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub store_password_file: Option<std::path::PathBuf>,
}
