//! Resources of the hub's own API: JSON in camelCase, times in RFC 3339. The hub's `/openapi.json` describes every path and
//! field. Failures are [`crate::Reason`]s.

mod access;
mod activity;
mod adoption;
mod agent;
mod ca;
mod change;
mod cluster;
mod compile;
mod exchange;
mod git_credential;
mod merge_request;
mod present;
mod quota;
mod repo;
mod repo_content;
mod request;
mod role;
mod service;
mod sign_in;
mod site;
mod status;
mod tenant;
mod token;
mod upgrade;
mod vault;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::HubUrl;

pub use access::{AccessComment, AccessDecision, AccessRequest, AccessState, CreateAccessRequest};
pub use activity::{Activity, ClusterActivity, HubSessionsActivity, HubVersion, SessionsActivity};
pub use adoption::{Adoption, AdoptionByCode, AdoptionState, ApproveAdoption};
pub use agent::AgentSettings;
pub use ca::{CaBehind, CaInfo, CaPhase, CaStatus, RetireCa, RetiredCaInfo};
pub use change::{ChangeEntry, Changes, Operation, ResourceKind, UnknownName};
pub use cluster::{
    AgentInvitation, BootstrapState, BootstrapToken, Cluster, ClusterFields, CreateCluster,
    CreatedCluster, JoinInfo, MoveCluster,
};
pub use compile::{CompileMeta, InstanceVersion, SourceVersion};
pub use exchange::{ExchangeToken, ExchangedToken};
pub use git_credential::{GitCredentialDocument, GitCredentials, SetGitCredential};
pub use merge_request::{
    CiState, MergeOrder, MergeRequestDocument, MergeRequestList, MergeState, RepositoryFailure,
};
pub use quota::TenantQuotas;
pub use repo::{
    ConfirmHostKeys, CreationPolicy, Credentials, DeletionPolicy, DeployKey, GeneratedKey,
    GitServerList, GitServerStatus, HostKey, HostKeySource, KubeApi, RepoDocument, RepoDrift,
    RepoKind, RepoPhase, RepoStateDocument, RetiredRepoDocument, RetiredRepositories,
    ScannedHostKeys, TenantRepoDocument, without_secret,
};
pub use repo_content::{
    AccessTokenSettings, AccessTokenState, CiVariable, CompilePipelineDocument, DeletedFile,
    RepoAccessToken, TemplateFile, ValueSource,
};
pub use request::{
    CreateLock, EndedRequests, Lock, LockKind, RequestKind, RunningRequest, RunningRequestList,
};
pub use role::{Role, UnknownRole};
pub use service::{
    PutService, ServiceDocument, ServiceName, ServiceNameError, ServicePorts, ServicePortsError,
    ServiceProtocol, ServiceState,
};
pub use sign_in::{ExchangeIssuer, SignInFlow, SignInIssuer, SignInOptions};
pub use site::{DIRECT, MAX_SITE_HUBS, PROXY_SECRET_KEY, SiteProxy, SiteSettings};
pub use status::{
    AgentSession, AgentSessionList, ClusterState, ClusterStatus, ClusterStatusEntry,
    ClusterStatusUpdate, DetectedClone, LastError,
};
pub use tenant::{CreateTenant, TemplateDocument, Tenant};
pub use token::{
    ApiToken, ApiTokenOwner, CallerGrant, CallerGrantKind, CreateToken, CreatedToken,
    HandOverToken, RotateStewardToken, RotatedStewardToken, WhoAmI,
};
pub use upgrade::{
    AgentUpgrade, AgentUpgradeState, ClusterUpgrade, ClusterUpgradeState, CreateAgentUpgrade,
};
pub use vault::{
    RetiredVaultAccesses, RetiredVaultDocument, VaultAccess, VaultAccessState, VaultNames,
    VaultPhase,
};

/// Response to `GET /v1/hub`: the data to write a kubeconfig.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubInfo {
    /// Version of the hub.
    pub version: String,
    /// URL for people and agents.
    #[schema(value_type = String)]
    pub public_url: HubUrl,
    /// Domain of the cluster names, like `clusters.hub.example`.
    pub cluster_domain: String,
    /// True if the hub's certificate is valid for names under `cluster_domain`.
    pub names_covered: bool,
    /// CA of the hub's certificate, in PEM; `None` for a public CA.
    #[schema(required = true)]
    pub ca: Option<String>,
    /// Name of the authenticated caller.
    pub caller: String,
}

/// List of resources, ordered by id.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// Resources of the list.
    #[schema(inline)]
    pub items: Vec<T>,
}
