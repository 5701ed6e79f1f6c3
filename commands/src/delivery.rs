//! Commands of delivery: bundles, their sources, rollouts, deployments and runs.

mod bundles;
mod deploy;
mod deployments;
mod diff;
mod document;
mod folder;
mod follow;
mod groups;
mod plan;
mod progress;
pub(crate) mod removal;
mod rollouts;
mod runs;
mod sources;

pub(crate) use self::{
    bundles::{bundle, rollback},
    deploy::deploy,
    deployments::deployment,
    diff::diff,
    groups::group,
    rollouts::rollout,
    runs::run,
    sources::source,
};
