//! Git servers of the hub behind the seam of `fairlead-repositories`: GitLab, GitHub, Gitea and
//! Forgejo. One reconciliation for all, with the API of each provider below it.

mod address;
mod api_calls;
mod blob;
mod config;
mod credential_place;
mod credentials;
mod deploy_key;
mod detect;
mod groups;
mod host_keys;
mod kubernetes_secrets;
mod merge_requests;
mod provider;
mod providers;
mod reconcile;
mod server;
mod variable_values;

pub use config::{ServerSettings, open, open_each};
pub use detect::ProviderKind;
pub use server::ProvidedServer;
