//! Heartbeats of the other hubs on the database: determines the live ones, and so the validity of
//! their observations. Each hub sends a heartbeat every [`BEAT`].
//!
//! The reader judges by its own clock: the time without a new heartbeat while the database was
//! readable. Clocks of machines are never compared, and a database outage declares no hub dead.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use fairlead_api::{
    Code, HubUrl,
    resources::{ClusterState, ClusterStatus, LastError},
};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::{millis::from_millis, observed::Observed};

/// Interval of sending and reading heartbeats.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// A hub without a heartbeat for this long is dead, with all its sessions.
pub(super) const SILENT: Duration = Duration::from_secs(10);
/// A hub without a heartbeat for this long is suspect.
const DOUBT: Duration = Duration::from_secs(5);

/// A hub's row in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubRow {
    pub(super) id: String,
    pub(super) url: String,
    /// Last heartbeat, in milliseconds since 1970 by the database's clock.
    pub(super) beat: i64,
    /// Age of the last heartbeat, in milliseconds.
    pub(super) age: i64,
    /// The hub has announced its end.
    pub(super) ended: bool,
}

#[derive(Debug, Clone)]
struct Peer {
    url: Option<HubUrl>,
    beat: i64,
    ended: bool,
    /// Arrival of its last heartbeat, by this hub's clock.
    heard: Instant,
    living: bool,
}

/// All hubs except this one.
#[derive(Debug, Default)]
pub(super) struct Peers {
    known: BTreeMap<String, Peer>,
    looked: Option<Instant>,
}

impl Peers {
    /// Updates from the hubs' rows; returns the hubs whose liveness changed.
    pub(super) fn look(&mut self, rows: Vec<HubRow>, now: Instant) -> BTreeSet<String> {
        let looked = self.looked.replace(now);
        let was_blind = looked.is_some_and(|at| now - at > DOUBT);
        let before = mem::take(&mut self.known);
        for row in rows {
            let peer = judge(before.get(&row.id), &row, was_blind, now);
            self.known.insert(row.id, peer);
        }
        let stands = |peer: &Peer| (peer.living, peer.url.clone(), peer.ended);
        let ids = before.keys().chain(self.known.keys());
        let other = |id: &&String| before.get(*id).map(stands) != self.known.get(*id).map(stands);
        ids.filter(other).cloned().collect()
    }

    /// False for an unknown hub.
    pub(super) fn lives(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|peer| peer.living)
    }

    /// True if a live hub has a name that sorts before this one.
    pub(super) fn precede(&self, id: &str) -> bool {
        let mut before = self.known.range::<str, _>((Unbounded, Excluded(id)));
        before.any(|(_, peer)| peer.living)
    }

    /// URL of a hub with a recent heartbeat.
    pub(super) fn sure(&self, id: &str, now: Instant) -> Option<&HubUrl> {
        let peer = self.known.get(id)?;
        let sure = peer.living && now - peer.heard < DOUBT;
        peer.url.as_ref().filter(|_| sure)
    }

    /// A hub's observation adjusted by its liveness: sessions end with their hub.
    pub(super) fn read(&self, id: &str, said: &Observed) -> Observed {
        let mut said = said.clone();
        said.by = Some(id.into());
        if !claims(&said.status) {
            return said;
        }
        match self.known.get(id) {
            Some(peer) if peer.living => said.status.hub.clone_from(&peer.url),
            gone => lose(&mut said.status, gone),
        }
        said
    }
}

fn judge(known: Option<&Peer>, row: &HubRow, was_blind: bool, now: Instant) -> Peer {
    let age = Duration::from_millis(u64::try_from(row.age).unwrap_or_default());
    let same = known.filter(|known| known.beat == row.beat);
    let heard = match same {
        Some(known) if was_blind && known.living => now,
        Some(known) => known.heard,
        None => now.checked_sub(age).unwrap_or(now),
    };
    let recent = match same {
        // A dead hub stays dead until its next heartbeat.
        Some(known) => known.living && now - heard < SILENT,
        None => age < SILENT,
    };
    Peer {
        url: row.url.parse().ok(),
        beat: row.beat,
        ended: row.ended,
        heard,
        living: recent && !row.ended,
    }
}

/// True if the status implies a session.
pub(super) fn claims(status: &ClusterStatus) -> bool {
    matches!(
        status.state,
        ClusterState::Connected | ClusterState::ApiUnreachable
    )
}

/// Derived from database content only, so every hub computes the same.
fn lose(status: &mut ClusterStatus, hub: Option<&Peer>) {
    let beat = hub.and_then(|hub| from_millis(hub.beat).ok());
    let since = beat.or(status.last_seen);
    let what = match hub {
        Some(hub) if hub.ended => "was shut down",
        _ => "is gone",
    };
    let url = hub.and_then(|hub| hub.url.as_ref());
    let url = url.map_or(String::new(), |url| format!(", {url},"));
    let cause = format!("the hub that it was connected to{url} {what}");
    lose_at(status, since.unwrap_or(status.since), &cause);
}

/// Marks the session as lost together with its hub.
pub(super) fn lose_at(status: &mut ClusterStatus, since: OffsetDateTime, cause: &str) {
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
            beat,
            age: i64::try_from(age.as_millis()).unwrap(),
            ended: false,
        }
    }

    fn looks(peers: &mut Peers, start: Instant, seconds: u64, beat: i64) -> (bool, bool) {
        let now = start + Duration::from_secs(seconds);
        let other = peers.look(vec![row(beat, Duration::ZERO)], now);
        (peers.lives("one"), !other.is_empty())
    }

    #[test]
    fn a_hub_is_lost_ten_seconds_after_its_last_beat_and_back_with_the_next() {
        let (mut peers, start) = (Peers::default(), Instant::now());
        assert_eq!(looks(&mut peers, start, 0, 1), (true, true));
        for seconds in [2, 4, 6, 8] {
            assert_eq!(looks(&mut peers, start, seconds, 1), (true, false));
        }
        assert!(peers.sure("one", start + Duration::from_secs(4)).is_some());
        assert!(peers.sure("one", start + Duration::from_secs(8)).is_none());
        assert_eq!(looks(&mut peers, start, 10, 1), (false, true));
        assert_eq!(looks(&mut peers, start, 12, 1), (false, false));
        assert_eq!(looks(&mut peers, start, 14, 2), (true, true));
    }

    #[test]
    fn who_begins_believes_no_hub_that_has_long_been_silent_or_said_good_bye() {
        let (mut peers, now) = (Peers::default(), Instant::now());
        peers.look(vec![row(1, Duration::from_secs(60))], now);
        assert!(!peers.lives("one"));
        let ended = HubRow {
            ended: true,
            ..row(2, Duration::ZERO)
        };
        peers.look(vec![ended], now);
        assert!(!peers.lives("one") && !peers.lives("two"));
    }

    #[test]
    fn of_those_that_live_one_is_the_first() {
        let (mut peers, start) = (Peers::default(), Instant::now());
        assert!(!peers.precede("two"), "it is alone");
        looks(&mut peers, start, 0, 1);
        assert!(peers.precede("two"));
        assert!(!peers.precede("one") && !peers.precede("of these"));
        for seconds in [4, 8, 12] {
            looks(&mut peers, start, seconds, 1);
        }
        assert!(!peers.precede("two"), "it lives no more");
    }

    #[test]
    fn a_database_that_was_away_kills_nobody() {
        let (mut peers, start) = (Peers::default(), Instant::now());
        assert_eq!(looks(&mut peers, start, 0, 1), (true, true));
        assert_eq!(looks(&mut peers, start, 60, 1), (true, false));
        assert_eq!(looks(&mut peers, start, 62, 2), (true, false));
    }

    #[test]
    fn what_a_lost_hub_said_of_sessions_is_over_since_it_was_heard_last() {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut said = Observed::nothing(at(0));
        said.status.state = ClusterState::Connected;
        let (mut peers, start) = (Peers::default(), Instant::now());
        looks(&mut peers, start, 0, 5_000);
        let read = peers.read("one", &said).status;
        assert_eq!((read.state, read.since), (ClusterState::Connected, at(0)));
        assert_eq!(read.hub.unwrap().host(), "one.example.com");
        for seconds in [3, 6, 9, 12] {
            looks(&mut peers, start, seconds, 5_000);
        }
        let read = peers.read("one", &said).status;
        assert_eq!((read.state, read.since), (ClusterState::Lost, at(5)));
        assert_eq!(read.hub, None);
        let error = read.last_error.unwrap();
        assert_eq!(error.code, Code::Lost);
        assert!(error.cause.contains("one.example.com"), "{}", error.cause);
    }
}
