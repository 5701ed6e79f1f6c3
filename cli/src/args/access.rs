//! Arguments of the commands that give access to a hub and to its clusters.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{HubUrl, resources::ClusterState};

use super::Output;
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

const LOGIN_EXAMPLES: &str = "\
Examples:
  fairlead login https://hub.example.com                        # asks for the token
  fairlead login https://hub.example.com --token-file admin.token
  pass show hub-token | fairlead login https://hub.example.com --token-file -

The commands talk to the hub of the last login; `fairlead hub use URL` chooses another one.";

#[derive(Parser)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct Login {
    /// The hub, like https://hub.example.com
    #[arg(value_name = "URL")]
    pub(crate) url: HubUrl,
    /// File that holds the token, or - for standard input [default: asked for on the terminal]
    #[arg(long, value_name = "F")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA of the hub's front, PEM, where the web's own does not do [default: that of the last login there]
    #[arg(long, value_name = "F")]
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Parser)]
pub(crate) struct Logout {
    /// The hub [default: the current one]
    #[arg(value_name = "URL", add = ArgValueCompleter::new(complete::hubs))]
    pub(crate) url: Option<HubUrl>,
}

#[derive(Subcommand)]
pub(crate) enum Hubs {
    /// All of them; the current one has a *
    #[command(visible_alias = "ls")]
    List(Output),
    /// Make one the current hub, which the commands talk to
    Use {
        #[arg(value_name = "URL", add = ArgValueCompleter::new(complete::hubs))]
        url: HubUrl,
    },
}

/// A name to show to people, as the hub takes it.
pub(super) fn display_name(name: &str) -> Result<String, String> {
    const MAX_CHARS: usize = 100;
    let reason = match name {
        "" => "a name is not empty",
        _ if name.starts_with('-') => "a name does not start with a dash",
        _ if name.trim() != name => "a name has no space around it",
        _ if name.chars().any(char::is_control) => "a name has no control characters",
        _ if name.chars().count() > MAX_CHARS => "a name has 100 characters at most",
        _ => return Ok(name.to_owned()),
    };
    Err(reason.to_owned())
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
    fn name_that_could_not_be_typed_again_is_refused() {
        let long = "x".repeat(101);
        for bad in ["", "-x", " x", "a\tb", &long] {
            assert!(display_name(bad).is_err(), "{bad:?}");
        }
        assert!(display_name("Zürich 1").is_ok());
        assert!(display_name(&"ä".repeat(100)).is_ok());
    }

    #[test]
    fn state_is_read_in_any_case() {
        assert_eq!(
            cluster_state("apiunreachable"),
            Ok(ClusterState::ApiUnreachable)
        );
        assert!(cluster_state("ready").is_err());
    }
}
