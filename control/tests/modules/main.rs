//! The modules as the gateway uses them: routes called without a socket, with a test clock.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

mod access;
mod adoption;
mod archives;
mod artifacts;
mod bundles;
mod ca;
mod catalog;
mod charts;
mod check;
mod clusters;
mod configuration;
mod deliveries;
mod dry_run;
mod enroll;
mod exchange;
mod facts;
mod git_proxy;
mod grants;
mod groups;
mod hidden;
mod hub;
mod imported;
mod influx;
mod inventory;
mod issuers;
mod keys;
mod known;
mod lists;
mod locks;
mod metrics;
mod moves;
mod names;
mod openapi;
mod owners;
mod pages;
mod people;
mod preconditions;
mod registry;
mod renewals;
mod repositories;
mod restore;
mod rig;
mod rights;
mod runs;
mod services;
mod sites;
mod sources;
mod status;
mod steward;
mod strict;
mod uids;
mod untarget;
mod upgrades;
mod vault;
mod visibility;
