//! Every subcommand and flag. Settings of long-running commands are texts here and parsed by
//! `fairlead_runtime::config`, which knows the other layers and tells all mistakes at once.

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
mod lists;
mod looks;
mod registry;
mod tokens;

use clap::{Parser, Subcommand};
use clap_complete::{ArgValueCompleter, CompleteEnv, Shell};

pub(crate) use self::access::{Address, Hubs, Kubeconfig, Login, Logout};
pub(crate) use self::agent_settings::{AgentField, AgentFields, ClusterAgent};
pub(crate) use self::explain::{Explain, ExplainFormat, Help, HelpFormat};
pub(crate) use self::fields::{ClusterFields, NewCluster, SetCluster, TenantFields};
pub(crate) use self::help::command;
pub(crate) use self::lists::{ClusterList, TenantList, TokenList};
pub(crate) use self::looks::{Audit, ClusterCatalog, Compiled, Inventory};
pub(crate) use self::registry::{
    Apply, Backup, Changes, Cluster, Facts, Find, Import, OneCluster, Restore, Store, Tenant,
};
pub(crate) use self::tokens::{ClusterToken, LocalHub, Token};
use crate::{complete, output::Format};

const ENVIRONMENT_AND_EXIT_CODES: &str = "\
Environment of the commands that talk to a hub, each of which wins over what `fairlead login` remembers:
  FAIRLEAD_URL                            the hub
  FAIRLEAD_TOKEN or FAIRLEAD_TOKEN_FILE   who you are there
  FAIRLEAD_CA_FILE                        the authority of its front, in PEM, if the system's roots do not do
  HTTPS_PROXY, NO_PROXY                   the way to it, for agents too

Exit codes:
  0  done
  1  failed for a reason of its own (see the code on stderr)
  2  wrong usage or configuration
  3  not logged in, or not allowed
  4  there is no such thing
  5  hub, cluster or API server not reached in time
  6  it exists already, has changed meanwhile, or is in use

`fairlead COMMAND --help` has examples. `fairlead explain FL-1402` explains a code.";

/// Reach Kubernetes clusters that nobody can reach: a hub for kubectl, and an agent in each cluster that opens one
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
    /// Run a hub on this machine, with an admin login for 8 hours
    Dev(Dev),
    /// Run a hub
    Server(Box<Server>),
    /// Run the agent of one cluster (in a pod no flag is needed)
    Agent(Box<Agent>),
    /// Owners of clusters
    Tenant {
        #[command(subcommand)]
        command: Tenant,
    },
    /// Registered clusters
    Cluster {
        #[command(subcommand)]
        command: Cluster,
    },
    /// Facts of clusters, now and in the past
    Facts(Facts),
    /// Find clusters by a host, a version, a service or a fact
    Find(Find),
    /// Facts that programs store, and their history in InfluxQL
    Inventory {
        #[command(subcommand)]
        command: Inventory,
    },
    /// Changes of the registry, also as they happen
    Changes(Changes),
    /// Changes with their author and values, the latest first
    Audit(Audit),
    /// Bearer tokens for people and programs
    Token {
        #[command(subcommand)]
        command: Token,
    },
    /// Import from the registry of another program
    Import {
        #[command(subcommand)]
        command: Import,
    },
    /// Write a hub's store and keys into a file, while the hub runs
    Backup(Backup),
    /// Replace a hub's store and keys by a backup; the hub must not run
    Restore(Restore),
    /// Check a hub's store, or migrate it to another database
    Store {
        #[command(subcommand)]
        command: Store,
    },
    /// Print a kubeconfig with one context for each cluster
    Kubeconfig(Kubeconfig),
    /// Remember a hub and a token for it
    Login(Login),
    /// Forget a hub and its token
    Logout(Logout),
    /// Hubs that you are logged in to
    Hub {
        #[command(subcommand)]
        command: Hubs,
    },
    /// Your name and role, on the hub and in clusters
    Whoami(Output),
    /// Explain a code like FL-1402; without a code, list all codes
    Explain(Explain),
    /// Print the help of a command, or of all commands on one page
    Help(Help),
    /// Print the version
    Version(Version),
    /// Print the completion script of a shell
    Completion { shell: Shell },
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
    /// Address to listen on; port 0 chooses one. With :8443 others can reach the hub, too [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// URL for people and agents, with a name or address of this machine, like https://laptop.local:8443
    /// [default: the address listened on]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Plain HTTP/1.1 beside it, for a proxy in front that ends TLS; tokens can be read on that network [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Health, metrics and, here, the install manifests; plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// How long what runs waits for an agent whose connection broke; 0s ends it at once [default: 60s]
    #[arg(long, value_name = "TIME")]
    resume_window: Option<String>,
    /// The agent's image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Start once although keys or database of this folder are gone, and make new ones
    #[arg(long)]
    accept_data_loss: bool,
    /// Written when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
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
    /// Where people and agents reach the hub [default: 0.0.0.0:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Plain HTTP/1.1 beside it, for a proxy in front that ends TLS; tokens can be read on that network [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Health and metrics, plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Certificate chain of the front, PEM; without it the hub's own CA makes one
    #[arg(long, value_name = "F")]
    tls_cert: Option<String>,
    /// Its key, PEM
    #[arg(long, value_name = "F")]
    tls_key: Option<String>,
    /// How people and agents reach the hub from outside, like https://hub.example.com
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Clusters answer as <id>.<domain> too [default: clusters.<host of the public URL>]
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
    /// Where the registry is kept: postgres://USER@HOST/DATABASE, without a password; servers on other machines prove
    /// themselves unless sslmode says otherwise [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// File with the password of the store; FAIRLEAD_STORE_PASSWORD may hold it, too
    #[arg(long, value_name = "F")]
    store_password_file: Option<String>,
    /// File with 32 bytes in base64, the same for all hubs on one database: the CA and the key of bootstrap tokens are in
    /// the store, sealed with it, and new hubs take them from there; FAIRLEAD_STORE_KEY may hold it, too [default: none]
    #[arg(long, value_name = "F")]
    store_key_file: Option<String>,
    /// How long the log of changes is kept, a million lines at most [default: 7d]
    #[arg(long, value_name = "TIME")]
    keep_changes: Option<String>,
    /// How long the history of facts is kept [default: 400d]
    #[arg(long, value_name = "TIME")]
    keep_facts: Option<String>,
    /// How often an agent reports facts at the least; three reports that do not come make them stale, 1s to 30d [default: 1h]
    #[arg(long, value_name = "TIME")]
    agent_reports_every: Option<String>,
    /// The same of Project Syn's Steward, and of whatever else has a cluster's own token [default: 1m]
    #[arg(long, value_name = "TIME")]
    steward_reports_every: Option<String>,
    /// InfluxDB 1.x that facts are written to as well, like https://influx.example:8086 [default: none]
    #[arg(long, value_name = "URL")]
    influx_url: Option<String>,
    /// Its database, which must exist [default: fairlead]
    #[arg(long, value_name = "NAME")]
    influx_database: Option<String>,
    /// Who the hub is there
    #[arg(long, value_name = "NAME")]
    influx_user: Option<String>,
    /// File with the password; FAIRLEAD_INFLUX_PASSWORD may hold it, too
    #[arg(long, value_name = "F")]
    influx_password_file: Option<String>,
    /// File with a bearer token instead; FAIRLEAD_INFLUX_TOKEN may hold it, too
    #[arg(long, value_name = "F")]
    influx_token_file: Option<String>,
    /// CA of the InfluxDB, PEM, beside the system's
    #[arg(long, value_name = "F")]
    influx_ca_file: Option<String>,
    /// What may wait for it in the data folder while it is away; beyond that the oldest is dropped [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    influx_spool: Option<String>,
    /// It answers GET /inventory, too, where a request does not say backend=hub
    #[arg(long)]
    influx_query: bool,
    /// Start once although keys or database of this folder are gone, and make new ones; clusters may have to enrol again
    #[arg(long)]
    accept_data_loss: bool,
    /// TOML file of issuers whose tokens are taken: OpenID Connect, Kubernetes clusters [default: none]
    #[arg(long, value_name = "F")]
    issuers: Option<String>,
    /// How long a bootstrap token is valid [default: 30m]
    #[arg(long, value_name = "TIME")]
    bootstrap_ttl: Option<String>,
    /// How long after its end an agent's identity may renew itself, if no other has enrolled since; 0s not at all [default: 30d]
    #[arg(long, value_name = "TIME")]
    renew_grace: Option<String>,
    /// Requests of one caller under way at once, watches included; more are refused with 429 [default: 1000]
    #[arg(long, value_name = "N")]
    max_requests_per_caller: Option<String>,
    /// How long what runs waits for an agent whose connection broke; 0s ends it at once [default: 60s]
    #[arg(long, value_name = "TIME")]
    resume_window: Option<String>,
    /// What all sessions may hold together beyond 256 KiB of each open stream; where it is used up, bulk slows down; as much again may be what clients do not read, beyond that new requests are refused [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// The agent's image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The image of Project Syn's Steward in its install manifests [default: docker.io/projectsyn/steward:v0.13.0]
    #[arg(long, value_name = "IMAGE")]
    steward_image: Option<String>,
    /// Fact that is a label of syn_lieutenant_cluster_facts, like distribution; repeatable [default: none]
    #[arg(long, value_name = "NAME")]
    metric_fact: Vec<String>,
    /// Proxy in front, like 10.0.0.0/8, whose X-Forwarded-Proto and host are believed; repeatable
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<String>,
    /// Told to Lieutenant's clients by GET /: where their OIDC provider is discovered, and who they are there
    #[arg(long, value_name = "URL")]
    oidc_discovery_url: Option<String>,
    /// See --oidc-discovery-url
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Told to Lieutenant's clients by GET /: their Vault, and how to log in there
    #[arg(long, value_name = "URL")]
    vault_addr: Option<String>,
    /// See --vault-addr
    #[arg(long, value_name = "METHOD")]
    vault_login_method: Option<String>,
    /// Written when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    #[command(flatten)]
    process: Process,
}

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Remove from a cluster what the install manifest and the agent made there
    #[command(
        after_help = "Example:\n  fairlead agent uninstall --kubeconfig ~/.kube/config --context prod"
    )]
    Uninstall(Uninstall),
}

#[derive(Parser)]
pub(crate) struct Uninstall {
    /// The cluster, as one of its administrators
    #[arg(long, value_name = "F")]
    pub(crate) kubeconfig: std::path::PathBuf,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "C")]
    pub(crate) context: Option<String>,
    /// Folder with the identity of an agent outside of the cluster [default: that of this kubeconfig and context]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<std::path::PathBuf>,
    /// Do not ask
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
    /// Join string, or @FILE that holds it; needed once: the same one does nothing later, another one replaces the identity
    #[arg(long, value_name = "STRING|@FILE")]
    join: Option<String>,
    /// The cluster to stand for, where this does not run in one of its pods
    #[arg(long, value_name = "F")]
    kubeconfig: Option<String>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "C")]
    context: Option<String>,
    /// Keep the identity in this folder instead of a Secret of the cluster
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// Hub to dial instead of those in the join string; repeatable
    #[arg(long, value_name = "URL")]
    hub: Vec<String>,
    /// Links to keep at once, 1 to 8, each to another one of the hubs where there are so many [default: 1]
    #[arg(long, value_name = "N")]
    links: Option<String>,
    /// UID of the pod it runs in: begun anew there, it takes the place of the one before at once
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// CA of the hub's front, PEM, beside the system's and the one pinned in the join string
    #[arg(long, value_name = "F")]
    ca_file: Option<String>,
    /// Group that the hub may impersonate beside Fairlead's own; repeatable
    #[arg(long, value_name = "GROUP")]
    allow_group: Vec<String>,
    /// User that an admin of the hub may become with `kubectl --as`, exactly; repeatable [default: none]
    #[arg(long, value_name = "USER")]
    allow_as: Vec<String>,
    /// host:port that the hub may open plain TCP to; repeatable [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    allow_connect: Vec<String>,
    /// How often the cluster is looked at for facts; 0s: never [default: as the hub says, else 5m]
    #[arg(long, value_name = "TIME")]
    facts_every: Option<String>,
    /// What all sessions may hold together beyond 256 KiB of each open stream; where it is used up, bulk slows down; as much again may be what is sent into the cluster and not taken there, beyond that requests that bring something along are refused [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// Health and metrics, plain HTTP [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    #[command(flatten)]
    process: Process,
}

/// What every long-running command knows.
#[derive(clap::Args)]
struct Process {
    /// TOML file with a table named like the command; flags and FAIRLEAD_* win over it
    #[arg(long, value_name = "F")]
    config: Option<String>,
    /// What to log, like info or fairlead_dialer=debug,info [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// How long running requests may take to finish after SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,
}

/// How to print.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// How to print the answer: table, wide, json, yaml, name (ids), jsonpath='{.items[*].id}' or custom-columns=ID:.id as kubectl has them
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

/// Which hub's data, on this machine.
#[derive(clap::Args)]
pub(crate) struct HubPlace {
    /// Folder of the hub's store and keys
    #[arg(long, value_name = "DIR", default_value = "/var/lib/fairlead")]
    pub(crate) data: std::path::PathBuf,
    /// Where the store is, if not in that folder, as for `fairlead server`
    #[arg(long, value_name = "URL", env = "FAIRLEAD_STORE")]
    pub(crate) store: Option<String>,
    /// File with the password of the store; FAIRLEAD_STORE_PASSWORD may hold it, too
    #[arg(long, value_name = "F")]
    pub(crate) store_password_file: Option<std::path::PathBuf>,
}

#[derive(Parser)]
pub(crate) struct Version {
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Answers a shell that completes what somebody types; false if none asks.
pub(crate) fn complete() -> clap::error::Result<bool> {
    let completing = CompleteEnv::with_factory(command).var(complete::VARIABLE);
    completing.try_complete(std::env::args_os(), None)
}
