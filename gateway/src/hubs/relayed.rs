//! Requests that other hubs have forwarded to sessions of this hub, and the reason for their end: when a session ends with
//! its identity, their first hubs learn the reason before the streams break, and give it to the clients.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use fairlead_api::hop;
use fairlead_exchange::Answer;
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use tokio::time::timeout;
use tracing::debug;

use super::{link::SessionLease, links::HubLinks, relay_record::RelayRecord};
use crate::http::body;

/// Deadline for the first hubs. Without their answer, the streams break without a reason.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// Running forwarded requests, by the address of their record.
#[derive(Default)]
pub(crate) struct RelayedRequests {
    records: Mutex<HashMap<usize, Weak<RelayRecord>>>,
}

impl RelayedRequests {
    fn records(&self) -> MutexGuard<'_, HashMap<usize, Weak<RelayRecord>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, record: &Arc<RelayRecord>) {
        let address = Arc::as_ptr(record).addr();
        self.records().insert(address, Arc::downgrade(record));
    }

    pub(super) fn remove(&self, address: usize) {
        self.records().remove(&address);
    }

    /// Ids of the requests on a session, by the names of their first hubs.
    fn on_session(&self, session: usize) -> BTreeMap<String, Vec<String>> {
        // Collected first: the last reference to a record may end here, and takes the lock.
        let records: Vec<_> = self.records().values().filter_map(Weak::upgrade).collect();
        let mut by_hub = BTreeMap::<String, Vec<String>>::new();
        for record in records.iter().filter(|it| it.is_on(session)) {
            let ids = by_hub.entry(record.first_hub().to_owned()).or_default();
            ids.push(record.request_id().to_owned());
        }
        by_hub
    }

    /// Tells the first hubs why the requests on a session are about to end. Completes when all have answered, or late.
    pub(crate) async fn end_on_session(&self, links: &HubLinks, session: usize, cause: &str) {
        let notices = self
            .on_session(session)
            .into_iter()
            .map(async |(hub, ids)| {
                let Some(link) = links.session_to(&hub) else {
                    debug!(hub, "no session to the hub of forwarded requests");
                    return;
                };
                let sent = timeout(NOTICE_TIMEOUT, notify(&link, ids, cause)).await;
                if sent.is_err() {
                    debug!(hub, "hub of forwarded requests does not answer");
                }
            });
        join_all(notices).await;
    }
}

async fn notify(link: &SessionLease, ids: Vec<String>, cause: &str) {
    for part in ids.chunks(hop::MAX_ENDED_REQUESTS) {
        let ended = hop::EndedRequests {
            ids: part.to_vec(),
            cause: cause.to_owned(),
        };
        let Ok(json) = serde_json::to_vec(&ended) else {
            return;
        };
        let request = Request::post(hop::ENDED_PATH)
            .header(header::HOST, "hub")
            .body(body::full(json));
        let Ok(request) = request else { return };
        match link.exchanges().send(request).await {
            Ok(Answer::Response(answer)) if answer.status() == StatusCode::OK => {}
            // A hub of an earlier version has no such route.
            _ => return debug!("reason of ended requests not accepted"),
        }
    }
}
