//! The hub's modules: registry (tenants, clusters, tokens), enroll (bootstrap tokens, certificates, install manifest),
//! catalog (what a cluster should run), repositories (who makes them), certificates (the hub's own). They share one store and one authority, and plug
//! into the gateway through its seam. No kubectl byte passes through here.

pub mod clock;
pub mod enroll;
pub mod import;
pub mod issuers;
pub mod model;
pub mod store;
pub mod upkeep;

mod catalog;
mod certificates;
mod configuration;
mod control;
mod data_dir;
mod facts;
mod hub;
mod keys;
mod local;
mod loss;
mod proxies;
mod random;
mod registry;
mod reply;
mod repositories;

pub use certificates::CertificateExpiry;
pub use clock::Clock;
pub use control::{BOOTSTRAP_TTL, Config, Control};
pub use facts::{InfluxConfig, InfluxLogin, InfluxUrl, Reporting};
pub use hub::Discovery;
pub use proxies::Network;
pub use repositories::{GitServer, GitServers, GitTrouble, MadeRepo, RepoOwner, WantedRepo};
