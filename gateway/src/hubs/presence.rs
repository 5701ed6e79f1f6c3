//! Sessions of a cluster at all hubs: those of this hub from memory, the others by requests to their hubs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fairlead_api::{
    ClusterId, HubUrl, hop,
    resources::{AgentSession, AgentSessionList},
};
use fairlead_exchange::Answer;
use fairlead_seam::{Presence, SessionActivity};
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use tokio::time::timeout;

use super::{link::HubSession, links::HubLinks};
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
}

fn set_hub(items: &mut [AgentSession], url: &HubUrl) {
    for item in items {
        item.hub = Some(url.clone());
    }
}

/// Sessions of a cluster at another hub.
async fn ask(session: Arc<HubSession>, cluster: &ClusterId) -> Option<Vec<AgentSession>> {
    let request = Request::get(format!("{}{cluster}", hop::SESSIONS_PATH))
        .header(header::HOST, "hub")
        .body(body::empty())
        .ok()?;
    let Answer::Response(response) = session.exchanges().send(request).await.ok()? else {
        return None;
    };
    if response.status() != StatusCode::OK {
        return None;
    }
    let text = body::read(response.into_body(), MAX_ANSWER_BYTES).await?;
    let sessions: hop::HubSessions = serde_json::from_slice(&text).ok()?;
    Some(sessions.items)
}
