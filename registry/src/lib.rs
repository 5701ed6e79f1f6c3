//! Registry of a hub: tenants, clusters and API tokens, visibility of them, and ETags.
//!
//! A resource the caller may not see is answered like one that does not exist. This crate imports no
//! other module; [`Services`] contains the functions it needs from them.

mod about;
mod access;
mod activity;
pub mod agent_keys;
pub mod agent_settings;
mod bootstrap;
mod changes;
mod clusters;
mod compile;
mod directory;
mod document;
mod document_cache;
mod effective_fact;
mod error;
mod etag;
mod git_credentials;
mod grants;
mod identity;
mod imported;
mod known;
mod leading;
mod listing;
mod locks;
mod metrics;
mod module;
mod names;
mod orders;
mod owners;
mod person_roles;
mod registry;
mod replaced;
mod retired;
mod rights;
mod services;
mod sign_ins;
mod signed_in;
pub mod stale;
mod status;
pub mod streams;
mod template;
mod tenants;
mod tokens;
mod untarget;

pub use directory::{RESTARTED, admit};
pub use effective_fact::{EffectiveFact, label_of};
pub use error::RegistryError;
pub use etag::{Precondition, answer as tagged, check_tag, check_unchanged, listed};
pub use git_credentials::git_credential_of;
pub use grants::holder_of;
pub use leading::LeaderPasses;
pub use listing::{FACT_FILTER, Listing};
pub use locks::{LOCK, MAX_REASON_CHARS, checked_reason};
pub use module::RegistryModule;
pub use names::caller_name;
pub use orders::{order_failure, order_filter};
pub use person_roles::roles_of;
pub use registry::{BOOTSTRAP_TTL, Discovery, PERSON_TOKEN_TTL, Registry, RegistrySettings, by};
pub use retired::retire_vault_access;
pub use rights::{
    allow, allow_in, allow_in_tenant, allow_somewhere, covers_cluster, has_labels, sees_cluster,
    sees_tenant, visible,
};
pub use services::{
    DesiredConfigs, DesiredDeliveries, Invitations, NoRole, RepoStatus, Sealer, Services,
    ShownRepoState, TokenVerifier, UntargetCheck, VaultStatus, Verified,
};
pub use template::{Effective, template_of, unprotected};
pub use tokens::{
    TokenCondition, find as find_token, mint, mint_for, new as new_token, refuse_reserved,
};
pub use untarget::{confirm_of, confirm_parameter};
