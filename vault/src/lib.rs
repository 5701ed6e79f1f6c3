//! Access of clusters to their secrets in a HashiCorp Vault: for each cluster one policy, one auth
//! method of the kind `jwt`, `kubernetes` or `approle`, and one role.
//!
//! The hub makes and removes these parts. It never reads or writes the value of a secret.

mod access;
mod calls;
mod config;
mod error;
mod jwk;
mod login;
mod overrides;
mod reconcile;
mod retire;
mod settings;
mod token;
mod vault;

pub use access::{DesiredAccess, JWT, RetiredAccess, SecretAccess, SecretsEnd};
pub use config::open;
pub use error::VaultError;
pub use jwk::KeysError;
pub use vault::Vault;
