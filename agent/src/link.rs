//! Links with the hub: one supervisor for each, and the identity shared by all.

mod adoption;
pub(crate) mod ca_report;
pub(crate) mod diagnosis;
pub(crate) mod dial;
mod enrolment;
mod establish;
mod hello;
pub(crate) mod identity_manager;
pub(crate) mod links;
mod parked;
mod reconnect;
mod renewal;
pub(crate) mod retry;
mod serve;
mod session;
mod state;
mod supervisor;
