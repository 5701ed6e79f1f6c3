//! Rows of delivery in the database of a store: contents by digest, deployments, rollouts, runs and their logs. They are many or large, so the
//! registry's view does not hold them.
//!
//! This crate judges nothing: callers decide, and it reads and writes.

mod contents;
mod database;
mod deployments;
mod logs;
mod rollouts;
mod runs;

pub use contents::ContentStore;
pub use deployments::{DeploymentRow, DeploymentStore};
pub use logs::{LogPiece, LogStore};
pub use rollouts::{RolloutFilter, RolloutRow, RolloutStore, RolloutVersion};
pub use runs::{RUNS_PER_DEPLOYMENT, RunFilter, RunRow, RunStore};
