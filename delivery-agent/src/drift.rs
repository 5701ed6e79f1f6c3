//! Drift: finds changes of applied objects by others, corrects them, and follows the health of the objects.
//!
//! An engine hands over each deployment after a run with [`DriftMonitor::follow`], and takes it back with
//! [`DriftMonitor::release`] before the next run. In between it reads [`DriftEvent`]s. Nothing here deletes an object,
//! except one that its manifest allows to be made again.

mod access;
mod announce;
mod api;
mod correct;
mod deployment;
mod event;
mod examine;
mod fenced;
mod fingerprint;
mod follower;
mod health;
mod kube;
mod monitor;
mod watch;

pub use access::{AccessError, CorrectionOutcome, CorrectionRun, DriftAccess};
pub use api::{EventStream, ObjectApi};
pub use deployment::{
    DeliveryOwner, FollowedDeployment, FollowedObject, RollbackNote, mark_release_object,
};
pub use event::{DriftEvent, DriftReport};
pub(crate) use fenced::DriftGrant;
pub use fenced::FencedAccess;
pub use monitor::DriftMonitor;

pub(crate) use examine::{ignored_of, keep_ignored};
pub(crate) use watch::session::{Notice, Position, WatchEnd, watch};

#[cfg(test)]
pub(crate) mod tests;
