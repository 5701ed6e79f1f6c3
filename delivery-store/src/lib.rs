//! Rows of delivery in the database of a store: contents by digest, deployments, runs and their logs. They are many or large, so the
//! registry's view does not hold them.
//!
//! This crate judges nothing: callers decide, and it reads and writes.

mod contents;
mod database;
mod deployments;
mod logs;
mod runs;

pub use contents::ContentStore;
pub use deployments::{DeploymentRow, DeploymentStore};
pub use logs::{LogPiece, LogStore};
pub use runs::{RunFilter, RunRow, RunStore};
