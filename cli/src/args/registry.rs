//! Arguments of the commands that work on the registry, and on the store it is kept in.

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;

use super::{
    HubPlace, Output,
    access::{cluster_state, display_name},
    agent_settings::ClusterAgent,
    fields::{NewCluster, SetCluster, TenantFields},
    lists::{CLUSTER_LIST_EXAMPLES, ClusterList, TENANT_LIST_EXAMPLES, TenantList},
    looks::{ClusterCatalog, Compiled},
    tokens::ClusterToken,
};
use crate::complete::{clusters, tenants};

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead backup hub.backup\n  fairlead backup hub.age --recipient age1… --store postgres://fairlead@db/fairlead"
)]
pub(crate) struct Backup {
    /// Written by this user alone (0600); - for standard output
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) place: HubPlace,
    /// Encrypt it with age for whoever holds this key; may be given several times
    #[arg(long, value_name = "AGE1…")]
    pub(crate) recipient: Vec<String>,
    /// Leave the CA and the key of bootstrap tokens out: a hub restored from it needs --accept-data-loss, and is another
    /// authority
    #[arg(long)]
    pub(crate) without_ca: bool,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Parser)]
pub(crate) struct Restore {
    /// A backup; - for standard input, with --yes where something is there
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) place: HubPlace,
    /// The file of age-keygen that opens an encrypted backup
    #[arg(long, value_name = "F")]
    pub(crate) identity: Option<std::path::PathBuf>,
    /// All that is there goes
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Look through all of it; the hub may go on
    Check(HubPlace),
    /// Put all of one store into another one and compare both; no hub may run on either
    #[command(
        after_help = "Example:\n  fairlead store migrate --from sqlite:/var/lib/fairlead/fairlead.db --to postgres://fairlead@db/fairlead"
    )]
    Migrate {
        /// sqlite:PATH or postgres://USER@HOST/DATABASE
        #[arg(long, value_name = "URL")]
        from: String,
        /// Likewise
        #[arg(long, value_name = "URL")]
        to: String,
        /// File with the password of the stores; FAIRLEAD_STORE_PASSWORD may hold it, too
        #[arg(long, value_name = "F")]
        store_password_file: Option<std::path::PathBuf>,
        /// All that is in the other one goes
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Tenant {
    /// Make a tenant
    #[command(
        after_help = "Examples:\n  fairlead tenant create acme\n  fairlead tenant create 'Zürich GmbH' --id zurich"
    )]
    Create {
        /// Shown to people
        #[arg(value_parser = display_name)]
        name: String,
        /// Its id [default: t-NAME]
        #[arg(long, value_name = "ID", value_parser = fairlead_api::TenantId::from_name)]
        id: Option<fairlead_api::TenantId>,
        #[command(flatten)]
        output: Output,
    },
    /// All tenants you may see, or those of them that are asked for
    #[command(visible_alias = "ls", after_help = TENANT_LIST_EXAMPLES)]
    List(TenantList),
    /// One tenant
    Get {
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        /// Go on, and print it again whenever something of it is another
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Describe a tenant: its fields, clusters and last changes
    Describe {
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
    },
    /// Have the hub know what documents say of tenants and clusters
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Change one in an editor (VISUAL, EDITOR)
    Edit {
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Change single fields of a tenant
    #[command(
        after_help = "Examples:\n  fairlead tenant set t-acme --name 'Acme Ltd' --annotation sla=gold\n  fairlead tenant set t-acme --parent t-group --git-repo ssh://git@git.example/acme/config.git"
    )]
    Set {
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        #[command(flatten)]
        fields: Box<TenantFields>,
        /// Show what would change, as the hub judges it, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Delete tenants that have no clusters
    Delete {
        #[arg(value_name = "ID", required = true, add = ArgValueCompleter::new(tenants))]
        ids: Vec<String>,
        /// With its clusters, and the tenants below it with theirs
        #[arg(long)]
        cascade: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const APPLY_EXAMPLES: &str = "\
Examples:
  fairlead cluster apply -f clusters.yaml --dry-run
  fairlead cluster get demo -o yaml > demo.yaml      # then change it, and
  fairlead cluster apply -f demo.yaml

A document has the fields of the API (docs/api.md) and an `id`; it is of a tenant or of a cluster by its id's prefix, or by a
field `kind` (Tenant, Cluster). What it does not mention stays as it is, `null` takes away.";

#[derive(Parser)]
pub(crate) struct Apply {
    /// File of YAML or JSON documents, a folder of such files, or - for standard input; repeatable
    #[arg(short, long = "filename", value_name = "F", required = true)]
    pub(crate) files: Vec<std::path::PathBuf>,
    /// What a document does not mention is taken away instead
    #[arg(long)]
    pub(crate) replace: bool,
    /// Show what would change, as the hub judges it, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask where values are taken away, a protection ends, or a repository becomes another one
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum Cluster {
    /// Register a cluster and print the one command for its site
    Create(NewCluster),
    /// Print the manifest that installs the agent, for `kubectl apply -f -`; it holds the bootstrap token
    #[command(after_help = "Example:\n  fairlead cluster manifest demo | kubectl apply -f -")]
    Manifest {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
    },
    /// All clusters you may see, or those of them that are asked for
    #[command(visible_alias = "ls", after_help = CLUSTER_LIST_EXAMPLES)]
    List(ClusterList),
    /// One cluster, by id or by a name that only one has
    Get {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Go on, and print it again whenever something of it is another
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Describe a cluster: status with its error and next step, sessions, facts, configuration, last changes
    Describe {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
    },
    /// Change single fields of a cluster
    Set(SetCluster),
    /// Have the hub know what documents say of clusters and tenants
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Change one in an editor (VISUAL, EDITOR)
    Edit {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Wait until clusters are in a state, showing each step
    #[command(
        after_help = "Examples:\n  fairlead cluster wait demo\n  fairlead cluster wait edge-1 edge-2 --for Lost --timeout 10m"
    )]
    Wait {
        #[arg(value_name = "NAME|ID", required = true, add = ArgValueCompleter::new(clusters))]
        names: Vec<String>,
        /// The state: Connected means that kubectl works
        #[arg(long = "for", value_name = "Never|Connected|ApiUnreachable|Lost", default_value = "Connected", value_parser = cluster_state)]
        state: fairlead_api::resources::ClusterState,
        /// How long to wait
        #[arg(long, value_name = "TIME", default_value = "30m")]
        timeout: fairlead_runtime::config::Span,
    },
    /// Move a cluster to another tenant: its identity dies at once, and its agent enrols anew
    Move {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// The tenant, by id
        #[arg(value_name = "TENANT", add = ArgValueCompleter::new(tenants))]
        to: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: Output,
    },
    /// The bootstrap token of a cluster, which lets one agent enrol
    Token {
        #[command(subcommand)]
        command: ClusterToken,
    },
    /// Each value of a cluster, with whether the cluster or its tenant's template says so
    Effective(OneCluster),
    /// The configuration that a cluster's agent gets
    Config(OneCluster),
    /// The sessions of a cluster's agents, on the hub that is asked
    Sessions(OneCluster),
    /// What should be in a cluster
    Catalog {
        #[command(subcommand)]
        command: ClusterCatalog,
    },
    /// What was compiled: which clusters run a component below a version, or were not compiled for days
    Compiled(Compiled),
    /// What is wanted of a cluster's agent beyond what its tenant says
    Agent {
        #[command(subcommand)]
        command: ClusterAgent,
    },
    /// Delete clusters; their sessions end at once and their identities die
    #[command(
        after_help = "Examples:\n  fairlead cluster delete edge-1 edge-2\n  fairlead cluster delete -l env=test"
    )]
    Delete {
        #[arg(value_name = "NAME|ID", required_unless_present = "selector", add = ArgValueCompleter::new(clusters))]
        names: Vec<String>,
        /// Those that match a label selector, as kubectl's, over annotations and facts
        #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
        selector: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Parser)]
pub(crate) struct OneCluster {
    #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

const CHANGES_EXAMPLES: &str = "\
Examples:
  fairlead changes                     # all that are kept
  fairlead changes -f                  # from now on
  fairlead changes --since 1042 -f -o json | jq -r .id";

#[derive(Parser)]
#[command(after_help = CHANGES_EXAMPLES)]
pub(crate) struct Changes {
    /// After this revision, as an earlier answer told it [default: the first that is kept; with -f now]
    #[arg(long, value_name = "REVISION")]
    pub(crate) since: Option<String>,
    /// Go on, and print each as it happens; a hub that is away is waited for, and nothing is missed
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Of such things only
    #[arg(long, value_name = "KIND", value_parser = ["tenant", "cluster", "token", "catalog"])]
    pub(crate) kind: Option<String>,
    /// Of this thing only
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Of this tenant, of the tenants below it and of their clusters only
    #[arg(long, value_name = "T", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const FACTS_EXAMPLES: &str = "\
Examples:
  fairlead facts demo
  fairlead facts demo --at 2026-11-01T12:00:00Z
  fairlead facts demo --since 24h --fact kubernetesVersion
  fairlead facts --fact kubernetesVersion --since 7d      # which clusters have changed it";

#[derive(Parser)]
#[command(after_help = FACTS_EXAMPLES)]
pub(crate) struct Facts {
    /// The cluster; without one, all in which `--fact` has changed
    #[arg(value_name = "NAME|ID", required_unless_present = "fact", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: Option<String>,
    /// This one only
    #[arg(long, value_name = "FACT")]
    pub(crate) fact: Option<String>,
    /// As they were then, in RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "since", requires = "name")]
    pub(crate) at: Option<String>,
    /// What has changed in this time [default without a cluster: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<fairlead_runtime::config::Span>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const FIND_EXAMPLES: &str = "\
Examples:
  fairlead find host shop.example.com
  fairlead find version '<1.31'
  fairlead find service 'postgres<15'
  fairlead find fact distribution=openshift4
  fairlead find fact 'nodes.count>=3' version '>=1.29,<1.31'";

#[derive(Parser)]
#[command(after_help = FIND_EXAMPLES)]
pub(crate) struct Find {
    /// Pairs of host, version, service or fact, and what it must be; all must be so
    #[arg(value_name = "KIND TERM", required = true, num_args = 2..)]
    pub(crate) terms: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  fairlead import lieutenant --kubeconfig lieutenant.yaml --namespace lieutenant --dry-run
  kubectl get tenants,tenanttemplates,clusters,gitrepos -A -o yaml | fairlead import lieutenant -f -";

#[derive(Subcommand)]
pub(crate) enum Import {
    /// Tenants, clusters and repositories of Project Syn's Lieutenant; again, to catch up
    #[command(after_help = IMPORT_EXAMPLES)]
    Lieutenant {
        /// File with its objects in YAML or JSON, a folder of such files, or - for standard input; repeatable
        #[arg(
            short,
            long = "filename",
            value_name = "F",
            required_unless_present = "kubeconfig"
        )]
        files: Vec<std::path::PathBuf>,
        /// Read them from this cluster
        #[arg(long, value_name = "F", conflicts_with = "files")]
        kubeconfig: Option<std::path::PathBuf>,
        /// Context of that kubeconfig [default: its current one]
        #[arg(long, value_name = "C", requires = "kubeconfig")]
        context: Option<String>,
        /// Namespace there [default: all]
        #[arg(long, value_name = "N", requires = "kubeconfig")]
        namespace: Option<String>,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}
