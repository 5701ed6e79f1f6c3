//! Resource types of the registry as stored: tenants, clusters with facts and compile metadata,
//! tokens. Plain data; `registry` validates writes, `store` persists them.
//!
//! The fields follow Project Syn's SDD 0007. Each is optional on disk, so that older rows stay
//! readable.

mod access;
mod adoption;
mod authorities;
mod cluster;
mod delivery;
mod fact;
mod git;
pub mod hex;
mod lock;
mod person;
mod service;
mod tenant;
mod token;
mod upgrade;
mod vault;

pub use access::{AccessAct, AccessGrant, AccessHolder};
pub use adoption::PendingAdoption;
pub use authorities::{Authorities, CaRecord, RetiredCa};
pub use cluster::{AgentCa, Binding, Bootstrap, CloneSighting, Cluster, LateRenewal, PurgeOrder};
pub use delivery::{
    BundleRecord, BundleSource, CatalogOrigin, Generation, MAX_GENERATIONS, SourcePoll, ToolOrigin,
};
pub use fact::{Fact, Facts};
/// Parts of documents that are stored as received.
pub use fairlead_api::{
    delivery::Group as ClusterGroup,
    facts::FactSource,
    resources::{
        AccessTokenSettings, AccessTokenState, AgentSettings, CompileMeta, CreationPolicy,
        Credentials, DeletionPolicy, DeployKey, GeneratedKey, InstanceVersion, KubeApi,
        RepoAccessToken, RepoDrift, RepoKind, RepoPhase, SourceVersion, TemplateFile, TenantQuotas,
        ValueSource, VaultNames, VaultPhase,
    },
};
pub use git::{
    CompilePipeline, ConfirmedHostKeys, GitCredential, GitRepo, RepoState, RetiredRepository,
    StoredVariable,
};
pub use lock::{AccessLock, LockTarget, SelectedRequests};
pub use person::{Person, PersonRights, PersonRole};
pub use service::ServiceRecord;
pub use tenant::{ClusterTemplate, Tenant};
pub use token::{PersonOwner, Token, TokenOwner};
pub use upgrade::{ClusterUpgradeOrder, FleetUpgrade, UpgradeProgress};
pub use vault::{RetiredVaultAccess, VaultState};
