//! Facts of clusters: reports of agents and programs, history, search, inventory, and export to
//! InfluxDB.
//!
//! A caller never receives a fact of a cluster that it may not see. No request waits for InfluxDB,
//! except a query that is forwarded to it. This crate changes only the facts of a cluster.

mod apply;
mod find;
mod history;
mod influx;
mod inventory;
mod module;
mod report;
mod show;
mod state;

pub use influx::{Influx, InfluxConfig, InfluxLogin, InfluxUrl};
pub use module::FactsModule;
