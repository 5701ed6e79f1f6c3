//! What the registry keeps, as it keeps it: tenants, clusters with their facts and what was compiled for them, tokens.
//! Values without behaviour; what may be written is for `registry` to judge, how it is written for `store`.
//!
//! The fields are those of Project Syn's SDD 0007; each is optional on disk, so that older rows can be read.

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
