//! Modules of the hub: registry (tenants, clusters, tokens), enroll (bootstrap tokens,
//! certificates, install manifest), catalog (desired objects of a cluster), repositories (Git
//! servers), certificates (the hub's own).
//!
//! All modules share one store and one certificate authority. They plug into the gateway through
//! its `Module` trait. No byte of a kubectl request passes through this crate.

pub mod enroll;
pub mod import;
pub mod issuers;
pub mod upkeep;

mod about;
mod catalog;
mod certificates;
mod config;
mod configuration;
mod control;
mod files;
mod keys;
mod local;
mod loss;
mod opening;
mod repositories;
mod wiring;

pub use certificates::CertificateExpiry;
pub use config::{BOOTSTRAP_TTL, Config};
pub use control::Control;
pub use enroll::Network;
pub use repositories::{
    DesiredRepo, GitServer, GitServerError, GitServers, RepoOwner, ReportedRepo,
};
