//! Rigs that the tests of several crates share: fakes of an API server, a hub, an agent and an InfluxDB,
//! clients that may break every rule of HTTP, and real processes.
//!
//! Only tests and the bench depend on this crate. Every wait has a deadline, and every child process ends with
//! the process that started it, also when that one is killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a rig that cannot go on fails its test"
)]

pub mod agent;
pub mod api_server;
pub mod body;
#[cfg(feature = "clock")]
pub mod clock;
pub mod collector;
pub mod fake_influxdb;
pub mod fake_issuer;
pub mod git_server;
pub mod hub;
pub mod influxdb;
pub mod layers;
pub mod mounts;
pub mod opened;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod relay;
pub mod reserved_port;
pub mod server;
mod service;
pub mod spawner;
pub mod tls;
pub mod wait;
pub mod wall_clock;
