//! Heartbeats of the other hubs on the database: determines the live ones, and so the validity of
//! their observations. Each hub sends a heartbeat every [`HEARTBEAT_INTERVAL`].
//!
//! The reader judges by its own clock: the time without a new heartbeat while the database was
//! readable. Clocks of machines are never compared, and a database outage declares no hub dead.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use fairlead_api::{
    Code, HubUrl,
    resources::{ClusterState, ClusterStatus, LastError},
};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::{agent_hubs::AgentAddress, millis::from_millis, observed::Observed};

/// Interval of sending and reading heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A hub without a heartbeat for this long is dead, with all its sessions.
pub(super) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// A hub without a heartbeat for this long is suspect.
const SUSPECT_AFTER: Duration = Duration::from_secs(5);

/// A hub's row in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubRow {
    pub(super) id: String,
    pub(super) url: String,
    /// Address for the other hubs; empty if the hub takes no forwarded requests.
    pub(super) address: String,
    /// Address for agents, as [`AgentAddress::column`].
    pub(super) agents: String,
    /// Last heartbeat, in milliseconds since 1970 by the database's clock.
    pub(super) beat: i64,
    /// Age of the last heartbeat, in milliseconds.
    pub(super) age: i64,
    /// The hub has announced its end.
    pub(super) ended: bool,
}

/// A live hub on the same database that takes forwarded requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveHub {
    /// Name of the hub until it ends.
    pub id: Arc<str>,
    /// Address for people and agents.
    pub url: HubUrl,
    /// Address for the other hubs.
    pub address: HubUrl,
}

#[derive(Debug, Clone)]
struct RemoteHub {
    url: Option<HubUrl>,
    address: Option<HubUrl>,
    agents: AgentAddress,
    beat: i64,
    ended: bool,
    /// Arrival of its last heartbeat, by this hub's clock.
    heard: Instant,
    alive: bool,
}

/// All hubs except this one.
#[derive(Debug, Default)]
pub(super) struct RemoteHubs {
    known: BTreeMap<String, RemoteHub>,
    last_read: Option<Instant>,
}

impl RemoteHubs {
    /// Updates from the hubs' rows; returns the hubs with a changed liveness.
    pub(super) fn update(&mut self, rows: Vec<HubRow>, now: Instant) -> BTreeSet<String> {
        let last_read = self.last_read.replace(now);
        let was_unreadable = last_read.is_some_and(|at| now - at > SUSPECT_AFTER);
        let before = mem::take(&mut self.known);
        for row in rows {
            let hub = assess(before.get(&row.id), &row, was_unreadable, now);
            self.known.insert(row.id, hub);
        }
        let liveness = |hub: &RemoteHub| {
            let addresses = (hub.url.clone(), hub.address.clone(), hub.agents.clone());
            (hub.alive, addresses, hub.ended)
        };
        let ids = before.keys().chain(self.known.keys());
        let changed =
            |id: &&String| before.get(*id).map(liveness) != self.known.get(*id).map(liveness);
        ids.filter(changed).cloned().collect()
    }

    /// False for an unknown hub.
    pub(super) fn is_alive(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|hub| hub.alive)
    }

    /// Number of live hubs with another name.
    pub(super) fn live_others(&self, id: &str) -> u32 {
        let others = self.known.iter().filter(|(it, hub)| *it != id && hub.alive);
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }

    /// The live hubs that take forwarded requests.
    pub(super) fn reachable(&self) -> Vec<LiveHub> {
        let live = self.known.iter().filter(|(_, hub)| hub.alive);
        live.filter_map(|(id, hub)| {
            Some(LiveHub {
                id: id.as_str().into(),
                url: hub.url.clone()?,
                address: hub.address.clone()?,
            })
        })
        .collect()
    }

    /// True if another hub has worked on this database lately.
    pub(super) fn has_others(&self, id: &str) -> bool {
        // The row without a name is of the version before several hubs.
        self.known.keys().any(|it| it != id && !it.is_empty())
    }

    /// URLs and addresses for agents of the live hubs.
    pub(super) fn agent_addresses(&self) -> impl Iterator<Item = (&HubUrl, &AgentAddress)> {
        let live = self.known.values().filter(|hub| hub.alive);
        live.filter_map(|hub| Some((hub.url.as_ref()?, &hub.agents)))
    }

    /// URL of a hub with a recent heartbeat.
    pub(super) fn recent_url(&self, id: &str, now: Instant) -> Option<&HubUrl> {
        let hub = self.known.get(id)?;
        let is_recent = hub.alive && now - hub.heard < SUSPECT_AFTER;
        hub.url.as_ref().filter(|_| is_recent)
    }

    /// A hub's observation adjusted by its liveness: sessions end with their hub.
    pub(super) fn adjusted(&self, id: &str, observed: &Observed) -> Observed {
        let mut observed = observed.clone();
        observed.by = Some(id.into());
        if !has_session(&observed.status) {
            return observed;
        }
        match self.known.get(id) {
            Some(hub) if hub.alive => observed.status.hub.clone_from(&hub.url),
            gone => mark_hub_lost(&mut observed.status, gone),
        }
        observed
    }
}

fn assess(
    known: Option<&RemoteHub>,
    row: &HubRow,
    was_unreadable: bool,
    now: Instant,
) -> RemoteHub {
    let age = Duration::from_millis(u64::try_from(row.age).unwrap_or_default());
    let same = known.filter(|known| known.beat == row.beat);
    let heard = match same {
        Some(known) if was_unreadable && known.alive => now,
        Some(known) => known.heard,
        None => now.checked_sub(age).unwrap_or(now),
    };
    let recent = match same {
        // A dead hub stays dead until its next heartbeat.
        Some(known) => known.alive && now - heard < HEARTBEAT_TIMEOUT,
        None => age < HEARTBEAT_TIMEOUT,
    };
    RemoteHub {
        url: row.url.parse().ok(),
        address: row.address.parse().ok(),
        agents: AgentAddress::of_column(&row.agents),
        beat: row.beat,
        ended: row.ended,
        heard,
        alive: recent && !row.ended,
    }
}

/// True if the status implies a session.
pub(super) fn has_session(status: &ClusterStatus) -> bool {
    matches!(
        status.state,
        ClusterState::Connected | ClusterState::ApiUnreachable
    )
}

/// Derived from database content only, so every hub computes the same.
fn mark_hub_lost(status: &mut ClusterStatus, hub: Option<&RemoteHub>) {
    let beat = hub.and_then(|hub| from_millis(hub.beat).ok());
    let since = beat.or(status.last_seen);
    let fate = match hub {
        Some(hub) if hub.ended => "was shut down",
        _ => "is gone",
    };
    let url = hub.and_then(|hub| hub.url.as_ref());
    let url = url.map_or(String::new(), |url| format!(", {url},"));
    let cause = format!("its hub{url} {fate}");
    mark_lost(status, since.unwrap_or(status.since), &cause);
}

/// Marks the session as lost together with its hub.
pub(super) fn mark_lost(status: &mut ClusterStatus, since: OffsetDateTime, cause: &str) {
    status.state = ClusterState::Lost;
    status.since = since.max(status.since);
    status.last_error = Some(LastError {
        code: Code::Lost,
        cause: cause.to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(beat: i64, age: Duration) -> HubRow {
        HubRow {
            id: "one".to_owned(),
            url: "https://one.example.com".to_owned(),
            address: "https://[2001:db8::1]:8443".to_owned(),
            agents: String::new(),
            beat,
            age: i64::try_from(age.as_millis()).unwrap(),
            ended: false,
        }
    }

    fn update_at(hubs: &mut RemoteHubs, start: Instant, seconds: u64, beat: i64) -> (bool, bool) {
        let now = start + Duration::from_secs(seconds);
        let other = hubs.update(vec![row(beat, Duration::ZERO)], now);
        (hubs.is_alive("one"), !other.is_empty())
    }

    #[test]
    fn a_hub_is_dead_ten_seconds_after_its_last_heartbeat_and_alive_with_the_next() {
        let (mut hubs, start) = (RemoteHubs::default(), Instant::now());
        assert_eq!(update_at(&mut hubs, start, 0, 1), (true, true));
        for seconds in [2, 4, 6, 8] {
            assert_eq!(update_at(&mut hubs, start, seconds, 1), (true, false));
        }
        assert!(
            hubs.recent_url("one", start + Duration::from_secs(4))
                .is_some()
        );
        assert!(
            hubs.recent_url("one", start + Duration::from_secs(8))
                .is_none()
        );
        assert_eq!(update_at(&mut hubs, start, 10, 1), (false, true));
        assert_eq!(update_at(&mut hubs, start, 12, 1), (false, false));
        assert_eq!(update_at(&mut hubs, start, 14, 2), (true, true));
    }

    #[test]
    fn a_starting_hub_ignores_silent_and_ended_hubs() {
        let (mut hubs, now) = (RemoteHubs::default(), Instant::now());
        hubs.update(vec![row(1, Duration::from_secs(60))], now);
        assert!(!hubs.is_alive("one"));
        let ended = HubRow {
            ended: true,
            ..row(2, Duration::ZERO)
        };
        hubs.update(vec![ended], now);
        assert!(!hubs.is_alive("one") && !hubs.is_alive("two"));
    }

    #[test]
    fn requests_are_forwarded_to_live_hubs_with_an_address() {
        let (mut hubs, start) = (RemoteHubs::default(), Instant::now());
        let silent = HubRow {
            id: "two".to_owned(),
            ..row(1, Duration::from_secs(60))
        };
        let older_version = HubRow {
            id: "three".to_owned(),
            address: String::new(),
            ..row(1, Duration::ZERO)
        };
        hubs.update(vec![row(1, Duration::ZERO), silent, older_version], start);
        let reachable = hubs.reachable();
        let found: Vec<_> = reachable
            .iter()
            .map(|hub| (&*hub.id, hub.address.host()))
            .collect();
        assert_eq!(found, [("one", "2001:db8::1")]);
    }

    #[test]
    fn a_database_outage_declares_no_hub_dead() {
        let (mut hubs, start) = (RemoteHubs::default(), Instant::now());
        assert_eq!(update_at(&mut hubs, start, 0, 1), (true, true));
        assert_eq!(update_at(&mut hubs, start, 60, 1), (true, false));
        assert_eq!(update_at(&mut hubs, start, 62, 2), (true, false));
    }

    #[test]
    fn sessions_of_a_dead_hub_end_at_its_last_heartbeat() {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut observed = Observed::nothing(at(0));
        observed.status.state = ClusterState::Connected;
        let (mut hubs, start) = (RemoteHubs::default(), Instant::now());
        update_at(&mut hubs, start, 0, 5_000);
        let read = hubs.adjusted("one", &observed).status;
        assert_eq!((read.state, read.since), (ClusterState::Connected, at(0)));
        assert_eq!(read.hub.unwrap().host(), "one.example.com");
        for seconds in [3, 6, 9, 12] {
            update_at(&mut hubs, start, seconds, 5_000);
        }
        let read = hubs.adjusted("one", &observed).status;
        assert_eq!((read.state, read.since), (ClusterState::Lost, at(5)));
        assert_eq!(read.hub, None);
        let error = read.last_error.unwrap();
        assert_eq!(error.code, Code::Lost);
        assert!(error.cause.contains("one.example.com"), "{}", error.cause);
    }
}
