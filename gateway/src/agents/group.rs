//! The registered sessions of one cluster: registration, choice, and the status of the cluster, which is that of its
//! best session. Only [`DownSessions`] waits, outside the lock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fairlead_api::{
    ClusterId, ClusterUid, Code, Failure,
    hello::{Instance, LinkIndex},
    resources::{AgentSession, ClusterState, ClusterStatus, LastError},
};
use fairlead_dialer::{CloseReason, LinkState};
use fairlead_runtime::workers;
use futures_util::future::select_all;
use time::OffsetDateTime;
use tokio::{sync::watch, time::Instant};

use super::{
    choice::{Candidate, ProbeOutcome},
    entry::{SessionEntry, Traffic},
    health::ProbeResult,
    silence::Silence,
    status_queue::StatusQueue,
};

/// Interval of reports while only the times of contact change.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Limit of registered sessions of one cluster: two agents with the maximum of links.
const MAX_SESSIONS: usize = 16;

/// Peer of a session, as it has named itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionIdentity {
    pub(crate) name: (Instance, LinkIndex),
    pub(crate) uid: Option<ClusterUid>,
    /// The directory has recognised its cluster.
    pub(crate) known: bool,
    /// Version of the agent, printable and short.
    pub(crate) version: Box<str>,
}

struct RegisteredSession {
    entry: Arc<SessionEntry>,
    identity: SessionIdentity,
    probe: ProbeOutcome,
    contact: LastContact,
    rtt: Option<Duration>,
    status: Option<ClusterStatus>,
    chosen: u64,
}

/// Times of the last contact with an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LastContact {
    /// Last answer.
    pub(super) seen: Option<OffsetDateTime>,
    /// Last answer with a ready API server.
    pub(super) good: Option<OffsetDateTime>,
}

impl LastContact {
    fn after(&mut self, probed: &ProbeResult, now: OffsetDateTime) {
        match probed {
            ProbeResult::Good => {
                self.seen = Some(now);
                self.good = Some(now);
            }
            ProbeResult::Bad(_) => self.seen = Some(now),
            ProbeResult::Silent(_) | ProbeResult::Down(_) => {}
        }
    }

    /// The status with these times in it.
    pub(super) fn apply_to(self, status: ClusterStatus) -> ClusterStatus {
        ClusterStatus {
            last_seen: self.seen,
            last_good_probe: self.good,
            ..status
        }
    }
}

/// Activity of a cluster's sessions on this hub.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterActivity {
    pub(super) instances: Vec<Instance>,
    /// Version of each agent.
    pub(super) agents: Vec<Box<str>>,
    /// Version of each agent whose first link has a session here that is up. Among several hubs one at most has it.
    pub(super) first_links: Vec<Box<str>>,
    /// Shortest round trip.
    pub(super) rtt: Option<Duration>,
    pub(super) requests_open: usize,
    pub(super) traffic: Traffic,
}

#[derive(Default)]
pub(super) struct ClusterSessions {
    /// Oldest first.
    sessions: Vec<RegisteredSession>,
    /// Notifies of new sessions. Created when a request waits for one, which is rare.
    added: Option<watch::Sender<()>>,
    /// Last contact of all sessions, those that have ended included.
    contact: LastContact,
    last_report: Option<LastStatus>,
    /// Traffic of sessions that have left.
    ended: Traffic,
}

/// Last report of a cluster's status.
struct LastStatus {
    status: ClusterStatus,
    at: Instant,
}

impl RegisteredSession {
    fn candidate(&self) -> Candidate {
        Candidate {
            down: !self.entry.session().is_up() || self.entry.silence_of_agent().is_some(),
            unknown: !self.identity.known,
            full: self.entry.is_full(),
            probe: self.probe,
            running: self.entry.load(),
            rtt: self.rtt,
            elsewhere: self.entry.core() != workers::core(),
            chosen: self.chosen,
        }
    }

    fn is_first_link(&self) -> bool {
        let (_, link) = self.identity.name;
        link.index() == 0 && self.entry.session().is_up()
    }

    fn describe(&self) -> AgentSession {
        let (instance, link) = self.identity.name;
        AgentSession {
            hub: None,
            from: self.entry.from(),
            opened: self.entry.opened(),
            instance,
            link,
            agent_version: self.identity.version.as_ref().to_owned(),
            up: self.entry.session().is_up(),
            recognised: self.identity.known,
            requests: self.entry.load(),
            unread_bytes: self.entry.session().stats().unread,
            rtt_micros: self.rtt.and_then(|rtt| rtt.as_micros().try_into().ok()),
            last_seen: self.contact.seen,
            last_good_probe: self.contact.good,
            certificate_expires: self.entry.valid_until(),
        }
    }
}

impl ClusterSessions {
    pub(super) fn trigger_probe(&self) {
        self.sessions
            .iter()
            .for_each(|session| session.entry.trigger_probe());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn find(&mut self, entry: &Arc<SessionEntry>) -> Option<&mut RegisteredSession> {
        self.sessions
            .iter_mut()
            .find(|session| Arc::ptr_eq(&session.entry, entry))
    }

    /// Registers a session, or updates its identity.
    ///
    /// # Errors
    /// `FL-1304` if the session had another name before.
    pub(super) fn register(
        &mut self,
        entry: &Arc<SessionEntry>,
        identity: SessionIdentity,
    ) -> Result<(), Failure> {
        if identity.known {
            // The cluster was enrolled again somewhere else: agents in the old cluster are evicted.
            self.evict(CloseReason::Cloned, |session| {
                session.identity.uid.is_some() && session.identity.uid != identity.uid
            });
        }
        if let Some(session) = self.find(entry) {
            if session.identity.name != identity.name {
                let detail = "a session cannot change its name";
                return Err(Failure::because(Code::BadRequest, detail));
            }
            session.identity = identity;
            return Ok(());
        }
        self.evict(CloseReason::Replaced, |session| {
            session.identity.name == identity.name
        });
        if self.sessions.len() >= MAX_SESSIONS {
            // Evicts one without a link, else the oldest one.
            let down = |session: &RegisteredSession| !session.entry.session().is_up();
            let index = self.sessions.iter().position(down).unwrap_or(0);
            let oldest = self.sessions.remove(index);
            self.ended += oldest.entry.traffic();
            oldest.entry.end(CloseReason::Replaced);
        }
        // Most clusters have one session; `push` alone would allocate four.
        self.sessions.reserve_exact(1);
        self.sessions.push(RegisteredSession {
            entry: Arc::clone(entry),
            identity,
            probe: ProbeOutcome::default(),
            contact: LastContact::default(),
            rtt: None,
            status: None,
            chosen: 0,
        });
        if let Some(added) = &self.added {
            added.send_replace(());
        }
        Ok(())
    }

    /// Requests these sessions to end.
    fn evict(&mut self, reason: CloseReason, selects: impl Fn(&RegisteredSession) -> bool) {
        self.sessions.retain(|session| {
            let goes = selects(session);
            if goes {
                self.ended += session.entry.traffic();
                session.entry.end(reason);
            }
            !goes
        });
    }

    /// Removes a session; true if it was registered.
    pub(super) fn deregister(&mut self, entry: &Arc<SessionEntry>) -> bool {
        let before = self.sessions.len();
        self.sessions
            .retain(|session| !Arc::ptr_eq(&session.entry, entry));
        let was_registered = self.sessions.len() < before;
        if was_registered {
            self.ended += entry.traffic();
        }
        was_registered
    }

    /// The best session; it is marked as chosen in this `turn`.
    pub(super) fn choose(&mut self, turn: u64) -> Option<Arc<SessionEntry>> {
        // Most clusters have one session.
        let session = match self.sessions.as_mut_slice() {
            [only] => only,
            sessions => sessions
                .iter_mut()
                .min_by_key(|session| session.candidate().rank())?,
        };
        session.chosen = turn;
        Some(Arc::clone(&session.entry))
    }

    /// Core of the best session.
    pub(super) fn core(&self) -> Option<usize> {
        let best = self
            .sessions
            .iter()
            .min_by_key(|it| it.candidate().rank())?;
        Some(best.entry.core())
    }

    pub(super) fn record_probe(
        &mut self,
        entry: &Arc<SessionEntry>,
        probed: &ProbeResult,
        rtt: Option<Duration>,
    ) {
        let now = OffsetDateTime::now_utc();
        let Some(session) = self.find(entry) else {
            return;
        };
        session.probe = probed.into();
        session.contact.after(probed, now);
        session.rtt = rtt;
        self.contact.after(probed, now);
    }

    pub(super) fn record_status(&mut self, entry: &Arc<SessionEntry>, status: ClusterStatus) {
        if let Some(session) = self.find(entry) {
            session.status = Some(status);
        }
    }

    /// Start of this state, if the last report had the same state, for any reason.
    fn since(&self, state: ClusterState) -> Option<OffsetDateTime> {
        let last_report = self
            .last_report
            .as_ref()
            .map(|last_report| &last_report.status);
        last_report
            .filter(|last_report| last_report.state == state)
            .map(|last_report| last_report.since)
    }

    /// Status after the last session has ended. The cluster may have been lost before that.
    pub(super) fn final_status(&self, status: ClusterStatus) -> ClusterStatus {
        let since = self.since(status.state).unwrap_or(status.since);
        self.contact.apply_to(ClusterStatus { since, ..status })
    }

    /// Reports the status if state or code differ from the last report, or [`REPORT_INTERVAL`] is over.
    pub(super) fn report_if_changed(&mut self, cluster: &ClusterId, status_queue: &StatusQueue) {
        let Some(best) = best_status(
            self.sessions
                .iter()
                .filter_map(|session| session.status.as_ref()),
        ) else {
            return;
        };
        let kind = |status: &ClusterStatus| {
            let code = status.last_error.as_ref().map(|error| error.code);
            (status.state, code)
        };
        if let Some(last_report) = &self.last_report
            && kind(&last_report.status) == kind(best)
            && last_report.at.elapsed() < REPORT_INTERVAL
        {
            return;
        }
        let status = ClusterStatus {
            since: self
                .since(best.state)
                .unwrap_or_else(OffsetDateTime::now_utc),
            ..best.clone()
        };
        self.last_report = Some(LastStatus {
            status: status.clone(),
            at: Instant::now(),
        });
        status_queue.put(cluster, self.contact.apply_to(status));
    }

    pub(super) fn sessions(&self) -> Vec<AgentSession> {
        self.sessions
            .iter()
            .map(RegisteredSession::describe)
            .collect()
    }

    /// What the sessions carry now, and have carried.
    pub(super) fn activity(&self) -> ClusterActivity {
        let mut traffic = self.ended;
        for session in &self.sessions {
            traffic += session.entry.traffic();
        }
        let sessions = self.sessions.iter();
        let agents: BTreeMap<[u8; 16], _> = sessions
            .clone()
            .map(|session| {
                (
                    session.identity.name.0.to_bytes(),
                    &session.identity.version,
                )
            })
            .collect();
        let instances = agents.keys().copied().map(Instance::from_bytes);
        let first_links = sessions.clone().filter(|it| it.is_first_link());
        ClusterActivity {
            instances: instances.collect(),
            agents: agents.into_values().cloned().collect(),
            first_links: first_links.map(|it| it.identity.version.clone()).collect(),
            rtt: sessions.clone().filter_map(|session| session.rtt).min(),
            requests_open: sessions.map(|session| session.entry.load()).sum(),
            traffic,
        }
    }

    /// Waits until a session has a link again.
    pub(super) fn wait_for_link(&mut self) -> DownSessions {
        DownSessions {
            entries: self
                .sessions
                .iter()
                .map(|session| session.entry.clone())
                .collect(),
            added: self.added.get_or_insert_default().subscribe(),
        }
    }
}

/// Status of a cluster without a session from now on.
pub(super) fn lost_status(why: LastError) -> ClusterStatus {
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
fn best_status<'a>(all: impl Iterator<Item = &'a ClusterStatus>) -> Option<&'a ClusterStatus> {
    let order = |state| match state {
        ClusterState::Connected => 0,
        ClusterState::ApiUnreachable => 1,
        ClusterState::Lost => 2,
        ClusterState::Never => 3,
    };
    all.min_by_key(|status| (order(status.state), status.since))
}

/// Sessions of a cluster that are all without a link, or with silent agents.
pub(crate) struct DownSessions {
    entries: Vec<Arc<SessionEntry>>,
    added: watch::Receiver<()>,
}

impl DownSessions {
    /// Completes when an agent is reachable again, a session has ended, or a new one has come.
    pub(crate) async fn wait(&mut self) {
        let DownSessions { entries, added } = self;
        let entries = entries.iter().map(|entry| {
            Box::pin(async move {
                tokio::select! {
                    () = entry.reachable() => {}
                    _ = entry.session().closed() => {}
                }
            })
        });
        tokio::select! {
            _ = select_all(entries) => {}
            // The sender is gone: the last session has ended.
            _ = added.changed() => {}
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
            LinkState::Down {
                since, last_error, ..
            } => Some((since, last_error)),
            LinkState::Up => None,
        });
        downs.max_by_key(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests;
