//! Arguments of the commands for the registry and its store.

use clap::{Parser, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::TimeSpan;

use super::{
    access::cluster_state,
    agent_settings::ClusterAgent,
    common::OutputArgs,
    common::SiteArgs,
    fields::{NewCluster, SetCluster},
    inspect::{ClusterCatalog, Compiled},
    lists::{CLUSTER_LIST_EXAMPLES, ClusterList, TENANT_LIST_EXAMPLES, TenantList},
    tokens::{ClusterIdentity, ClusterSteward, ClusterToken},
};
use crate::{
    complete::{clusters, tenants},
    fields::{TenantFields, display_name},
};

#[derive(Subcommand)]
pub enum TenantArgs {
    /// Create a tenant
    #[command(
        after_help = "Examples:\n  fairlead tenant create acme\n  fairlead tenant create 'Zürich GmbH' --id zurich"
    )]
    Create {
        /// Display name
        #[arg(value_parser = display_name)]
        name: String,
        /// Id of the tenant [default: t-NAME]
        #[arg(long, value_name = "ID", value_parser = fairlead_api::TenantId::from_name)]
        id: Option<fairlead_api::TenantId>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the visible tenants
    #[command(visible_alias = "ls", after_help = TENANT_LIST_EXAMPLES)]
    List(TenantList),
    /// Show one tenant
    Get {
        /// Id of the tenant
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        /// Keep watching, and print it again when it changes
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Describe a tenant: fields, clusters and last changes
    Describe {
        /// Id of the tenant
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
    },
    /// Create or change tenants and clusters from documents
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Edit a tenant in an editor (VISUAL, EDITOR)
    Edit {
        /// Id of the tenant
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
    /// Change single fields of a tenant
    #[command(
        after_help = "Examples:\n  fairlead tenant set t-acme --name 'Acme Ltd' --annotation sla=gold\n  fairlead tenant set t-acme --parent t-group --git-repo ssh://git@git.example/acme/config.git"
    )]
    Set {
        /// Id of the tenant
        #[arg(add = ArgValueCompleter::new(tenants))]
        id: String,
        #[command(flatten)]
        fields: Box<TenantFields>,
        /// Validate on the hub and show the changes, without making them
        #[arg(long)]
        dry_run: bool,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
    /// Delete tenants; a tenant with clusters needs --cascade
    Delete {
        /// Ids of the tenants
        #[arg(value_name = "ID", required = true, add = ArgValueCompleter::new(tenants))]
        ids: Vec<String>,
        /// Delete its clusters and its descendants with their clusters, too
        #[arg(long)]
        cascade: bool,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

const APPLY_EXAMPLES: &str = "\
Examples:
  fairlead cluster apply -f clusters.yaml --dry-run
  fairlead cluster get demo -o yaml > demo.yaml      # then change it, and
  fairlead cluster apply -f demo.yaml

A document has the fields of the API (docs/api.md) and an `id`. The prefix of the id, or a field `kind` (Tenant, Cluster),
selects the resource. Fields that a document omits stay as they are; `null` removes a field.";

#[derive(Parser)]
pub struct Apply {
    /// File of YAML or JSON documents, a folder of such files, or - for standard input; repeatable
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<std::path::PathBuf>,
    /// Remove fields that a document omits
    #[arg(long)]
    pub(crate) replace: bool,
    /// Validate on the hub and show the changes, without making them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip the confirmation prompt for removed values, removed protection and changed repositories
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub enum ClusterArgs {
    /// Register a cluster and print the install command for its site
    Create(NewCluster),
    /// Print the agent's install manifest for `kubectl apply -f -`; it contains the bootstrap token
    #[command(
        after_help = "Examples:\n  fairlead cluster manifest demo | kubectl apply -f -\n  fairlead cluster manifest demo --operator-namespaces shop,web | kubectl apply -f -"
    )]
    Manifest {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        site: SiteArgs,
    },
    /// Print the values of the agent's chart for `helm --values -`; they contain the bootstrap token
    #[command(
        after_help = "Example:\n  fairlead cluster values demo | helm upgrade --install fairlead-agent deploy/charts/fairlead-agent --namespace fairlead --create-namespace --values -"
    )]
    Values {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        site: SiteArgs,
    },
    /// List the visible clusters
    #[command(visible_alias = "ls", after_help = CLUSTER_LIST_EXAMPLES)]
    List(ClusterList),
    /// Show one cluster
    Get {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Keep watching, and print it again when it changes
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Describe a cluster: status with last error and next step, sessions, facts, configuration, last changes
    Describe {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
    },
    /// Change single fields of a cluster
    Set(SetCluster),
    /// Create or change clusters and tenants from documents
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Edit a cluster in an editor (VISUAL, EDITOR)
    Edit {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
    /// Wait until clusters are in a state, and show each step
    #[command(
        after_help = "Examples:\n  fairlead cluster wait demo\n  fairlead cluster wait edge-1 edge-2 --for Lost --timeout 10m"
    )]
    Wait {
        /// Clusters, by name or id
        #[arg(value_name = "NAME|ID", required = true, add = ArgValueCompleter::new(clusters))]
        names: Vec<String>,
        /// State to wait for; kubectl works in state Connected
        #[arg(long = "for", value_name = "Never|Connected|ApiUnreachable|Lost", default_value = "Connected", value_parser = cluster_state)]
        state: fairlead_api::resources::ClusterState,
        /// Longest time to wait
        #[arg(long, value_name = "DURATION", default_value = "30m")]
        timeout: fairlead_api::TimeSpan,
    },
    /// Move a cluster to another tenant; this revokes its identity, and its agent has to enrol again
    Move {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// New tenant, by id
        #[arg(value_name = "TENANT", add = ArgValueCompleter::new(tenants))]
        to: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Manage bootstrap tokens; one token lets one agent enrol
    Token {
        #[command(subcommand)]
        command: ClusterToken,
    },
    /// Manage the identity of a cluster's agent
    Identity {
        #[command(subcommand)]
        command: ClusterIdentity,
    },
    /// Manage the token of Project Syn's Steward
    Steward {
        #[command(subcommand)]
        command: ClusterSteward,
    },
    /// Show the effective values of a cluster, each from the cluster or its tenant's template
    Effective(OneCluster),
    /// Show the configuration of a cluster's agent
    Config(OneCluster),
    /// List the sessions of a cluster's agents on the current hub
    Sessions(OneCluster),
    /// Show or replace the catalog of a cluster: its desired Kubernetes objects
    Catalog {
        #[command(subcommand)]
        command: ClusterCatalog,
    },
    /// Find clusters by component version, or by the time since their last compilation
    Compiled(Compiled),
    /// Show or change the agent settings of a cluster, which override those of its tenant
    Agent {
        #[command(subcommand)]
        command: ClusterAgent,
    },
    /// Delete clusters; this ends their sessions and revokes their identities
    Delete(ClusterDelete),
}

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead cluster delete edge-1 edge-2\n  fairlead cluster delete -l env=test\n  fairlead cluster delete edge-1 --purge"
)]
pub struct ClusterDelete {
    /// Clusters, by name or id
    #[arg(value_name = "NAME|ID", required_unless_present = "selector", add = ArgValueCompleter::new(clusters))]
    pub(crate) names: Vec<String>,
    /// Delete the clusters that match a Kubernetes label selector over annotations and facts
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub(crate) selector: Option<String>,
    /// First let the agents remove all delivered objects, and wait for that
    #[arg(long)]
    pub(crate) purge: bool,
    /// End a purge instead: the bundles are delivered again, and no cluster is deleted
    #[arg(long, requires = "purge")]
    pub(crate) cancel: bool,
    /// Longest wait for the objects of each cluster
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "purge")]
    pub(crate) timeout: TimeSpan,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Parser)]
pub struct OneCluster {
    /// Cluster, by name or id
    #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const CHANGES_EXAMPLES: &str = "\
Examples:
  fairlead changes                     # all retained changes
  fairlead changes -f                  # from now on
  fairlead changes --since 1042 -f -o json | jq -r .id";

#[derive(Parser)]
#[command(after_help = CHANGES_EXAMPLES)]
pub struct ChangesArgs {
    /// Revision of an earlier answer, to continue after it [default: the oldest retained change; with -f now]
    #[arg(long, value_name = "REVISION")]
    pub(crate) since: Option<String>,
    /// Keep following, and print each change as it happens; survives restarts of the hub without gaps
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Filter: changes of this kind of resource
    #[arg(long, value_name = "KIND", value_parser = ["tenant", "cluster", "token", "catalog", "bundle", "group", "source"])]
    pub(crate) kind: Option<String>,
    /// Filter: changes of the resource with this id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Filter: changes of this tenant, its descendants and their clusters
    #[arg(long, value_name = "TENANT", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<fairlead_api::TenantId>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const FACTS_EXAMPLES: &str = "\
Examples:
  fairlead facts demo
  fairlead facts demo --at 2026-11-01T12:00:00Z
  fairlead facts demo --since 24h --fact kubernetesVersion
  fairlead facts --fact kubernetesVersion --since 7d      # changes of this fact in all clusters";

#[derive(Parser)]
#[command(after_help = FACTS_EXAMPLES)]
pub struct FactsArgs {
    /// Cluster, by name or id [default: all clusters, with --fact]
    #[arg(value_name = "NAME|ID", required_unless_present = "fact", add = ArgValueCompleter::new(clusters))]
    pub(crate) name: Option<String>,
    /// Filter: the fact with this name
    #[arg(long, value_name = "FACT")]
    pub(crate) fact: Option<String>,
    /// Show the facts at this time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with = "since", requires = "name")]
    pub(crate) at: Option<String>,
    /// Show the changes of this last period [default without a cluster: 24h]
    #[arg(long, value_name = "DURATION")]
    pub(crate) since: Option<fairlead_api::TimeSpan>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const FIND_EXAMPLES: &str = "\
Examples:
  fairlead find host shop.example.com
  fairlead find version '<1.31'
  fairlead find service 'postgres<15'
  fairlead find component ingress-nginx '<4.11'
  fairlead find fact distribution=openshift4
  fairlead find fact 'nodes.count>=3' version '>=1.29,<1.31'";

#[derive(Parser)]
#[command(after_help = FIND_EXAMPLES)]
pub struct Find {
    /// Pairs of a kind (host, version, service, component, fact) and a term; a cluster must match all of them
    #[arg(value_name = "KIND TERM", required = true, num_args = 2..)]
    pub(crate) terms: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  fairlead import lieutenant --kubeconfig lieutenant.yaml --namespace lieutenant --dry-run
  kubectl get tenants,tenanttemplates,clusters,gitrepos -A -o yaml | fairlead import lieutenant -f -";

#[derive(Subcommand)]
pub enum Import {
    /// Import tenants, clusters and repositories of Project Syn's Lieutenant; can be repeated
    #[command(after_help = IMPORT_EXAMPLES)]
    Lieutenant {
        /// File with Lieutenant's objects in YAML or JSON, a folder of such files, or - for standard input; repeatable
        #[arg(
            short,
            long = "filename",
            value_name = "FILE",
            required_unless_present = "kubeconfig"
        )]
        files: Vec<std::path::PathBuf>,
        /// Kubeconfig of the cluster to read Lieutenant's objects from
        #[arg(long, value_name = "FILE", conflicts_with = "files")]
        kubeconfig: Option<std::path::PathBuf>,
        /// Context of that kubeconfig [default: its current one]
        #[arg(long, value_name = "CONTEXT", requires = "kubeconfig")]
        context: Option<String>,
        /// Namespace to read [default: all]
        #[arg(long, value_name = "NAMESPACE", requires = "kubeconfig")]
        namespace: Option<String>,
        /// Show the changes without making them
        #[arg(long)]
        dry_run: bool,
    },
}
