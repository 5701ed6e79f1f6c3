//! Rigs that the tests of several crates share: real processes, and clients that may break every rule of HTTP.
//!
//! Only tests and the bench depend on this crate. Every wait has a deadline, and every child process ends with
//! the process that started it, also when that one is killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a rig that cannot go on fails its test"
)]

#[cfg(feature = "clock")]
pub mod clock;
pub mod influxdb;
pub mod mounts;
pub mod postgres;
pub mod process;
pub mod raw;
mod service;
pub mod spawner;
pub mod wait;
