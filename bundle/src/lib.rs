//! Bundles: their file `fairlead.yaml`, targets, variables, specs of clusters, plans, and canonical archives.
//!
//! All functions are pure: no file, no socket, no clock. Hub, agent and command line share them.

mod canonical;
mod cluster;
mod dependencies;
pub mod fields;
pub mod folder;
mod generation;
mod layers;
mod plan;
mod renderer;
mod targets;
pub mod variables;

pub use canonical::{canonical_json, content_id, spec_id};
pub use cluster::ClusterView;
pub use dependencies::find_cycle;
pub use generation::{Generation, RenderedSpec};
pub use layers::merge_values;
pub use plan::{PlanBuilder, Removal, plan_hash};
pub use renderer::{Outcome, Renderer};
pub use targets::{Choice, choose, matches};
