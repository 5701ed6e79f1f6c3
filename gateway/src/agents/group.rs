//! The sessions of one cluster: who sits where, who is chosen, and how the cluster stands by the best of them. Nothing
//! here waits, but [`Down`], which is taken out of the lock.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    ClusterId, ClusterUid, Code, Failure,
    hello::{Instance, Link},
    resources::{ClusterStatus, State},
};
use fairlead_dialer::{CloseReason, LinkState, Session};
use futures_util::future::select_all;
use time::OffsetDateTime;
use tokio::{sync::watch, time::Instant};

use super::{
    choice::{Probe, Standing},
    entry::Entry,
    reports::Reports,
};

/// Sessions of one cluster that serve at once: two agents with as many links as they may have.
const MOST: usize = 16;

/// Whose session it is, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// None: an agent of the version before, which has one session in all.
    pub(crate) name: Option<(Instance, Link)>,
    pub(crate) uid: Option<ClusterUid>,
    /// It is in the very cluster that it should be in.
    pub(crate) known: bool,
}

struct Seat {
    entry: Arc<Entry>,
    of: Introduction,
    probe: Probe,
    rtt: Option<Duration>,
    status: Option<ClusterStatus>,
    chosen: u64,
}

#[derive(Default)]
pub(super) struct Group {
    /// In the order in which they came.
    seats: Vec<Seat>,
    /// Somebody has come.
    news: watch::Sender<()>,
    told: Option<(State, Option<Code>)>,
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
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    fn find(&mut self, entry: &Arc<Entry>) -> Option<&mut Seat> {
        self.seats
            .iter_mut()
            .find(|seat| Arc::ptr_eq(&seat.entry, entry))
    }

    /// Gives a session its seat, or takes note of what it knows by now.
    ///
    /// # Errors
    /// `FL-1304` if it had another name before.
    pub(super) fn seat(&mut self, entry: &Arc<Entry>, of: Introduction) -> Result<(), Failure> {
        if of.known {
            // The cluster was enrolled anew somewhere else: those who are still in the old place have no say any more.
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
            // One that does not work, else the one that has been there longest.
            let down = |seat: &Seat| !seat.entry.session().is_up();
            let index = self.seats.iter().position(down).unwrap_or(0);
            self.seats.remove(index).entry.end(CloseReason::Replaced);
        }
        self.seats.push(Seat {
            entry: Arc::clone(entry),
            of,
            probe: Probe::default(),
            rtt: None,
            status: None,
            chosen: 0,
        });
        self.news.send_replace(());
        Ok(())
    }

    /// Asks the sessions of these seats to end.
    fn part(&mut self, reason: CloseReason, who: impl Fn(&Seat) -> bool) {
        self.seats.retain(|seat| {
            let goes = who(seat);
            if goes {
                seat.entry.end(reason);
            }
            !goes
        });
    }

    /// Whether the session had one.
    pub(super) fn unseat(&mut self, entry: &Arc<Entry>) -> bool {
        let before = self.seats.len();
        self.seats.retain(|seat| !Arc::ptr_eq(&seat.entry, entry));
        self.seats.len() < before
    }

    /// The best session, whose `turn` it is.
    pub(super) fn choose(&mut self, turn: u64) -> Option<Arc<Entry>> {
        // Most clusters have one.
        let seat = match self.seats.as_mut_slice() {
            [only] => only,
            seats => seats.iter_mut().min_by_key(|seat| seat.standing().rank())?,
        };
        seat.chosen = turn;
        Some(Arc::clone(&seat.entry))
    }

    pub(super) fn probed(&mut self, entry: &Arc<Entry>, found: Probe, rtt: Option<Duration>) {
        if let Some(seat) = self.find(entry) {
            seat.probe = found;
            seat.rtt = rtt;
        }
    }

    pub(super) fn report(&mut self, entry: &Arc<Entry>, status: ClusterStatus) {
        if let Some(seat) = self.find(entry) {
            seat.status = Some(status);
        }
    }

    /// Reports how the cluster stands, if that is another way than the one that was told last.
    pub(super) fn tell(&mut self, cluster: &ClusterId, reports: &Reports) {
        let Some(status) = best(self.seats.iter().filter_map(|seat| seat.status.as_ref())) else {
            return;
        };
        let code = status.last_error.as_ref().map(|error| error.code);
        let told = Some((status.state, code));
        if self.told != told {
            self.told = told;
            let since = OffsetDateTime::now_utc();
            reports.put(
                cluster,
                ClusterStatus {
                    since,
                    ..status.clone()
                },
            );
        }
    }

    /// For whoever waits until there is a link again.
    pub(super) fn wait(&self) -> Down {
        let links = self.seats.iter().map(|seat| {
            let session = seat.entry.session();
            (session.link(), session.clone())
        });
        Down {
            links: links.collect(),
            news: self.news.subscribe(),
        }
    }
}

/// The best of several sessions' statuses is the cluster's; of two that are alike, the one that holds for longer.
fn best<'a>(all: impl Iterator<Item = &'a ClusterStatus>) -> Option<&'a ClusterStatus> {
    let order = |state| match state {
        State::Connected => 0,
        State::ApiUnreachable => 1,
        State::Lost => 2,
        State::Never => 3,
    };
    all.min_by_key(|status| (order(status.state), status.since))
}

/// All of a cluster's links are down.
pub(crate) struct Down {
    links: Vec<(watch::Receiver<LinkState>, Session)>,
    news: watch::Receiver<()>,
}

impl Down {
    /// Completes when a link is up again, a session has ended, or a new one has come.
    pub(crate) async fn over(&mut self) {
        let Down { links, news } = self;
        let links = links.iter_mut().map(|(link, session)| {
            Box::pin(async move {
                let up = async {
                    if link.wait_for(|link| *link == LinkState::Up).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = up => {}
                    _ = session.closed() => {}
                }
            })
        });
        tokio::select! {
            _ = select_all(links) => {}
            // The group is gone: its last session has ended.
            _ = news.changed() => {}
        }
    }

    /// Since when there is no link, and why.
    pub(crate) fn since(&self) -> Option<(Instant, String)> {
        let states = self.links.iter().map(|(link, _)| link.borrow().clone());
        let downs = states.filter_map(|state| match state {
            LinkState::Down { since, last_error } => Some((since, last_error)),
            LinkState::Up => None,
        });
        downs.max_by_key(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::LastError;

    use super::*;

    fn status(state: State, minute: i64, code: Option<Code>) -> ClusterStatus {
        ClusterStatus {
            state,
            since: OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute),
            last_error: code.map(|code| LastError {
                code,
                cause: String::new(),
            }),
        }
    }

    #[test]
    fn a_cluster_stands_as_well_as_the_best_of_its_sessions() {
        let lost = status(State::Lost, 0, Some(Code::SessionBroke));
        let unready = status(State::ApiUnreachable, 1, Some(Code::ApiUnreachable));
        let (first, second) = (
            status(State::Connected, 2, None),
            status(State::Connected, 3, None),
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
