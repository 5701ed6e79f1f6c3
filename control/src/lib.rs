//! The hub: all its modules wired together ([`Control`]), and backups of its data by the platform operator.
//!
//! A module holds the store, the clock and its own settings, imports no other module, and plugs into the gateway through
//! its `Module` trait. No byte of a kubectl request passes through this crate.

pub mod backup;

mod authorities;
mod bootstrap_key;
mod ca_error;
mod checkup;
mod config;
mod control;
mod epoch;
mod files;
mod front_files;
mod keys;
mod keys_error;
mod local;
mod loss;
mod modules;
mod opening;
mod reconciling;
mod secrets;

pub use config::Config;
pub use control::Control;
pub use fairlead_delivery::ProgramProxy;
pub use fairlead_issuers as issuers;
pub use fairlead_registry::{BOOTSTRAP_TTL, PERSON_TOKEN_TTL};
pub use fairlead_repositories as repositories;
pub use front_files::FrontFiles;
pub use modules::{
    access::{ACCESS_MAX, AccessSettings, EMERGENCY_MAX},
    certificates::CertificateExpiry,
    enroll::{self, ADOPTION_TTL, AdoptionSettings, EnrollSettings},
    git_proxy::{GitAddress, GitAddressError, GitProxySettings},
    services::ServiceSettings,
};
