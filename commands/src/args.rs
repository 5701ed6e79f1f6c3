//! Definition of the commands and their flags.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

mod access;
mod adoption;
mod agent_settings;
mod ca;
mod common;
mod delivery;
mod fields;
mod git_server;
mod grants;
mod inspect;
mod lists;
mod merge_requests;
mod registry;
mod revocation;
mod services;
mod tcp;
mod tokens;
mod top;
mod upgrades;
mod vault;

use clap::Subcommand;

pub(crate) use self::access::{
    Credential, HubsArgs, Kubeconfig, KubeconfigAddress, KubeconfigCommand, KubeconfigSync, Login,
    Logout,
};
pub(crate) use self::adoption::{AdoptionArgs, ApproveArgs};
pub(crate) use self::agent_settings::{AgentField, AgentFields, ClusterAgent, ToolFields};
pub(crate) use self::ca::{CaArgs, ConfirmRestore, RetireArgs};
pub use self::common::{HubPlace, OutputArgs};
pub(crate) use self::delivery::{
    BundleArgs, BundleDelete, DeployArgs, DeploymentArgs, DeploymentList, DiffArgs, FolderArgs,
    GroupArgs, OneDeployment, RollbackArgs, RolloutArgs, RolloutList, RolloutStatusArgs, RunArgs,
    RunCreate, RunList, RunLogs, RunWait, SourceAdd, SourceArgs,
};
pub(crate) use self::fields::{NewCluster, SetCluster};
pub(crate) use self::git_server::{ConfirmKeysArgs, GitCredentialArgs, GitServerArgs};
pub(crate) use self::grants::{AccessArgs, AccessDecisionArgs, AccessWish};
pub(crate) use self::inspect::{
    Audit, AuditCommand, AuditRequests, ClusterCatalog, Compiled, InventoryArgs, RecordingArgs,
};
pub(crate) use self::lists::{ClusterList, TenantList, TokenList};
pub(crate) use self::merge_requests::{MaintenanceArgs, MergeArgs, MergeRequestFilters};
pub(crate) use self::registry::{
    Apply, ChangesArgs, ClusterArgs, ClusterDelete, FactsArgs, Find, Import, OneCluster, TenantArgs,
};
pub(crate) use self::revocation::{LockArgs, LocksArgs, RequestFilters, SessionsArgs, UnlockArgs};
pub(crate) use self::services::ServiceArgs;
pub(crate) use self::tcp::{ForwardArgs, NcArgs, ProxyArgs};
pub(crate) use self::tokens::{ClusterIdentity, ClusterSteward, ClusterToken, LocalHub, TokenArgs};
pub(crate) use self::top::TopArgs;
pub use self::upgrades::AgentUpgradeArgs;
pub(crate) use self::upgrades::{OneUpgrade, UpgradeArgs, UpgradeGet};
pub(crate) use self::vault::VaultArgs;

/// Command that talks to a hub.
#[derive(Subcommand)]
pub enum HubCommand {
    /// Manage tenants, the owners of clusters
    #[command(subcommand)]
    Tenant(TenantArgs),
    /// Manage registered clusters
    #[command(subcommand)]
    Cluster(ClusterArgs),
    /// Approve or refuse agents that announced themselves without a join string
    #[command(subcommand)]
    Adoption(AdoptionArgs),
    /// List, pause and cancel upgrades of agents
    #[command(subcommand)]
    Upgrade(UpgradeArgs),
    /// Show facts of clusters, current and past
    Facts(FactsArgs),
    /// Find clusters by host, version, service, component or fact
    Find(Find),
    /// Store facts, and query their history in InfluxQL
    #[command(subcommand)]
    Inventory(InventoryArgs),
    /// List or follow changes of the registry
    Changes(ChangesArgs),
    /// List changes with author and values, latest first
    Audit(Audit),
    /// List and play recordings of terminal sessions
    #[command(subcommand)]
    Recording(RecordingArgs),
    /// Manage API tokens of people and programs
    #[command(subcommand)]
    Token(TokenArgs),
    /// Confirm host keys of Git servers, and list repositories of deleted owners
    #[command(subcommand)]
    GitServer(GitServerArgs),
    /// List and merge merge requests of Renovate and others in the repositories of a tenant
    #[command(subcommand)]
    Maintenance(MaintenanceArgs),
    /// List and keep the access to Vault of deleted clusters
    #[command(subcommand)]
    Vault(VaultArgs),
    /// Rotate the hub's CA, without an end of any session
    #[command(subcommand)]
    Ca(CaArgs),
    /// Request, approve and end roles for a time
    #[command(subcommand)]
    Access(AccessArgs),
    /// Show clusters with their state, round trip, requests and bytes per second
    #[command(after_help = top::TOP_EXAMPLES)]
    Top(TopArgs),
    /// List and end running requests: exec, port-forward, logs, watches
    #[command(subcommand)]
    Sessions(SessionsArgs),
    /// Lock a user, token, cluster or tenant at once
    #[command(after_help = revocation::LOCK_EXAMPLES)]
    Lock(LockArgs),
    /// Remove a lock
    #[command(after_help = revocation::UNLOCK_EXAMPLES)]
    Unlock(UnlockArgs),
    /// List locks
    #[command(subcommand)]
    Locks(LocksArgs),
    /// Deploy a folder of manifests or a Helm chart to clusters, in waves
    #[command(after_help = delivery::DEPLOY_EXAMPLES)]
    Deploy(Box<DeployArgs>),
    /// Compare a folder with clusters, by a dry run in each of them
    #[command(after_help = delivery::DIFF_EXAMPLES)]
    Diff(Box<DiffArgs>),
    /// Manage bundles: content, options and targets of deliveries
    #[command(subcommand)]
    Bundle(BundleArgs),
    /// Roll a bundle back to the content of an earlier generation
    #[command(after_help = delivery::ROLLBACK_EXAMPLES)]
    Rollback(RollbackArgs),
    /// Show, stop and continue rollouts of bundles
    #[command(subcommand)]
    Rollout(RolloutArgs),
    /// Show and manage deployments: bundles in clusters
    #[command(subcommand)]
    Deployment(DeploymentArgs),
    /// Show, cancel and make runs: executions of deployments
    #[command(subcommand)]
    Run(RunArgs),
    /// Manage Git repositories whose folders become bundles
    #[command(subcommand)]
    Source(SourceArgs),
    /// Manage groups: named selectors of clusters
    #[command(subcommand)]
    Group(GroupArgs),
    /// Confirm a restore: identities and tokens from before it are valid again
    #[command(after_help = "Example:\n  fairlead confirm-restore")]
    ConfirmRestore(ConfirmRestore),
    /// Import from the registry of another program
    #[command(subcommand)]
    Import(Import),
    /// Print a kubeconfig with one context for each cluster
    Kubeconfig(Kubeconfig),
    /// Print a token for kubectl (client.authentication.k8s.io/v1)
    Credential(Credential),
    /// Log in to a hub: sign in through its issuer, or store your token
    Login(Login),
    /// Log out of a hub: delete its stored token
    Logout(Logout),
    /// List and select the hubs of your logins
    #[command(subcommand)]
    Hub(HubsArgs),
    /// Manage named services: addresses in clusters for which the hub listens
    #[command(subcommand)]
    Service(ServiceArgs),
    /// Forward local ports to addresses in a cluster, such as a database
    #[command(after_help = tcp::FORWARD_EXAMPLES)]
    Forward(ForwardArgs),
    /// Connect standard input and output to an address in a cluster
    #[command(after_help = tcp::NC_EXAMPLES)]
    Nc(NcArgs),
    /// Run a local proxy into a cluster: SOCKS5, and HTTP by CONNECT
    #[command(after_help = tcp::PROXY_EXAMPLES)]
    Proxy(ProxyArgs),
    /// Show your name and role on the hub and in clusters
    Whoami(OutputArgs),
}
