//! Compatibility with clients of Project Syn's Lieutenant, and improvements: one test for each line
//! of `docs/lieutenant.md`, through the real front of a hub.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod better;
mod contract;
mod document;
mod keep;
mod ours;
mod rig;
