//! Observed status of one cluster, and the merge of several hubs' observations.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use fairlead_api::{
    Code,
    resources::{ClusterState, ClusterStatus},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::model::FactSource;

/// Observed status of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Connection status.
    pub status: ClusterStatus,
    /// Time of the last report of each source, with or without new facts, in milliseconds since
    /// 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<FactSource, i64>,
    /// Configuration revision applied by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// Time of that report, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<i64>,
    /// Hub that observed the status; `None` for this one.
    #[serde(skip)]
    pub(super) by: Option<Arc<str>>,
}

impl Observed {
    /// The status of a cluster without observations, from its creation.
    #[must_use]
    pub fn nothing(since: OffsetDateTime) -> Self {
        Observed {
            status: ClusterStatus {
                state: ClusterState::Never,
                since,
                last_error: None,
                last_seen: None,
                last_good_probe: None,
                hub: None,
            },
            reported: BTreeMap::new(),
            applied: None,
            applied_at: None,
            by: None,
        }
    }

    /// Time of the agent's last report of facts, in milliseconds since 1970.
    #[must_use]
    pub fn agent_reported(&self) -> Option<i64> {
        self.reported.get(&FactSource::Agent).copied()
    }

    /// Merges two hubs' observations: the better status, and the newest of everything else.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        let (mut best, other) = match rank(&self.status) <= rank(&other.status) {
            true => (self, other),
            false => (other, self),
        };
        let status = &mut best.status;
        status.last_seen = status.last_seen.max(other.status.last_seen);
        status.last_good_probe = status.last_good_probe.max(other.status.last_good_probe);
        for (source, at) in other.reported {
            let last = best.reported.entry(source).or_insert(at);
            *last = at.max(*last);
        }
        if other.applied_at > best.applied_at || best.applied.is_none() {
            (best.applied, best.applied_at) = (other.applied, other.applied_at);
        }
        best
    }
}

/// Smaller is better. Of two equal states the older one wins; a cluster is lost since its last
/// session.
pub(super) fn rank(status: &ClusterStatus) -> (u8, OffsetDateTime, Reverse<OffsetDateTime>) {
    let (since, never) = (status.since, OffsetDateTime::UNIX_EPOCH);
    match status.state {
        ClusterState::Connected => (0, since, Reverse(never)),
        ClusterState::ApiUnreachable => (1, since, Reverse(never)),
        ClusterState::Lost => (2, never, Reverse(since)),
        ClusterState::Never => (3, since, Reverse(never)),
    }
}

/// True if one status continues the other.
pub(super) fn continues(one: &ClusterStatus, other: &ClusterStatus) -> bool {
    let kind = |status: &ClusterStatus| -> (ClusterState, Option<Code>) {
        let code = status.last_error.as_ref().map(|error| error.code);
        (status.state, code)
    };
    kind(one) == kind(other)
}

/// True if two observations differ only by the passage of time.
pub(super) fn differ_in_time_only(before: Option<&Observed>, after: Option<&Observed>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return before.is_none() && after.is_none();
    };
    let (one, changed) = (&before.status, &after.status);
    one.state == changed.state
        && one.since == changed.since
        && one.last_error == changed.last_error
        && one.hub == changed.hub
        && before.applied == after.applied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(seconds)
    }

    fn seen(state: ClusterState, since: i64) -> Observed {
        let mut seen = Observed::nothing(at(since));
        seen.status.state = state;
        seen
    }

    #[test]
    fn the_best_status_of_several_hubs_wins_and_the_last_loss() {
        let connected = || seen(ClusterState::Connected, 5);
        for (one, other, best) in [
            (
                connected(),
                seen(ClusterState::Connected, 6),
                (ClusterState::Connected, 5),
            ),
            (
                connected(),
                seen(ClusterState::Lost, 9),
                (ClusterState::Connected, 5),
            ),
            (
                seen(ClusterState::ApiUnreachable, 7),
                seen(ClusterState::Lost, 9),
                (ClusterState::ApiUnreachable, 7),
            ),
            (
                seen(ClusterState::Lost, 3),
                seen(ClusterState::Lost, 9),
                (ClusterState::Lost, 9),
            ),
            (
                seen(ClusterState::Lost, 3),
                seen(ClusterState::Never, 0),
                (ClusterState::Lost, 3),
            ),
        ] {
            for both in [one.clone().and(other.clone()), other.and(one)] {
                assert_eq!((both.status.state, both.status.since), (best.0, at(best.1)));
            }
        }
    }

    #[test]
    fn the_newest_reports_of_all_hubs_are_kept() {
        let mut one = seen(ClusterState::Connected, 1);
        one.status.last_seen = Some(at(5));
        one.reported.insert(FactSource::Agent, 50);
        (one.applied, one.applied_at) = (Some("old".to_owned()), Some(1));
        let mut other = seen(ClusterState::Lost, 1);
        other.status.last_seen = Some(at(7));
        other.reported = BTreeMap::from([(FactSource::Agent, 40), (FactSource::Steward, 60)]);
        (other.applied, other.applied_at) = (Some("new".to_owned()), Some(2));
        let both = one.and(other);
        assert_eq!(both.status.last_seen, Some(at(7)));
        let reported = [(FactSource::Agent, 50), (FactSource::Steward, 60)];
        assert_eq!(both.reported, BTreeMap::from(reported));
        assert_eq!(both.applied.as_deref(), Some("new"));
    }
}
