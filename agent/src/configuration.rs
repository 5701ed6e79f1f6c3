//! Follows the hub's configuration of this cluster: fetches it over a new session and when a probe names
//! another revision. Answers to probes report the applied revision. If the hub does not answer, the applied
//! configuration stays.

use fairlead_api::error_chain;
use std::{sync::Arc, time::Duration};

use fairlead_api::config::{AgentConfig, CONFIG_PATH};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info};

use crate::{
    backoff::{Backoff, chance},
    context::AgentContext,
    hub_request::{self, HubRequestError, TaggedDocument},
};

/// Maximum time between two fetches.
const FETCH_INTERVAL_MAX: Duration = Duration::from_secs(3600);
const FETCH_BACKOFF_MIN: Duration = Duration::from_millis(250);
const FETCH_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Runs until the process drains.
pub(crate) async fn run(context: Arc<AgentContext>) {
    tokio::select! {
        () = follow(&context) => {}
        () = context.process.draining() => {}
    }
}

async fn follow(context: &AgentContext) {
    let mut desired = context.configuration.desired();
    let mut applied = None::<String>;
    let mut backoff = Backoff::new(FETCH_BACKOFF_MIN, FETCH_BACKOFF_MAX);
    loop {
        desired.mark_unchanged();
        match fetch(context, applied.as_deref()).await {
            Ok(Some(TaggedDocument { etag, value })) => {
                info!(
                    revision = etag,
                    agent_version = value.agent_version,
                    "configuration applied"
                );
                context.configuration.apply(&etag, value);
                applied = Some(etag);
            }
            Ok(None) => {}
            Err(error) => {
                let cause = error_chain(&error);
                debug!(cause, "configuration not fetched; retrying");
                pause(&mut desired, backoff.next(chance())).await;
                continue;
            }
        }
        let is_current = |desired: &Option<String>| desired.is_none() || *desired == applied;
        if !is_current(&desired.borrow()) {
            // Another hub may not know the revision yet.
            pause(&mut desired, backoff.next(chance())).await;
            continue;
        }
        backoff.reset();
        let _ = timeout(
            FETCH_INTERVAL_MAX,
            desired.wait_for(|desired| !is_current(desired)),
        )
        .await;
    }
}

/// Waits for `long`, or until a probe names another revision: then the hub answers again.
async fn pause(desired: &mut watch::Receiver<Option<String>>, long: Duration) {
    sleep(FETCH_BACKOFF_MIN).await;
    let _ = timeout(long.saturating_sub(FETCH_BACKOFF_MIN), desired.changed()).await;
}

async fn fetch(
    context: &AgentContext,
    applied: Option<&str>,
) -> Result<Option<TaggedDocument<AgentConfig>>, HubRequestError> {
    let exchanges = context.sessions.any().await;
    hub_request::get(&exchanges, CONFIG_PATH, applied).await
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::context::configuration::ConfigurationState;

    #[tokio::test(start_paused = true)]
    async fn other_revision_on_a_probe_ends_the_pause() {
        let state = ConfigurationState::default();
        let mut desired = state.desired();
        let start = Instant::now();
        pause(&mut desired, FETCH_BACKOFF_MAX).await;
        assert_eq!(start.elapsed(), FETCH_BACKOFF_MAX, "no revision is named");
        let probe = async {
            sleep(Duration::from_secs(1)).await;
            state.set_desired("two");
        };
        let start = Instant::now();
        tokio::join!(pause(&mut desired, FETCH_BACKOFF_MAX), probe);
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        let start = Instant::now();
        pause(&mut desired, Duration::ZERO).await;
        assert_eq!(start.elapsed(), FETCH_BACKOFF_MIN, "never at once");
    }
}
