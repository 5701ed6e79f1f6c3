//! Decisions about Kubernetes objects: parse, change, order, health, inventory, drift, failures.
//!
//! All functions are pure: no clock, no file, no request. Objects are [`serde_json::Value`]s.

pub mod drift;
mod failure;
mod fields;
mod health;
mod inventory;
mod object;
mod order;
mod ownership;
mod patch;
mod prepare;
mod prune;
pub mod repair;
mod secret;
mod sentence;
mod substitute;
pub mod yaml;

pub use failure::{Failure, FailureKind, FieldConflict, RequestContext, failure};
pub use health::{HEALTH_ANNOTATION, HEALTH_IGNORED, Health, HealthState, HealthSummary, health};
pub use inventory::{Inventory, InventoryEntry, InventoryError, MAX_PACKED_BYTES};
pub use object::{ObjectKey, ObjectKind};
pub use order::{Stage, apply_stages, delete_stages};
pub use ownership::{RECREATE_ANNOTATION, foreign_owner, may_recreate};
pub use patch::{PatchError, apply_patches, matches};
pub use prepare::{
    BUNDLE_LABEL, BundleContext, GENERATION_ANNOTATION, PrepareError, Prepared, Scope, clean,
    prepare,
};
pub use prune::{
    DeleteDecision, PrunePlan, decide_delete, decide_delete_owned, is_risky, plan_prune,
    plan_removal,
};
pub use secret::{HIDDEN, HIDDEN_CHANGED, hide_secret_values};
pub use substitute::{SubstituteError, substitute};
