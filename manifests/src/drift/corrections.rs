//! Fights: objects that we correct again and again.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::compare::ChangedField;
use crate::object::ObjectKey;

/// Corrections of one object within [`FIGHT_WINDOW`] that are a fight.
pub const FIGHT_CORRECTIONS: usize = 5;
/// Time in which corrections count.
pub const FIGHT_WINDOW: Duration = Duration::from_secs(600);

/// Times of recent corrections by object. Times count from any fixed moment.
#[derive(Debug, Clone, Default)]
pub struct Corrections {
    times: BTreeMap<ObjectKey, VecDeque<Duration>>,
}

impl Corrections {
    /// Notes a correction.
    pub fn record(&mut self, key: &ObjectKey, now: Duration) {
        let times = self.times.entry(key.clone()).or_default();
        times.push_back(now);
        if times.len() > FIGHT_CORRECTIONS {
            times.pop_front();
        }
    }

    /// True if the object must not be corrected again until a person decides.
    #[must_use]
    pub fn is_fight(&self, key: &ObjectKey, now: Duration) -> bool {
        let Some(times) = self.times.get(key) else {
            return false;
        };
        let recent = times
            .iter()
            .filter(|it| now.saturating_sub(**it) < FIGHT_WINDOW);
        recent.count() >= FIGHT_CORRECTIONS
    }

    /// Forgets an object, after the decision of a person.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.times.remove(key);
    }

    /// Forgets corrections outside of the window.
    pub fn expire(&mut self, now: Duration) {
        self.times.retain(|_, times| {
            times
                .back()
                .is_some_and(|it| now.saturating_sub(*it) < FIGHT_WINDOW)
        });
    }

    /// Sentence of a fight, like `hpa and this bundle fight over .spec.replicas of Deployment shop/web`.
    #[must_use]
    pub fn sentence(key: &ObjectKey, fields: &[ChangedField]) -> String {
        let managers: std::collections::BTreeSet<_> = fields
            .iter()
            .filter_map(|it| it.manager.as_deref())
            .collect();
        let managers = if managers.is_empty() {
            "an unknown manager".to_owned()
        } else {
            managers.into_iter().collect::<Vec<_>>().join(", ")
        };
        let paths: Vec<_> = fields.iter().map(|it| it.path.to_string()).collect();
        format!(
            "{managers} and this bundle fight over {} of {key}",
            paths.join(", ")
        )
    }
}
