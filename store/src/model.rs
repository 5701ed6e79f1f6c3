//! Resource types of the registry as stored: tenants, clusters with facts and compile metadata,
//! tokens. Plain data; `registry` validates writes, `store` persists them.
//!
//! The fields follow Project Syn's SDD 0007. Each is optional on disk, so that older rows stay
//! readable.

mod agent;
mod cluster;
mod compile;
mod fact;
mod git;
pub mod hex;
mod tenant;
mod token;

pub use agent::AgentSettings;
pub use cluster::{Binding, Bootstrap, CloneSighting, Cluster, KubeApi, LateRenewal};
pub use compile::{CompileMeta, InstanceVersion, SourceVersion};
pub use fact::{Fact, FactSource, Facts};
pub use git::{
    CreationPolicy, Credentials, DeletionPolicy, DeployKey, GitRepo, RepoKind, RepoPhase,
    RepoState, without_secret,
};
pub use tenant::{ClusterTemplate, Tenant};
pub use token::Token;
