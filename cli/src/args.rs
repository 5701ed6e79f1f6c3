//! Definition of all subcommands and flags. Settings of long-running commands are texts here: `fairlead_runtime::config`
//! merges them with environment and file, parses them, and reports all mistakes at once.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

mod access;
mod agent_settings;
mod explain;
mod fields;
mod help;
mod inspect;
mod lists;
mod registry;
mod tokens;

use clap::{Parser, Subcommand};
use clap_complete::{ArgValueCompleter, CompleteEnv, Shell};

pub(crate) use self::access::{Address, Hubs, Kubeconfig, Login, Logout};
pub(crate) use self::agent_settings::{AgentField, AgentFields, ClusterAgent};
pub(crate) use self::explain::{Explain, ExplainFormat, Help, HelpFormat};
pub(crate) use self::fields::{ClusterFields, NewCluster, SetCluster, TenantFields};
pub(crate) use self::help::command;
pub(crate) use self::inspect::{Audit, ClusterCatalog, Compiled, Inventory};
pub(crate) use self::lists::{ClusterList, TenantList, TokenList};
pub(crate) use self::registry::{
    Apply, Backup, Changes, Cluster, Facts, Find, Import, OneCluster, Restore, Store, Tenant,
};
pub(crate) use self::tokens::{ClusterToken, LocalHub, Token};
use crate::{complete, output::Format};

const ENVIRONMENT_AND_EXIT_CODES: &str = "\
Environment of the commands that connect to a hub; each variable takes precedence over `fairlead login`:
  FAIRLEAD_URL                            URL of the hub
  FAIRLEAD_TOKEN or FAIRLEAD_TOKEN_FILE   your token
  FAIRLEAD_CA_FILE                        CA of the hub's certificate (PEM), in addition to the system's CAs
  HTTPS_PROXY, NO_PROXY                   proxy to the hub, also for agents

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
    Dev(Dev),
    /// Run a hub
    Server(Box<Server>),
    /// Run the agent of one cluster; in a pod it needs no flags
    Agent(Box<Agent>),
    /// Manage tenants, the owners of clusters
    Tenant {
        #[command(subcommand)]
        command: Tenant,
    },
    /// Manage registered clusters
    Cluster {
        #[command(subcommand)]
        command: Cluster,
    },
    /// Show facts of clusters, current and past
    Facts(Facts),
    /// Find clusters by host, version, service or fact
    Find(Find),
    /// Store facts, and query their history in InfluxQL
    Inventory {
        #[command(subcommand)]
        command: Inventory,
    },
    /// List or follow changes of the registry
    Changes(Changes),
    /// List changes with author and values, latest first
    Audit(Audit),
    /// Manage API tokens of people and programs
    Token {
        #[command(subcommand)]
        command: Token,
    },
    /// Import from the registry of another program
    Import {
        #[command(subcommand)]
        command: Import,
    },
    /// Back up a hub's store and keys; the hub may run
    Backup(Backup),
    /// Restore a hub's store and keys from a backup; the hub must be stopped
    Restore(Restore),
    /// Check a hub's store, or migrate it to another database
    Store {
        #[command(subcommand)]
        command: Store,
    },
    /// Print a kubeconfig with one context for each cluster
    Kubeconfig(Kubeconfig),
    /// Log in to a hub: store its URL and your token
    Login(Login),
    /// Log out of a hub: delete its stored token
    Logout(Logout),
    /// List and select the hubs of your logins
    Hub {
        #[command(subcommand)]
        command: Hubs,
    },
    /// Show your name and role on the hub and in clusters
    Whoami(Output),
    /// Explain a code like FL-1402; without a code, list all codes
    Explain(Explain),
    /// Print the help of a command, or of all commands on one page
    Help(Help),
    /// Print the version
    Version(Version),
    /// Print the completion script of a shell
    Completion {
        /// Shell that runs the script
        shell: Shell,
    },
}

const DEV_EXAMPLES: &str = "\
Examples:
  fairlead dev
  fairlead dev --listen :8443 --public-url https://laptop.local:8443      # for agents on other machines
  fairlead dev --data /tmp/hub --listen 127.0.0.1:0 --ready-file /tmp/hub/ready.json";

#[derive(Parser)]
#[command(after_help = DEV_EXAMPLES)]
pub(crate) struct Dev {
    /// Folder of the hub's store and keys [default: ~/.local/share/fairlead/dev]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Listen address; port 0 selects a free port, :8443 listens on all interfaces [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// URL for people and agents, with a name or address of this machine, like https://laptop.local:8443
    /// [default: the listen address]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Additional listen address for plain HTTP/1.1, for a proxy that terminates TLS; tokens are not encrypted there [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Listen address for health, metrics and install manifests, plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Time that open requests wait for a disconnected agent; 0s resets them at once [default: 60s]
    #[arg(long, value_name = "TIME")]
    resume_window: Option<String>,
    /// Agent image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Start although keys or database are missing from the data folder, and create new ones
    #[arg(long)]
    accept_data_loss: bool,
    /// File to write when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    #[command(flatten)]
    process: Process,
}

const SERVER_EXAMPLES: &str = "\
Examples:
  fairlead server --data /var/lib/fairlead --listen 0.0.0.0:443 --public-url https://hub.example.com \\
    --tls-cert tls.crt --tls-key tls.key
  FAIRLEAD_CONFIG=/etc/fairlead.toml fairlead server      # settings in a table [server]";

#[derive(Parser)]
#[command(after_help = SERVER_EXAMPLES)]
pub(crate) struct Server {
    /// Folder of the hub's store and keys [default: /var/lib/fairlead]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Listen address for people and agents [default: 0.0.0.0:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Additional listen address for plain HTTP/1.1, for a proxy that terminates TLS; tokens are not encrypted there [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Listen address for health and metrics, plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Certificate chain of the listen address, PEM [default: issued by the hub's own CA]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// URL for people and agents, like https://hub.example.com
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Domain of the cluster names <id>.<domain> [default: clusters.<host of the public URL>]
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
    /// Database of the registry: postgres://USER@HOST/DATABASE, without a password. The certificate of a remote server is
    /// verified unless sslmode disables that [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<String>,
    /// File with a key of 32 bytes in base64, the same for all hubs on one database. It encrypts the CA and the key of
    /// bootstrap tokens in the store, so that further hubs can load them; alternatively FAIRLEAD_STORE_KEY [default: none]
    #[arg(long, value_name = "FILE")]
    store_key_file: Option<String>,
    /// Retention of the change log, which has at most a million entries [default: 7d]
    #[arg(long, value_name = "TIME")]
    keep_changes: Option<String>,
    /// Retention of the history of facts [default: 400d]
    #[arg(long, value_name = "TIME")]
    keep_facts: Option<String>,
    /// Longest interval between two fact reports of an agent, 1s to 30d; facts are stale after three missed reports [default: 1h]
    #[arg(long, value_name = "TIME")]
    agent_reports_every: Option<String>,
    /// The same interval for Project Syn's Steward and other programs with a token of role cluster [default: 1m]
    #[arg(long, value_name = "TIME")]
    steward_reports_every: Option<String>,
    /// InfluxDB 1.x that also receives the facts, like https://influx.example:8086 [default: none]
    #[arg(long, value_name = "URL")]
    influx_url: Option<String>,
    /// Existing database of the InfluxDB [default: fairlead]
    #[arg(long, value_name = "NAME")]
    influx_database: Option<String>,
    /// User name for the InfluxDB
    #[arg(long, value_name = "NAME")]
    influx_user: Option<String>,
    /// File with the password for the InfluxDB; alternatively FAIRLEAD_INFLUX_PASSWORD
    #[arg(long, value_name = "FILE")]
    influx_password_file: Option<String>,
    /// File with a bearer token for the InfluxDB, instead of a password; alternatively FAIRLEAD_INFLUX_TOKEN
    #[arg(long, value_name = "FILE")]
    influx_token_file: Option<String>,
    /// CA of the InfluxDB, PEM, in addition to the system's CAs
    #[arg(long, value_name = "FILE")]
    influx_ca_file: Option<String>,
    /// Size of the spool in the data folder for an unavailable InfluxDB; the oldest facts beyond it are dropped [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    influx_spool: Option<String>,
    /// Send queries of GET /inventory to the InfluxDB, except requests with backend=hub
    #[arg(long)]
    influx_query: bool,
    /// Start although keys or database are missing from the data folder, and create new ones; clusters may have to enrol again
    #[arg(long)]
    accept_data_loss: bool,
    /// TOML file of trusted token issuers: OpenID Connect, Kubernetes clusters [default: none]
    #[arg(long, value_name = "FILE")]
    issuers: Option<String>,
    /// Lifetime of bootstrap tokens [default: 30m]
    #[arg(long, value_name = "TIME")]
    bootstrap_ttl: Option<String>,
    /// Time after its expiry in which an agent's identity can be renewed, unless another agent has enrolled; 0s disables it [default: 30d]
    #[arg(long, value_name = "TIME")]
    renew_grace: Option<String>,
    /// Limit of concurrent requests per caller, watches included; further requests get status 429 [default: 1000]
    #[arg(long, value_name = "N")]
    max_requests_per_caller: Option<String>,
    /// Time that open requests wait for a disconnected agent; 0s resets them at once [default: 60s]
    #[arg(long, value_name = "TIME")]
    resume_window: Option<String>,
    /// Memory budget of all sessions, in addition to 256 KiB per open stream. Large transfers slow down beyond it. A second
    /// budget of this size is for data that clients do not read; new requests are refused beyond it [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// Agent image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Image of Project Syn's Steward in its install manifests [default: docker.io/projectsyn/steward:v0.13.0]
    #[arg(long, value_name = "IMAGE")]
    steward_image: Option<String>,
    /// Fact to add as a label of syn_lieutenant_cluster_facts, like distribution; repeatable [default: none]
    #[arg(long, value_name = "NAME")]
    metric_fact: Vec<String>,
    /// Network of trusted proxies, like 10.0.0.0/8; their X-Forwarded-Proto and Host headers are used; repeatable
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<String>,
    /// Discovery URL of the OIDC provider that GET / reports to Lieutenant's clients
    #[arg(long, value_name = "URL")]
    oidc_discovery_url: Option<String>,
    /// Client id for that OIDC provider
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Address of the Vault that GET / reports to Lieutenant's clients
    #[arg(long, value_name = "URL")]
    vault_addr: Option<String>,
    /// Login method for that Vault
    #[arg(long, value_name = "METHOD")]
    vault_login_method: Option<String>,
    /// File to write when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    #[command(flatten)]
    process: Process,
}

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Remove the agent and its resources from a cluster
    #[command(
        after_help = "Example:\n  fairlead agent uninstall --kubeconfig ~/.kube/config --context prod"
    )]
    Uninstall(Uninstall),
}

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
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}

const AGENT_EXAMPLES: &str = "\
Examples:
  fairlead agent --join @join.txt --kubeconfig ~/.kube/config
  fairlead agent --join fl1.… --kubeconfig kc --context prod --state /var/lib/fairlead-agent
  fairlead agent --join @join.txt --kubeconfig kc --links 2 --hub https://one.example --hub https://two.example
  HTTPS_PROXY=http://user:password@proxy:3128 fairlead agent --join @join.txt --kubeconfig kc
  fairlead agent uninstall --kubeconfig ~/.kube/config";

#[derive(Parser)]
#[command(after_help = AGENT_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
    /// Join string, or @FILE with it. It is needed once; a new join string replaces the identity
    #[arg(long, value_name = "STRING|@FILE")]
    join: Option<String>,
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
    /// Concurrent links, 1 to 8, distributed over the hubs [default: 1]
    #[arg(long, value_name = "N")]
    links: Option<String>,
    /// UID of the agent's pod; a restarted agent of the same pod replaces the previous one at once
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// CA of the hub's certificate, PEM, in addition to the system's CAs and the CA pinned in the join string
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// Group that the hub may impersonate, in addition to Fairlead's own groups; repeatable
    #[arg(long, value_name = "GROUP")]
    allow_group: Vec<String>,
    /// User that admins of the hub may impersonate with `kubectl --as`, exact name; repeatable [default: none]
    #[arg(long, value_name = "USER")]
    allow_as: Vec<String>,
    /// Address that the hub may open plain TCP connections to; repeatable [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    allow_connect: Vec<String>,
    /// Interval of fact collection; 0s disables it [default: as configured on the hub, else 5m]
    #[arg(long, value_name = "TIME")]
    facts_every: Option<String>,
    /// Memory budget of all sessions, in addition to 256 KiB per open stream. Large transfers slow down beyond it. A second
    /// budget of this size is for data that the cluster does not read; requests with a body are refused beyond it [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// Listen address for health and metrics, plain HTTP [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    #[command(flatten)]
    process: Process,
}

/// Settings of every long-running command.
#[derive(clap::Args)]
struct Process {
    /// TOML file with a table named like the command; flags and FAIRLEAD_* variables take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Log filter, like info or fairlead_dialer=debug,info [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Time for open requests to finish after SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,
}

/// Output format of an answer.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Output format: table, wide, json, yaml, name (ids), jsonpath='{.items[*].id}' or custom-columns=ID:.id
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        add = ArgValueCompleter::new(complete::formats)
    )]
    pub(crate) output: Format,
}

/// Data of a hub on this machine.
#[derive(clap::Args)]
pub(crate) struct HubPlace {
    /// Folder of the hub's store and keys
    #[arg(long, value_name = "DIR", default_value = "/var/lib/fairlead")]
    pub(crate) data: std::path::PathBuf,
    /// Database of the store, as for `fairlead server` [default: a file in the data folder]
    #[arg(long, value_name = "URL", env = "FAIRLEAD_STORE")]
    pub(crate) store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) store_password_file: Option<std::path::PathBuf>,
}

#[derive(Parser)]
pub(crate) struct Version {
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Answers a completion request of a shell; false if the process was not started for completion.
pub(crate) fn complete() -> clap::error::Result<bool> {
    let completing = CompleteEnv::with_factory(command).var(complete::VARIABLE);
    completing.try_complete(std::env::args_os(), None)
}
