//! Reports of deployments to the hub: the newest state of each, on the base of the last acknowledged reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{
    BundleId,
    delivery::{
        DeploymentReceipt, DeploymentReport, DeploymentReports, DeploymentState, DriftedObject,
        MAX_REPORTS_BYTES, REPORTS_PATH,
    },
};
use http::{Request, StatusCode, header};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::debug;

use crate::hub::HubConnection;

/// Time that a passing state must stand before it is reported.
const STANDING_TIME: Duration = Duration::from_secs(10);
/// Time in which states of several deployments go together.
const BATCH_DELAY: Duration = Duration::from_millis(200);
const RETRY_BACKOFF_MIN: Duration = Duration::from_secs(1);
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(30);
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// Longest reason of a state.
const MAX_REASON_BYTES: usize = 8 * 1024;
/// Longest names of all changed fields of a deployment.
const MAX_DRIFT_BYTES: usize = 32 * 1024;
/// Longest names of all fields beside those of a bundle.
const MAX_BESIDE_BYTES: usize = 4 * 1024;
/// Space of the frame around reports.
const FRAME_BYTES: usize = 1024;

/// States of all deployments of the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct States {
    /// Reports by bundle.
    pub(crate) reports: BTreeMap<BundleId, DeploymentReport>,
    /// Bundles whose tombstones are done.
    pub(crate) gone: BTreeSet<BundleId>,
    /// True once each journal of the cluster has a state. The hub takes a deployment as gone that the first reports of an
    /// agent lack, so that nothing is reported before, and nothing by an agent without the Lease.
    pub(crate) is_whole: bool,
}

/// Reporter of one agent.
pub(crate) struct Reporter {
    hub: Arc<dyn HubConnection>,
    states: watch::Receiver<States>,
    acknowledged: Acknowledged,
    /// Start of the current state of each deployment.
    since: BTreeMap<BundleId, (DeploymentState, Instant)>,
}

/// Reports that the hub has.
#[derive(Default)]
struct Acknowledged {
    base: Option<String>,
    reports: BTreeMap<BundleId, DeploymentReport>,
    gone: BTreeSet<BundleId>,
}

/// Reports to send now, and the time of the next ones.
struct Due {
    reports: Vec<DeploymentReport>,
    gone: Vec<BundleId>,
    next: Option<Instant>,
}

impl Reporter {
    pub(crate) fn new(hub: Arc<dyn HubConnection>, states: watch::Receiver<States>) -> Self {
        Self {
            hub,
            states,
            acknowledged: Acknowledged::default(),
            since: BTreeMap::new(),
        }
    }

    /// Runs until the engine ends.
    pub(crate) async fn run(mut self) {
        let mut backoff = RETRY_BACKOFF_MIN;
        loop {
            let mut states = self.states.borrow_and_update().clone();
            if !states.is_whole {
                if self.states.changed().await.is_err() {
                    return;
                }
                continue;
            }
            states.reports.values_mut().for_each(shorten);
            let due = self.due(&states, Instant::now());
            if due.reports.is_empty() && due.gone.is_empty() && self.acknowledged.base.is_some() {
                let changed = match due.next {
                    None => self.states.changed().await.is_ok(),
                    Some(next) => timeout_at(next, self.states.changed())
                        .await
                        .unwrap_or(Ok(()))
                        .is_ok(),
                };
                if !changed {
                    return;
                }
                sleep(BATCH_DELAY).await;
                continue;
            }
            match self.send(due).await {
                Ok(()) => backoff = RETRY_BACKOFF_MIN,
                Err(cause) => {
                    debug!(cause, "deployments not reported; retrying");
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(RETRY_BACKOFF_MAX);
                }
            }
        }
    }

    fn due(&mut self, states: &States, now: Instant) -> Due {
        let mut due = Due {
            reports: Vec::new(),
            gone: Vec::new(),
            next: None,
        };
        self.since
            .retain(|bundle, _| states.reports.contains_key(bundle));
        for (bundle, report) in &states.reports {
            let since = self
                .since
                .entry(bundle.clone())
                .or_insert((report.state, now));
            if since.0 != report.state {
                *since = (report.state, now);
            }
            let known = self.acknowledged.reports.get(bundle);
            if known == Some(report) {
                continue;
            }
            let is_passing =
                is_passing(report.state) && known.is_some_and(|known| known.state != report.state);
            let at = since.1 + STANDING_TIME;
            if is_passing && at > now {
                due.next = Some(due.next.map_or(at, |next: Instant| next.min(at)));
            } else {
                due.reports.push(report.clone());
            }
        }
        let known = &self.acknowledged;
        let lost = known.reports.keys();
        let lost = lost.filter(|bundle| !states.reports.contains_key(*bundle));
        let done = states
            .gone
            .iter()
            .filter(|bundle| !known.gone.contains(*bundle));
        let gone: BTreeSet<_> = lost.chain(done).cloned().collect();
        due.gone = gone
            .into_iter()
            .filter(|bundle| !states.reports.contains_key(bundle))
            .collect();
        self.acknowledged
            .gone
            .retain(|bundle| states.gone.contains(bundle));
        due
    }

    /// Sends reports in pieces, and notes those that the hub has accepted.
    async fn send(&mut self, due: Due) -> Result<(), String> {
        let mut gone = due.gone;
        for piece in pieces(due.reports) {
            let body = DeploymentReports {
                base: self.acknowledged.base.clone(),
                reports: piece,
                gone: std::mem::take(&mut gone),
            };
            let receipt = self.post(&body).await?;
            let Some(etag) = receipt.etag else {
                self.acknowledged = Acknowledged::default();
                return Err("the hub needs all states".to_owned());
            };
            let known = &mut self.acknowledged;
            known.base = Some(etag);
            for bundle in body.gone {
                known.reports.remove(&bundle);
                known.gone.insert(bundle);
            }
            let reports = body.reports.into_iter();
            known
                .reports
                .extend(reports.map(|it| (it.bundle.clone(), it)));
        }
        Ok(())
    }

    async fn post(&self, body: &DeploymentReports) -> Result<DeploymentReceipt, String> {
        let json = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let request = Request::post(REPORTS_PATH)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(json))
            .map_err(|error| error.to_string())?;
        let sent = timeout(REQUEST_DEADLINE, self.hub.send(request, MAX_ANSWER_BYTES)).await;
        let answer = sent
            .map_err(|_| "the hub did not answer".to_owned())?
            .map_err(|error| error.0)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the hub answers {}", answer.status()));
        }
        serde_json::from_slice(answer.body()).map_err(|error| error.to_string())
    }
}

/// True for states that often end by themselves.
const fn is_passing(state: DeploymentState) -> bool {
    matches!(
        state,
        DeploymentState::Waiting
            | DeploymentState::Applying
            | DeploymentState::NotReady
            | DeploymentState::Removing
            | DeploymentState::Pending
    )
}

/// Limits a report: one that no request can carry would hold back all others.
fn shorten(report: &mut DeploymentReport) {
    if let Some(reason) = &mut report.reason
        && reason.len() > MAX_REASON_BYTES
    {
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason.push_str(" ...");
    }
    shorten_fields(&mut report.drift, MAX_DRIFT_BYTES);
    shorten_fields(&mut report.beside, MAX_BESIDE_BYTES);
    // Others choose the fields beside, so that an object without any left says nothing.
    report.beside.retain(|object| !object.fields.is_empty());
}

/// Keeps the first fields whose names have `limit` bytes together.
fn shorten_fields(objects: &mut [DriftedObject], limit: usize) {
    let mut size = 0;
    for object in objects {
        object.fields.retain(|field| {
            size += field.len();
            size <= limit
        });
    }
}

/// Splits reports by the limit of a request. There is always one piece.
fn pieces(reports: Vec<DeploymentReport>) -> Vec<Vec<DeploymentReport>> {
    let mut pieces = vec![Vec::new()];
    let mut size = FRAME_BYTES;
    for report in reports {
        let length = serde_json::to_vec(&report).map_or(0, |json| json.len() + 1);
        if size + length > MAX_REPORTS_BYTES {
            pieces.push(Vec::new());
            size = FRAME_BYTES;
        }
        size += length;
        if let Some(piece) = pieces.last_mut() {
            piece.push(report);
        }
    }
    pieces
}

#[cfg(test)]
mod tests;
