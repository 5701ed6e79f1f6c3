//! Drift: changes of applied objects by others, found in their `managedFields`.
//!
//! An object is compared by a forced dry run only if its metadata differs from the answer to the last apply. See
//! [`Baseline::judge`] for the rule.

mod baseline;
mod compare;
mod corrections;
mod ignore;
mod managed;
mod ownership;
mod paths;
mod report;
mod walk;

pub use baseline::{Baseline, CompareReason, Observation, SAME_SECOND_WINDOW, Seen};
pub use compare::{ChangedField, Comparison, FieldChange, compare};
pub use corrections::{Corrections, FIGHT_CORRECTIONS, FIGHT_WINDOW};
pub use ignore::{LiveField, ignored_pointers, keep_live_values, live_fields};
pub use managed::{BesideField, FieldOwner, ManagedEntry, beside, entries};
pub use ownership::{is_adoptable, rewrite_version, take_over, take_over_lists};
pub use paths::{FieldPath, fields_of, fields_to_json};
pub use report::drifted;
pub use walk::{FieldDifference, WalkRules, differences};

#[cfg(test)]
mod tests;
