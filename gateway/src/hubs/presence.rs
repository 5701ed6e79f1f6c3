//! Sessions of a cluster at all hubs, and the activity of several clusters: those of this hub from memory, the others by requests to their hubs.

use std::{iter, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::{
    ClusterId, HubUrl, hop,
    resources::{AgentSession, AgentSessionList},
};
use fairlead_exchange::{Answer, Body};
use fairlead_seam::{FleetActivity, Presence, SessionActivity};
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use tokio::time::timeout;

use super::{link::SessionLease, links::HubLinks};
use crate::{agents::table::SessionTable, http::body};

/// Deadline for the answers of the other hubs, which have the sessions in memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of an answer, in bytes: a cluster has at most 16 sessions at a hub.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

pub(crate) struct HubPresence {
    pub(crate) sessions: Arc<SessionTable>,
    pub(crate) links: Arc<HubLinks>,
    /// URL of this hub.
    pub(crate) url: HubUrl,
}

#[async_trait]
impl Presence for HubPresence {
    fn sessions(&self, cluster: &ClusterId) -> Vec<AgentSession> {
        self.sessions.registered(cluster)
    }

    fn activity(&self, cluster: &ClusterId) -> Option<SessionActivity> {
        self.sessions.activity(cluster)
    }

    async fn sessions_of_all_hubs(&self, cluster: &ClusterId) -> AgentSessionList {
        let mut list = AgentSessionList {
            items: self.sessions(cluster),
            incomplete_hubs: Vec::new(),
        };
        let others = self.links.all();
        if others.is_empty() {
            return list;
        }
        set_hub(&mut list.items, &self.url);
        let answers = others.into_iter().map(async |(url, session)| {
            let answer = async { ask(session?, cluster).await };
            let answer = timeout(ANSWER_TIMEOUT, answer).await;
            (url, answer.ok().flatten())
        });
        for (url, answer) in join_all(answers).await {
            match answer {
                Some(mut items) => {
                    set_hub(&mut items, &url);
                    list.items.append(&mut items);
                }
                None => list.incomplete_hubs.push(url),
            }
        }
        list
    }

    async fn activity_of_all_hubs(&self, clusters: &[ClusterId]) -> FleetActivity {
        let others = self.links.all();
        let own_url = (!others.is_empty()).then(|| self.url.clone());
        let mut fleet = FleetActivity {
            hubs: vec![(own_url, activity_here(&self.sessions, clusters))],
            incomplete: Vec::new(),
        };
        let answers = others.into_iter().map(async |(url, session)| {
            let answer = async {
                let session = session?;
                ask_activity(&session, clusters).await
            };
            let answer = timeout(ANSWER_TIMEOUT, answer).await;
            (url, answer.ok().flatten())
        });
        for (url, answer) in join_all(answers).await {
            match answer {
                Some(activity) => fleet.hubs.push((Some(url), activity)),
                None => fleet.incomplete.push(url),
            }
        }
        fleet
    }
}

/// Activity of these clusters at this hub.
pub(super) fn activity_here(sessions: &SessionTable, clusters: &[ClusterId]) -> hop::HubActivity {
    let active = clusters.iter();
    let active = active.filter_map(|id| Some((id.clone(), sessions.activity(id)?.into())));
    hop::HubActivity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clusters: active.collect(),
    }
}

/// Activity of these clusters at another hub.
async fn ask_activity(session: &SessionLease, clusters: &[ClusterId]) -> Option<hop::HubActivity> {
    let mut activity = hop::HubActivity::default();
    let mut parts = clusters.chunks(hop::MAX_ACTIVITY_CLUSTERS);
    let first = parts.next().unwrap_or_default();
    for part in iter::once(first).chain(parts) {
        let clusters = part.to_vec();
        let json = serde_json::to_vec(&hop::ActivityRequest { clusters }).ok()?;
        let request = Request::post(hop::ACTIVITY_PATH)
            .header(header::HOST, "hub")
            .body(body::full(json))
            .ok()?;
        let answer = send(session, request, hop::MAX_ACTIVITY_ANSWER_BYTES).await?;
        let mut answer: hop::HubActivity = serde_json::from_slice(&answer).ok()?;
        activity.version = answer.version;
        activity.clusters.append(&mut answer.clusters);
    }
    Some(activity)
}

/// Body of a good answer.
async fn send(session: &SessionLease, request: Request<Body>, limit: usize) -> Option<Bytes> {
    let Answer::Response(response) = session.exchanges().send(request).await.ok()? else {
        return None;
    };
    if response.status() != StatusCode::OK {
        return None;
    }
    body::read(response.into_body(), limit).await
}

fn set_hub(items: &mut [AgentSession], url: &HubUrl) {
    for item in items {
        item.hub = Some(url.clone());
    }
}

/// Sessions of a cluster at another hub.
async fn ask(session: SessionLease, cluster: &ClusterId) -> Option<Vec<AgentSession>> {
    let request = Request::get(format!("{}{cluster}", hop::SESSIONS_PATH))
        .header(header::HOST, "hub")
        .body(body::empty())
        .ok()?;
    let text = send(&session, request, MAX_ANSWER_BYTES).await?;
    let sessions: hop::HubSessions = serde_json::from_slice(&text).ok()?;
    Some(sessions.items)
}
