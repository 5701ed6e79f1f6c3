//! The registered sessions of one cluster: registration, choice, and the status of the cluster, which is that of its
//! best session. Only [`DownSessions`] waits, outside the lock.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    ClusterId, ClusterUid, Code, Failure,
    hello::{Instance, LinkIndex},
    resources::{AgentSession, ClusterState, ClusterStatus, LastError},
};
use fairlead_dialer::{CloseReason, LinkState};
use futures_util::future::select_all;
use time::OffsetDateTime;
use tokio::{sync::watch, time::Instant};

use super::{
    choice::{Probe, Standing},
    entry::Entry,
    health::Probed,
    reports::Reports,
    silence::Silence,
};

/// Interval of reports while only the times of contact change.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Limit of registered sessions of one cluster: two agents with the maximum of links.
const MOST: usize = 16;

/// Peer of a session, as it has named itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) name: (Instance, LinkIndex),
    pub(crate) uid: Option<ClusterUid>,
    /// The directory has recognised its cluster.
    pub(crate) known: bool,
    /// Version of the agent, printable and short.
    pub(crate) version: Box<str>,
}

struct Seat {
    entry: Arc<Entry>,
    of: Introduction,
    probe: Probe,
    contact: Contact,
    rtt: Option<Duration>,
    status: Option<ClusterStatus>,
    chosen: u64,
}

/// Times of the last contact with an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contact {
    /// Last answer.
    pub(super) seen: Option<OffsetDateTime>,
    /// Last answer with a ready API server.
    pub(super) good: Option<OffsetDateTime>,
}

impl Contact {
    fn after(&mut self, probed: &Probed, now: OffsetDateTime) {
        match probed {
            Probed::Good => {
                self.seen = Some(now);
                self.good = Some(now);
            }
            Probed::Bad(_) => self.seen = Some(now),
            Probed::Silent(_) | Probed::Down(_) => {}
        }
    }

    /// The status with these times in it.
    pub(super) fn of(self, status: ClusterStatus) -> ClusterStatus {
        ClusterStatus {
            last_seen: self.seen,
            last_good_probe: self.good,
            ..status
        }
    }
}

#[derive(Default)]
pub(super) struct Group {
    /// Oldest first.
    seats: Vec<Seat>,
    /// Notifies of new sessions. Created when a request waits for one, which is rare.
    news: Option<watch::Sender<()>>,
    /// Last contact of all sessions, those that have ended included.
    contact: Contact,
    told: Option<Told>,
}

/// Last report of a cluster's status.
struct Told {
    status: ClusterStatus,
    at: Instant,
}

impl Seat {
    fn standing(&self) -> Standing {
        Standing {
            down: !self.entry.session().is_up(),
            unknown: !self.of.known,
            full: self.entry.is_full(),
            probe: self.probe,
            running: self.entry.load(),
            rtt: self.rtt,
            chosen: self.chosen,
        }
    }

    fn shown(&self) -> AgentSession {
        let (instance, link) = self.of.name;
        AgentSession {
            from: self.entry.from(),
            opened: self.entry.opened(),
            instance,
            link,
            agent_version: self.of.version.as_ref().to_owned(),
            up: self.entry.session().is_up(),
            recognised: self.of.known,
            requests: self.entry.load(),
            unread_bytes: self.entry.session().stats().unread,
            rtt_micros: self.rtt.and_then(|rtt| rtt.as_micros().try_into().ok()),
            last_seen: self.contact.seen,
            last_good_probe: self.contact.good,
            certificate_expires: self.entry.good_until(),
        }
    }
}

impl Group {
    pub(super) fn has_news(&self) {
        self.seats.iter().for_each(|seat| seat.entry.has_news());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    fn find(&mut self, entry: &Arc<Entry>) -> Option<&mut Seat> {
        self.seats
            .iter_mut()
            .find(|seat| Arc::ptr_eq(&seat.entry, entry))
    }

    /// Registers a session, or updates its identity.
    ///
    /// # Errors
    /// `FL-1304` if the session had another name before.
    pub(super) fn seat(&mut self, entry: &Arc<Entry>, of: Introduction) -> Result<(), Failure> {
        if of.known {
            // The cluster was enrolled again somewhere else: agents in the old cluster are evicted.
            self.part(CloseReason::Cloned, |seat| {
                seat.of.uid.is_some() && seat.of.uid != of.uid
            });
        }
        if let Some(seat) = self.find(entry) {
            if seat.of.name != of.name {
                let detail = "a session keeps the name that it was given first";
                return Err(Failure::because(Code::BadRequest, detail));
            }
            seat.of = of;
            return Ok(());
        }
        self.part(CloseReason::Replaced, |seat| seat.of.name == of.name);
        if self.seats.len() >= MOST {
            // Evicts one without a link, else the oldest one.
            let down = |seat: &Seat| !seat.entry.session().is_up();
            let index = self.seats.iter().position(down).unwrap_or(0);
            self.seats.remove(index).entry.end(CloseReason::Replaced);
        }
        // Most clusters have one session; `push` alone would allocate four.
        self.seats.reserve_exact(1);
        self.seats.push(Seat {
            entry: Arc::clone(entry),
            of,
            probe: Probe::default(),
            contact: Contact::default(),
            rtt: None,
            status: None,
            chosen: 0,
        });
        if let Some(news) = &self.news {
            news.send_replace(());
        }
        Ok(())
    }

    /// Requests these sessions to end.
    fn part(&mut self, reason: CloseReason, who: impl Fn(&Seat) -> bool) {
        self.seats.retain(|seat| {
            let goes = who(seat);
            if goes {
                seat.entry.end(reason);
            }
            !goes
        });
    }

    /// Removes a session; true if it was registered.
    pub(super) fn unseat(&mut self, entry: &Arc<Entry>) -> bool {
        let before = self.seats.len();
        self.seats.retain(|seat| !Arc::ptr_eq(&seat.entry, entry));
        self.seats.len() < before
    }

    /// The best session; it is marked as chosen in this `turn`.
    pub(super) fn choose(&mut self, turn: u64) -> Option<Arc<Entry>> {
        // Most clusters have one session.
        let seat = match self.seats.as_mut_slice() {
            [only] => only,
            seats => seats.iter_mut().min_by_key(|seat| seat.standing().rank())?,
        };
        seat.chosen = turn;
        Some(Arc::clone(&seat.entry))
    }

    pub(super) fn probed(&mut self, entry: &Arc<Entry>, probed: &Probed, rtt: Option<Duration>) {
        let now = OffsetDateTime::now_utc();
        let Some(seat) = self.find(entry) else { return };
        seat.probe = probed.into();
        seat.contact.after(probed, now);
        seat.rtt = rtt;
        self.contact.after(probed, now);
    }

    pub(super) fn report(&mut self, entry: &Arc<Entry>, status: ClusterStatus) {
        if let Some(seat) = self.find(entry) {
            seat.status = Some(status);
        }
    }

    /// Start of this state, if the last report had the same state, for any reason.
    fn since(&self, state: ClusterState) -> Option<OffsetDateTime> {
        let told = self.told.as_ref().map(|told| &told.status);
        told.filter(|told| told.state == state)
            .map(|told| told.since)
    }

    /// Status after the last session has ended. The cluster may have been lost before that.
    pub(super) fn obituary(&self, status: ClusterStatus) -> ClusterStatus {
        let since = self.since(status.state).unwrap_or(status.since);
        self.contact.of(ClusterStatus { since, ..status })
    }

    /// Reports the status if state or code differ from the last report, or [`REPORT_INTERVAL`] is over.
    pub(super) fn tell(&mut self, cluster: &ClusterId, reports: &Reports) {
        let Some(best) = best(self.seats.iter().filter_map(|seat| seat.status.as_ref())) else {
            return;
        };
        let kind = |status: &ClusterStatus| {
            let code = status.last_error.as_ref().map(|error| error.code);
            (status.state, code)
        };
        if let Some(told) = &self.told
            && kind(&told.status) == kind(best)
            && told.at.elapsed() < TELL_AGAIN
        {
            return;
        }
        let status = ClusterStatus {
            since: self
                .since(best.state)
                .unwrap_or_else(OffsetDateTime::now_utc),
            ..best.clone()
        };
        self.told = Some(Told {
            status: status.clone(),
            at: Instant::now(),
        });
        reports.put(cluster, self.contact.of(status));
    }

    pub(super) fn sessions(&self) -> Vec<AgentSession> {
        self.seats.iter().map(Seat::shown).collect()
    }

    /// Waits until a session has a link again.
    pub(super) fn wait(&mut self) -> Down {
        Down {
            entries: self.seats.iter().map(|seat| seat.entry.clone()).collect(),
            news: self.news.get_or_insert_default().subscribe(),
        }
    }
}

/// Status of a cluster without a session from now on.
pub(super) fn lost(why: LastError) -> ClusterStatus {
    ClusterStatus {
        state: ClusterState::Lost,
        since: OffsetDateTime::now_utc(),
        last_error: Some(why),
        last_seen: None,
        last_good_probe: None,
        hub: None,
    }
}

/// The best status of several sessions; of two alike, the one that has lasted longer.
fn best<'a>(all: impl Iterator<Item = &'a ClusterStatus>) -> Option<&'a ClusterStatus> {
    let order = |state| match state {
        ClusterState::Connected => 0,
        ClusterState::ApiUnreachable => 1,
        ClusterState::Lost => 2,
        ClusterState::Never => 3,
    };
    all.min_by_key(|status| (order(status.state), status.since))
}

/// Sessions of a cluster that are all without a link, or with silent agents.
pub(crate) struct Down {
    entries: Vec<Arc<Entry>>,
    news: watch::Receiver<()>,
}

impl Down {
    /// Completes when an agent is reachable again, a session has ended, or a new one has come.
    pub(crate) async fn over(&mut self) {
        let Down { entries, news } = self;
        let entries = entries.iter().map(|entry| {
            Box::pin(async move {
                tokio::select! {
                    () = entry.within_reach() => {}
                    _ = entry.session().closed() => {}
                }
            })
        });
        tokio::select! {
            _ = select_all(entries) => {}
            // The sender is gone: the last session has ended.
            _ = news.changed() => {}
        }
    }

    /// The last silence to begin, if all agents are silent; `None` if one has just lost its link.
    pub(crate) fn silence(&self) -> Option<Arc<Silence>> {
        let silences = self.entries.iter().map(|entry| entry.silence_of_agent());
        let silences = silences.collect::<Option<Vec<_>>>()?;
        silences.into_iter().max_by_key(|silence| silence.since)
    }

    /// Time and cause of the last link's loss.
    pub(crate) fn since(&self) -> Option<(Instant, String)> {
        let links = self.entries.iter().map(|entry| entry.session().link());
        let states = links.map(|link| link.borrow().clone());
        let downs = states.filter_map(|state| match state {
            LinkState::Down { since, last_error } => Some((since, last_error)),
            LinkState::Up => None,
        });
        downs.max_by_key(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: ClusterState, minute: i64, code: Option<Code>) -> ClusterStatus {
        ClusterStatus {
            state,
            since: OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute),
            last_error: code.map(|code| LastError {
                code,
                cause: String::new(),
            }),
            last_seen: None,
            last_good_probe: None,
            hub: None,
        }
    }

    #[test]
    fn an_agent_that_answers_is_seen_and_its_probe_is_good_only_if_its_api_server_is_ready() {
        let at = |minute| OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute);
        let error = || LastError {
            code: Code::ApiUnreachable,
            cause: String::new(),
        };
        let mut contact = Contact::default();
        contact.after(&Probed::Silent(error()), at(1));
        assert_eq!(contact, Contact::default());
        contact.after(&Probed::Good, at(2));
        contact.after(&Probed::Bad(error()), at(3));
        contact.after(&Probed::Down(error()), at(4));
        let status = contact.of(status(ClusterState::Lost, 4, None));
        assert_eq!(
            (status.last_seen, status.last_good_probe),
            (Some(at(3)), Some(at(2)))
        );
    }

    #[test]
    fn a_cluster_that_was_lost_before_its_session_ended_is_lost_since_then() {
        let mut group = Group::default();
        let ended = || status(ClusterState::Lost, 5, Some(Code::SessionBroke));
        assert_eq!(group.obituary(ended()), ended());
        for (told, minute) in [(ClusterState::Lost, 4), (ClusterState::Connected, 5)] {
            group.told = Some(Told {
                status: status(told, 4, Some(Code::Timeout)),
                at: Instant::now(),
            });
            let expected = status(ClusterState::Lost, minute, Some(Code::SessionBroke));
            assert_eq!(group.obituary(ended()), expected);
        }
    }

    #[test]
    fn a_cluster_stands_as_well_as_the_best_of_its_sessions() {
        let lost = status(ClusterState::Lost, 0, Some(Code::SessionBroke));
        let unready = status(ClusterState::ApiUnreachable, 1, Some(Code::ApiUnreachable));
        let (first, second) = (
            status(ClusterState::Connected, 2, None),
            status(ClusterState::Connected, 3, None),
        );
        for (all, expected) in [
            (vec![&lost, &unready, &second, &first], Some(&first)),
            (vec![&lost, &unready], Some(&unready)),
            (vec![&lost], Some(&lost)),
            (vec![], None),
        ] {
            assert_eq!(best(all.into_iter()), expected);
        }
    }
}
