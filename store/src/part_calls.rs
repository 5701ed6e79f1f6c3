//! Calls of one hub for the parts of all others.

use std::{sync::Arc, time::Duration};

use fairlead_api::HubUrl;
use tokio::time::{Instant, sleep};

use crate::{
    error::Result, heartbeats::HEARTBEAT_TIMEOUT, heartbeats::HubRow, parts::HubPart,
    shared::StoreState, store::Store,
};

/// Wait budget for the answers; a hub looks for calls every second.
const ANSWER_DEADLINE: Duration = Duration::from_secs(3);
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which all callers at this hub share the answers to one call.
const SHARED_TIME: Duration = Duration::from_secs(1);

impl Store {
    /// URL of this hub, once it has begun on a shared database.
    #[must_use]
    pub fn hub_url(&self) -> Option<&HubUrl> {
        self.state().addresses.get().map(|it| &it.url)
    }

    /// Sets the source of this hub's part. It is called at most once per second, and must be quick.
    pub fn set_part_source(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.state().parts.source.set(Arc::new(source));
    }

    /// Parts of all other live hubs, not older than a second.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError)
    pub async fn parts_of_others(&self) -> Result<Vec<HubPart>> {
        let state = self.state();
        if !state.backend.is_shared() {
            return Ok(Vec::new());
        }
        // Concurrent callers share one call.
        let mut latest = state.parts.latest.lock().await;
        if let Some((at, parts)) = latest.as_ref()
            && at.elapsed() < SHARED_TIME
        {
            return Ok(parts.clone());
        }
        let parts = gather(state).await?;
        *latest = Some((Instant::now(), parts.clone()));
        Ok(parts)
    }
}

async fn gather(state: &StoreState) -> Result<Vec<HubPart>> {
    let me = state.observations.me();
    let others = state.backend.hubs().await?.into_iter();
    let others: Vec<HubRow> = others.filter(|it| it.id != me && is_alive(it)).collect();
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let seq = state.backend.call_for_parts().await?;
    let deadline = Instant::now() + ANSWER_DEADLINE;
    loop {
        let rows = state.backend.parts(seq).await?;
        let body = |id: &str| Some(rows.iter().find(|it| it.hub == id)?.body.clone());
        let parts = others.iter().filter_map(|it| {
            let hub = it.url.parse().ok()?;
            let body = body(&it.id);
            Some(HubPart { hub, body })
        });
        let parts: Vec<HubPart> = parts.collect();
        if parts.iter().all(|it| it.body.is_some()) || Instant::now() >= deadline {
            return Ok(parts);
        }
        sleep(ANSWER_POLL_INTERVAL).await;
    }
}

fn is_alive(hub: &HubRow) -> bool {
    let age = Duration::from_millis(u64::try_from(hub.age).unwrap_or_default());
    !hub.ended && age < HEARTBEAT_TIMEOUT
}
