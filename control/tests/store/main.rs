//! The store in a SQLite file: the contract of every backend, and SQLite's specifics.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

mod contract;
mod delivery;
mod delivery_rows;
mod fact_history;
mod history;
mod kit;
mod million;
mod observed;
mod quotas;
mod rig;
mod spending;
mod sqlite;
mod steps;
mod whole;

pub(crate) use kit::*;
