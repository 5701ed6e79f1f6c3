//! The links with the hub: one supervisor each, and the identity that all of them share.

pub(crate) mod dial;
mod drain;
mod enrolment;
mod hello;
pub(crate) mod identity_manager;
mod parked;
mod reconnect;
mod renewal;
mod retry;
mod serve;
pub(crate) mod supervisor;
