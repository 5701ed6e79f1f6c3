//! Checks of the API server between two probes of a session's hub. A hub that nobody uses probes seldom: the agent reports a change,
//! and the hub probes at once.

use std::{sync::Arc, time::Duration};

use fairlead_api::headers::{CHANGED_PATH, CHECK_INTERVAL, WATCH_SECONDS};
use fairlead_exchange::Exchanges;
use http::{HeaderMap, HeaderValue};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::debug;

use super::probe;
use crate::{context::AgentContext, hub_request};

/// Longest watch that a hub may ask for.
const MAX_WATCH: Duration = Duration::from_secs(300);

/// State that the hub knows, after a good answer.
#[derive(Clone)]
pub(crate) struct Watch {
    /// End of the watch: by then the next probe has come.
    until: Instant,
    /// Revision of the applied configuration.
    applied: Option<HeaderValue>,
}

impl Watch {
    /// The watch that a probe asks for.
    pub(crate) fn of_probe(context: &AgentContext, headers: &HeaderMap) -> Option<Self> {
        let seconds = headers.get(WATCH_SECONDS)?.to_str().ok()?.parse().ok()?;
        let time = Duration::from_secs(seconds).min(MAX_WATCH);
        Some(Watch {
            until: Instant::now() + time + CHECK_INTERVAL,
            applied: context.configuration.applied(),
        })
    }
}

/// Watches as the probes of a session ask for, until nothing serves it any more.
pub(crate) async fn run(
    context: Arc<AgentContext>,
    exchanges: Exchanges,
    mut wanted: watch::Receiver<Option<Watch>>,
) {
    loop {
        let watch = wanted.borrow_and_update().clone();
        let reporting = async {
            if let Some(watch) = watch
                && has_changed(&context, &watch).await
            {
                report(&exchanges).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = reporting => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// True once the answer to a probe would be another one, false at the end of the watch.
async fn has_changed(context: &AgentContext, watch: &Watch) -> bool {
    while Instant::now() < watch.until {
        sleep(CHECK_INTERVAL).await;
        let is_ready = probe::check_ready(&context.upstream).await.is_ok();
        if !is_ready || context.configuration.applied() != watch.applied {
            return true;
        }
    }
    false
}

/// A failure is no loss: the hub probes after the end of the watch at the latest.
async fn report(exchanges: &Exchanges) {
    if let Err(error) = hub_request::notify(exchanges, CHANGED_PATH).await {
        debug!(%error, "change not reported");
    }
}
