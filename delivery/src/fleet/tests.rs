//! Rollouts of a hub with a real store, and agents as reports.

mod catalogs;
mod hub;
mod memory;
mod purge;
mod restart;
mod rollouts;
mod stored_rows;
mod targets;
mod tombstones;
mod tools;
