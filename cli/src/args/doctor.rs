//! Arguments of `fairlead doctor` and `fairlead support-bundle`.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

const DOCTOR_EXAMPLES: &str = "\
Examples:
  fairlead doctor --join @join.txt --kubeconfig ~/.kube/config
  fairlead doctor --join @join.txt --kubeconfig ~/.kube/config --hold 60 -o json
  kubectl exec -n fairlead deploy/fairlead-agent -- fairlead doctor
  fairlead doctor --hub --data /var/lib/fairlead --public-url https://hub.example.com

Exit codes:
  0  all checks passed
  1  a check failed
  2  invalid command line or configuration";

const BUNDLE_EXAMPLES: &str = "\
Examples:
  fairlead support-bundle agent.tar.gz --kubeconfig ~/.kube/config --log-file agent.log
  kubectl logs -n fairlead deploy/fairlead-agent | fairlead support-bundle agent.tar.gz --kubeconfig kc --log-file -
  fairlead support-bundle hub.tar.gz --hub --public-url https://hub.example.com --log-file hub.log";

#[derive(Parser)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) settings: CheckedSettings,
    /// Keep an idle session open for this time, in seconds [default: no session]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) hold: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: DoctorFormat,
}

#[derive(Parser)]
#[command(after_help = BUNDLE_EXAMPLES)]
pub(crate) struct SupportBundle {
    /// New file to write, .tar.gz, readable by its owner only (0600)
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) settings: CheckedSettings,
    /// Log to take the last lines from, or - for standard input [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Admin address to read the metrics from, as of `fairlead agent` or `fairlead server` [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
}

/// Settings of the agent, or of the hub, that is checked.
#[derive(Args)]
pub(crate) struct CheckedSettings {
    /// Check the hub of this machine, with the settings of `fairlead server`, instead of an agent
    #[arg(long = "hub", id = "of_hub")]
    pub(crate) of_hub: bool,
    /// Join string, or @FILE with it; its token is not spent
    #[arg(long, value_name = "STRING|@FILE")]
    join: Option<String>,
    /// Check the path of an agent that waits for its adoption; needs --url
    #[arg(long)]
    adopt: bool,
    /// Kubeconfig of the cluster, for an agent that does not run in one of its pods
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Folder with the identity, instead of a Secret of the cluster
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// Hub to check, instead of the hubs of the identity or the join string; repeatable
    #[arg(long = "url", id = "hub", value_name = "URL")]
    url: Vec<String>,
    /// CA of the hub's certificate, PEM, in addition to the system's CAs and the CA pinned in the join string
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// File with the URL of the proxy to the hub, in place of HTTPS_PROXY
    #[arg(long, value_name = "FILE")]
    proxy_file: Option<String>,
    /// With --hub: folder of the hub's store and keys [default: /var/lib/fairlead]
    #[arg(long, value_name = "DIR", requires = "of_hub")]
    data: Option<String>,
    /// With --hub: public URL of the hub
    #[arg(long, value_name = "URL", requires = "of_hub")]
    public_url: Option<String>,
    /// With --hub: store, like postgres://fairlead@db/fairlead [default: a file in the data folder]
    #[arg(long, value_name = "URL", requires = "of_hub")]
    store: Option<String>,
    /// With --hub: file with the password of the store
    #[arg(long, value_name = "FILE", requires = "of_hub")]
    store_password_file: Option<String>,
    /// With --hub: TOML file of its Git servers, which are tried
    #[arg(long, value_name = "FILE", requires = "of_hub")]
    git_servers: Option<String>,
    /// With --hub: TOML file of its Vault, which is tried
    #[arg(long, value_name = "FILE", requires = "of_hub")]
    vault: Option<String>,
    /// With --hub: TOML file of its token issuers, which are tried
    #[arg(long, value_name = "FILE", requires = "of_hub")]
    issuers: Option<String>,
    /// TOML file with a table [agent] or [server]; flags and FAIRLEAD_* variables take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
}

/// Output format of the doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    Text,
    Json,
}
