//! Events about deployments.

use fairlead_api::{BundleId, Failure, RunId, delivery::DriftedObject};
use fairlead_manifests::{HealthSummary, ObjectKey, drift::Baseline};
use serde_json::Value;

use super::deployment::RollbackNote;

/// News of one deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftReport {
    /// The bundle.
    pub bundle: BundleId,
    /// The change.
    pub event: DriftEvent,
}

/// A change of a deployment. Each event replaces the previous one of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum DriftEvent {
    /// Objects that differ, at most 20. Empty: none differs any more.
    Drifted {
        /// Objects with fields and managers.
        objects: Vec<DriftedObject>,
        /// Sentence for people, with its code. None: a correction follows by itself, or nothing differs.
        failure: Option<Failure>,
    },
    /// Objects were corrected.
    Corrected {
        /// Objects as they had differed.
        objects: Vec<DriftedObject>,
        /// Baselines for the journal. They save comparisons after a restart.
        baselines: Vec<(ObjectKey, Baseline)>,
        /// The run, if the hub knows it.
        run: Option<RunId>,
    },
    /// A GitOps tool worked with its own change: these objects are the last good state now.
    LastGood(Vec<(ObjectKey, Value)>),
    /// Objects were given their last good state back, because the tool did not work with its own change.
    RolledBack {
        /// Objects with the fields of the change.
        objects: Vec<DriftedObject>,
        /// The change, and its returns so far.
        rollbacks: RollbackNote,
    },
    /// A person must decide. None: no object is blocked any more.
    Blocked(Option<Failure>),
    /// Health of the objects changed; also sent once all objects were read.
    HealthChanged(HealthSummary),
    /// Fields that others set beside those of the bundle, at most 20 objects.
    BesideChanged(Vec<DriftedObject>),
}
