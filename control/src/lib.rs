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

mod catalog;
mod certificates;
mod configuration;
mod control;
mod facts;
mod hub;
mod keys;
mod local;
mod loss;
mod proxies;
mod registry;
mod reply;
mod repositories;

pub use certificates::CertificateExpiry;
pub use control::{BOOTSTRAP_TTL, Config, Control};
pub use facts::{InfluxConfig, InfluxLogin, InfluxUrl, Reporting};
pub use hub::Discovery;
pub use proxies::Network;
pub use repositories::{
    DesiredRepo, GitServer, GitServerError, GitServers, RepoOwner, ReportedRepo,
};
