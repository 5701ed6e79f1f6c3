//! Definition of all subcommands and flags. Settings of long-running commands are texts here: `fairlead_runtime::config`
//! merges them with environment and file, parses them, and reports all mistakes at once.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

mod doctor;
mod explain;
mod help;
mod maintenance;
pub(crate) mod process;
mod runner;
pub(crate) mod traces;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::{CompleteEnv, Shell};

use fairlead_commands::{AgentUpgradeArgs, HubCommand, OutputArgs, complete};

pub(crate) use self::doctor::{Doctor, DoctorFormat, SupportBundle};
pub(crate) use self::explain::{Explain, ExplainFormat, Help, HelpFormat};
pub(crate) use self::maintenance::{Backup, Restore, StoreArgs};
use self::process::ProcessArgs;
pub(crate) use self::runner::{GuardArgs, PostRenderArgs, RunnerArgs};
use self::traces::TraceArgs;
use crate::hub::settings::{Dev, Server};

const ENVIRONMENT_AND_EXIT_CODES: &str = "\
Environment of the commands that connect to a hub; each variable takes precedence over `fairlead login`:
  FAIRLEAD_URL                            URL of the hub
  FAIRLEAD_TOKEN or FAIRLEAD_TOKEN_FILE   your token
  FAIRLEAD_CA_FILE                        CA of the hub's certificate (PEM), in addition to the system's CAs
  HTTPS_PROXY, NO_PROXY                   proxy to the hub, also for agents
  FAIRLEAD_COMPLETE_TIMEOUT               time in which the hub must answer a shell completion, like 3s

Exit codes:
  0  success
  1  other failure (see the code on stderr)
  2  invalid command line or configuration
  3  not logged in, or not allowed
  4  not found
  5  hub, cluster or API server not reachable in time
  6  conflict: exists already, has changed, or is in use

`fairlead COMMAND --help` has examples. `fairlead explain FL-1402` explains a code.";

/// Access to Kubernetes clusters behind firewalls: a hub for kubectl, and an agent in each cluster that opens one
/// outbound WebSocket.
#[derive(Parser)]
#[command(
    name = "fairlead",
    version,
    after_help = ENVIRONMENT_AND_EXIT_CODES,
    propagate_version = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a hub for development on this machine, with an admin login for 8 hours
    Dev(Box<Dev>),
    /// Run a hub
    Server(Box<Server>),
    /// Run the agent of one cluster; in a pod it needs no flags
    Agent(Box<AgentArgs>),
    /// Check the path of an agent to its hubs and its cluster, or a hub
    Doctor(Box<Doctor>),
    /// Collect checks, settings, metrics and log lines into a file for support, without secrets
    SupportBundle(Box<SupportBundle>),
    /// Run Helm for an agent, with neither its identity nor its token
    Runner(RunnerArgs),
    /// Become a program that ends with its runner
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Put kept fields into manifests that Helm has rendered
    #[command(hide = true)]
    PostRender(PostRenderArgs),
    #[command(flatten)]
    Hub(Box<HubCommand>),
    /// Back up a hub's store and keys; the hub may run
    Backup(Backup),
    /// Restore a hub's store and keys from a backup; the hub must be stopped
    Restore(Restore),
    /// Check a hub's store, or migrate it to another database
    Store {
        #[command(subcommand)]
        command: StoreArgs,
    },
    /// Explain a code like FL-1402; without a code, list all codes
    Explain(Explain),
    /// Print the help of a command, or of all commands on one page
    Help(Help),
    /// Print the version
    Version(VersionArgs),
    /// Print the completion script of a shell
    Completion {
        /// Shell that runs the script
        shell: Shell,
    },
}

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Remove the agent and its resources from a cluster
    #[command(
        after_help = "Examples:\n  fairlead agent uninstall --kubeconfig ~/.kube/config --context prod\n  fairlead agent uninstall --kubeconfig ~/.kube/config --purge      # with all delivered objects"
    )]
    Uninstall(Uninstall),
    /// Upgrade the agents of clusters to a version, in waves; a cluster returns by itself if its new agent does not connect
    #[command(after_help = AGENT_UPGRADE_EXAMPLES, disable_version_flag = true)]
    Upgrade(Box<AgentUpgradeArgs>),
}

const AGENT_UPGRADE_EXAMPLES: &str = "\
Waves: one cluster, then up to 10 %, 25 %, 50 % and all of them. The first failed cluster stops the upgrade.

Examples:
  fairlead agent upgrade --selector env=test --version 0.1.0
  fairlead agent upgrade --all --version 0.1.0 --image registry.example.com/fairlead:0.1.0 --wait
  fairlead agent upgrade --cluster demo --version 0.1.0 --ready-timeout 10m";

#[derive(Parser)]
pub(crate) struct Uninstall {
    /// Kubeconfig of an administrator of the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: std::path::PathBuf,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) context: Option<String>,
    /// Folder with the identity of an agent that runs outside the cluster [default: derived from kubeconfig and context]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<std::path::PathBuf>,
    /// Also remove the objects of all bundles. Hooks of charts do not run
    #[arg(long)]
    pub(crate) purge: bool,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}

const AGENT_EXAMPLES: &str = "\
Examples:
  fairlead agent --join @join.txt --kubeconfig ~/.kube/config
  fairlead agent --join fl1.… --kubeconfig kc --context prod --state /var/lib/fairlead-agent
  fairlead agent --join @join.txt --kubeconfig kc --links 2 --hub https://one.example --hub https://two.example
  fairlead agent --adopt --hub https://hub.example.com --kubeconfig kc
  HTTPS_PROXY=http://user:password@proxy:3128 fairlead agent --join @join.txt --kubeconfig kc
  fairlead agent --check --join @join.txt --kubeconfig ~/.kube/config
  fairlead agent uninstall --kubeconfig ~/.kube/config
  fairlead agent upgrade --selector env=test --version 0.1.0";

#[derive(Parser)]
#[command(after_help = AGENT_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
    /// Join string, or @FILE with it. It is needed once; a new join string replaces the identity
    #[arg(long, value_name = "STRING|@FILE")]
    join: Option<String>,
    /// Announce the agent to the hub without a join string, and wait for a person's approval; needs --hub
    #[arg(long)]
    adopt: bool,
    /// Check the path to the hubs and to the API server once, as `fairlead doctor` does, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Kubeconfig of the cluster, for an agent that does not run in one of its pods
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Folder for the identity, instead of a Secret of the cluster
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// Hub to connect to, instead of the hubs in the join string; repeatable
    #[arg(long, value_name = "URL")]
    hub: Vec<String>,
    /// Concurrent links, 1 to 8, distributed over the hubs [default: 2 with several hubs, else 1]
    #[arg(long, value_name = "N")]
    links: Option<String>,
    /// Learn the addresses of all hubs from the hub, and use them before those of --hub and of the join string: on or off
    /// [default: on]
    #[arg(long, value_name = "on|off")]
    learn_hubs: Option<String>,
    /// UID of the agent's pod; a restarted agent of the same pod replaces the previous one at once
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// CA of the hub's certificate, PEM, in addition to the system's CAs and the CA pinned in the join string
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// File with the URL of the proxy to the hub, in place of HTTPS_PROXY; read again for each connection [default: none]
    #[arg(long, value_name = "FILE")]
    proxy_file: Option<String>,
    /// Group that the hub may impersonate, in addition to Fairlead's own groups; repeatable
    #[arg(long, value_name = "GROUP")]
    allow_group: Vec<String>,
    /// User that admins of the hub may impersonate with `kubectl --as`, exact name; repeatable [default: none]
    #[arg(long, value_name = "USER")]
    allow_as: Vec<String>,
    /// Namespaces in which operators get the ClusterRole edit, and callers roles of their own; separated by commas [default: none]
    #[arg(long, value_name = "NAMESPACE,...", value_delimiter = ',')]
    operator_namespaces: Vec<String>,
    /// Rule for TCP connections of the hub: HOST:PORTS, *.SUFFIX:PORTS or NETWORK/BITS:PORTS, with ports like 80,8000-8100 or *; repeatable [default: none]
    #[arg(long, value_name = "HOST:PORTS")]
    allow_connect: Vec<String>,
    /// Listen address of an HTTP proxy (CONNECT) to Git servers, through the hub [default: none]
    #[arg(long, value_name = "ADDR")]
    git_proxy: Option<String>,
    /// Forward to a Git server through the hub, like 0.0.0.0:2222=git.example.com:22; repeatable [default: none]
    #[arg(long, value_name = "ADDR=HOST:PORT")]
    git_forward: Vec<String>,
    /// Interval of fact collection; 0s disables it [default: as configured on the hub, else 5m]
    #[arg(long, value_name = "DURATION")]
    facts_every: Option<String>,
    /// Deliver bundles of the hub to the cluster: on or off [default: off]
    #[arg(long, value_name = "on|off")]
    delivery: Option<String>,
    /// Unix socket of the runner, for Helm charts in a pod
    #[arg(long, value_name = "FILE", conflicts_with = "helm")]
    runner_socket: Option<String>,
    /// Program Helm, version 4, for Helm charts outside of a pod [default: helm in PATH]
    #[arg(long, value_name = "FILE")]
    helm: Option<String>,
    /// Upgrades by the hub: off, repository for images of the present repository, or any [default: repository]
    #[arg(long, value_name = "off|repository|any")]
    upgrades: Option<String>,
    /// Memory budget of all sessions, in addition to 256 KiB per open stream. Large transfers slow down beyond it. A second
    /// budget of this size is for data that the cluster does not read; requests with a body are refused beyond it [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// Listen address for health and metrics, plain HTTP [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    process: ProcessArgs,
}

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead version\n  fairlead version --fleet -o wide      # the hub, and the agents of all clusters"
)]
pub(crate) struct VersionArgs {
    /// Show the versions of the hub and of all connected agents, with the number of their clusters
    #[arg(long)]
    pub(crate) fleet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The command line, with the grouped overview of `fairlead --help`.
pub(crate) fn command() -> clap::Command {
    help::with_overview(Args::command())
}

/// Answers a completion request of a shell; false if the process was not started for completion.
pub(crate) fn complete() -> clap::error::Result<bool> {
    let completing = CompleteEnv::with_factory(command).var(complete::VARIABLE);
    completing.try_complete(std::env::args_os(), None)
}
