//! The store on a real PostgreSQL: the contract of every backend, and PostgreSQL's specifics.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

mod before;
#[path = "../store/contract.rs"]
mod contract;
mod deliveries;
#[path = "../store/delivery.rs"]
mod delivery;
#[path = "../store/delivery_rows.rs"]
mod delivery_rows;
#[path = "../store/fact_history.rs"]
mod fact_history;
#[path = "../store/history.rs"]
mod history;
#[path = "../modules/rig.rs"]
#[allow(dead_code, reason = "it fits more tests than these")]
mod hub;
mod hubs;
mod influx;
#[path = "../store/kit.rs"]
mod kit;
mod leader;
#[path = "../store/million.rs"]
mod million;
#[path = "../store/observed.rs"]
mod observed;
#[path = "../store/quotas.rs"]
mod quotas;
mod restart;
mod rig;
mod sessions;
mod sources;
#[path = "../store/spending.rs"]
mod spending;
mod steps;
#[path = "../store/whole.rs"]
mod whole;

pub(crate) use kit::*;
