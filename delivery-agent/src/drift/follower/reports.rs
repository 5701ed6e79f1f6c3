//! Events of a deployment: sent when they differ from the last one of their kind.

use fairlead_api::{Code, Failure, delivery::DriftedObject};
use fairlead_manifests::{Health, HealthSummary};

use super::{super::event::DriftEvent, Worker, state::ObjectState};

/// Objects in an event.
const MAX_OBJECTS: usize = 20;

/// Last sent values.
#[derive(Debug, Default)]
pub(super) struct Reported {
    drift: Option<(Vec<DriftedObject>, Option<Failure>)>,
    blocked: Option<Failure>,
    health: Option<HealthSummary>,
    beside: Vec<DriftedObject>,
}

/// Values of a deployment now.
struct Current {
    drift: Vec<DriftedObject>,
    failed: Option<Failure>,
    blocked: Option<Failure>,
    /// None until each object was read.
    health: Option<HealthSummary>,
    beside: Vec<DriftedObject>,
}

impl Worker<'_> {
    /// Sends all changed values.
    pub(super) async fn report(&mut self) {
        let current = self.current();
        let failure = match current.drift.first() {
            None => current.failed,
            Some(first) => Some(current.failed.unwrap_or_else(|| found(first))),
        };
        let drift = (current.drift, failure);
        let is_first = self.reported.drift.is_none() && drift.0.is_empty() && drift.1.is_none();
        if !is_first && self.reported.drift.as_ref() != Some(&drift) {
            let (objects, failure) = drift.clone();
            self.reported.drift = Some(drift);
            self.send(DriftEvent::Drifted { objects, failure }).await;
        }
        if self.reported.blocked != current.blocked {
            self.reported.blocked.clone_from(&current.blocked);
            self.send(DriftEvent::Blocked(current.blocked)).await;
        }
        if current.health.is_some() && self.reported.health != current.health {
            self.reported.health.clone_from(&current.health);
            if let Some(health) = current.health {
                self.send(DriftEvent::HealthChanged(health)).await;
            }
        }
        if self.reported.beside != current.beside {
            self.reported.beside.clone_from(&current.beside);
            self.send(DriftEvent::BesideChanged(current.beside)).await;
        }
    }

    fn current(&self) -> Current {
        let objects = self.follower.lock();
        let healths = objects.iter().map(|it| it.health.clone());
        let healths: Option<Vec<Health>> = healths.collect();
        let drift = objects.iter().flat_map(|it| &it.drift);
        let beside = objects.iter().flat_map(ObjectState::shown_beside);
        let blocked = objects.iter().find_map(|it| it.blocked.as_deref());
        Current {
            drift: drift.take(MAX_OBJECTS).cloned().collect(),
            failed: objects.iter().find_map(|it| it.failed.as_deref()).cloned(),
            blocked: blocked.or_else(|| self.repair.stopped()).cloned(),
            health: healths.map(HealthSummary::of),
            beside: beside.take(MAX_OBJECTS).collect(),
        }
    }
}

/// Sentence of a difference.
fn found(first: &DriftedObject) -> Failure {
    let object = &first.object;
    let fields = first.fields.join(", ");
    let cause = match (&first.manager, first.fields.is_empty()) {
        (None, true) => format!("{object} does not exist, or is being deleted"),
        (None, false) => format!("{object} differs in {fields}; others removed or changed it"),
        (Some(manager), true) => format!("{object} differs; {manager} changed it"),
        (Some(manager), false) => format!("{object} differs in {fields}; {manager} changed it"),
    };
    Failure::with_cause(Code::DriftFound, cause)
}
