//! Arguments of the commands for access to a hub and its clusters.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{HubUrl, resources::ClusterState};
use fairlead_client::kubeconfig::ContextName;

use super::common::OutputArgs;
use crate::complete;

const KUBECONFIG_EXAMPLES: &str = "\
Examples:
  fairlead kubeconfig > fl.yaml && kubectl --kubeconfig fl.yaml config get-contexts
  fairlead kubeconfig --merge                               # into ~/.kube/config, with a backup beside it
  fairlead kubeconfig --cluster demo --context-name demo --output demo.yaml

A context is named NAME@HUB, like demo@hub.example.com. The cluster's id replaces a display name that is not unique on the
hub or looks like an id. A cluster has the same name in every form of this command.";

#[derive(Parser)]
#[command(after_help = KUBECONFIG_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Kubeconfig {
    #[command(subcommand)]
    pub(crate) command: Option<KubeconfigCommand>,
    /// Cluster to include, by id or name; repeatable [default: all clusters]
    #[arg(long = "cluster", value_name = "NAME|ID", add = ArgValueCompleter::new(complete::clusters))]
    pub(crate) clusters: Vec<String>,
    /// Form of the clusters' server URLs [default: name if the hub's certificate covers it, else path]
    #[arg(long, value_enum)]
    pub(crate) address: Option<KubeconfigAddress>,
    /// Template for context names, with {name}, {id}, {tenant} and {hub}
    #[arg(long, value_name = "TEMPLATE", default_value = ContextName::DEFAULT)]
    pub(crate) context_name: ContextName,
    /// File to write, readable by its owner only (0600), or - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Merge into the file and keep its other entries [default file: the first of $KUBECONFIG, else ~/.kube/config]
    #[arg(long)]
    pub(crate) merge: bool,
    /// Make the cluster the current context; requires --merge and one cluster
    #[arg(long, requires = "merge")]
    pub(crate) set_current: bool,
    /// Let kubectl run `fairlead credential` for each token [default after a sign-in through an issuer]
    #[arg(long)]
    pub(crate) exec: bool,
    /// Replace a file with other entries without confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum KubeconfigCommand {
    /// Add, rename and remove the hub's contexts in a file; contexts of others stay
    #[command(after_help = SYNC_EXAMPLES)]
    Sync(KubeconfigSync),
}

const SYNC_EXAMPLES: &str = "\
Example:
  fairlead kubeconfig sync                                  # ~/.kube/config, or the first of $KUBECONFIG

Only contexts that this command made are renamed or removed. The current context and the mode of the file stay.";

#[derive(Parser)]
pub(crate) struct KubeconfigSync {
    /// File to change [default: the first of $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Template for context names, with {name}, {id}, {tenant} and {hub}
    #[arg(long, value_name = "TEMPLATE", default_value = ContextName::DEFAULT)]
    pub(crate) context_name: ContextName,
    /// Let kubectl run `fairlead credential` for each token [default after a sign-in through an issuer]
    #[arg(long)]
    pub(crate) exec: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KubeconfigAddress {
    /// Path /k8s/clusters/<id>/ on the hub; works with every load balancer
    Path,
    /// Host <id>.<cluster domain> as TLS server name; for tools that ignore the path of a server URL
    Name,
}

const LOGIN_EXAMPLES: &str = "\
Examples:
  fairlead login https://hub.example.com                        # signs in with the browser
  fairlead login https://hub.example.com --device               # with a browser on another machine
  fairlead login https://hub.example.com --token-file admin.token
  pass show hub-token | fairlead login https://hub.example.com --token-file -

The commands connect to the hub of the last login; `fairlead hub use URL` selects another one.";

#[derive(Parser)]
#[command(after_help = LOGIN_EXAMPLES)]
pub struct Login {
    /// URL of the hub, like https://hub.example.com
    #[arg(value_name = "URL")]
    pub(crate) url: HubUrl,
    /// File with the token, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Prompt for a token on the terminal [default for a hub without issuers]
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token: bool,
    /// Issuer to sign in through, by its name on the hub; required where there are several
    #[arg(long, value_name = "NAME", conflicts_with_all = ["token", "token_file"])]
    pub(crate) issuer: Option<String>,
    /// Enter a code in a browser of any machine (RFC 8628) [default without a display]
    #[arg(long, conflicts_with_all = ["token", "token_file"])]
    pub(crate) device: bool,
    /// Print the address instead of opening a browser
    #[arg(long, conflicts_with_all = ["token", "token_file", "device"])]
    pub(crate) no_browser: bool,
    /// CA of the hub's certificate, PEM, if it is not a public CA [default: the CA of the last login there]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

const CREDENTIAL_EXAMPLES: &str = "\
Example:
  fairlead credential --hub https://hub.example.com
  fairlead credential --hub https://hub.example.com --issuer-token-file ci.jwt

A kubeconfig of `fairlead kubeconfig` runs it, so that the file holds no token. The hub is one of `fairlead hub list`.";

/// Arguments of `fairlead credential`.
#[derive(Parser)]
#[command(after_help = CREDENTIAL_EXAMPLES)]
pub struct Credential {
    /// URL of the hub
    #[arg(long, value_name = "URL", add = ArgValueCompleter::new(complete::hubs))]
    pub(crate) hub: HubUrl,
    /// File with a token of a CI's issuer, to exchange it at the hub [default: FAIRLEAD_ISSUER_TOKEN_FILE, FAIRLEAD_ISSUER_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub(crate) issuer_token_file: Option<PathBuf>,
}

#[derive(Parser)]
pub struct Logout {
    /// URL of the hub [default: the current hub]
    #[arg(value_name = "URL", add = ArgValueCompleter::new(complete::hubs))]
    pub(crate) url: Option<HubUrl>,
}

#[derive(Subcommand)]
pub enum HubsArgs {
    /// List all hubs; the current hub has a *
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Select the current hub
    Use {
        /// URL of the hub
        #[arg(value_name = "URL", add = ArgValueCompleter::new(complete::hubs))]
        url: HubUrl,
    },
}

pub(super) fn cluster_state(text: &str) -> Result<ClusterState, String> {
    let all = [
        ClusterState::Never,
        ClusterState::Connected,
        ClusterState::ApiUnreachable,
        ClusterState::Lost,
    ];
    let mut named = all.into_iter();
    let found = named.find(|it| it.to_string().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "expected Never, Connected, ApiUnreachable or Lost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_in_any_case() {
        assert_eq!(
            cluster_state("apiunreachable"),
            Ok(ClusterState::ApiUnreachable)
        );
        assert!(cluster_state("ready").is_err());
    }
}
