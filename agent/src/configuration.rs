//! Follows the hub's configuration for this cluster: gets it when a session is there and when a probe names another one, and
//! says by which it works. A hub that cannot be asked changes nothing.

use fairlead_api::error_chain;
use std::{sync::Arc, time::Duration};

use fairlead_api::config::{APPLIED_REVISION_HEADER, AgentConfig, CONFIG_PATH};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info};

use crate::{
    backoff::{Backoff, chance},
    context::Site,
    hub_request::{self, AskError, Document},
};

/// At the latest, the hub is asked again.
const HOURLY: Duration = Duration::from_secs(3600);
const FIRST: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(60);

/// Until the process drains.
pub(crate) async fn run(site: Arc<Site>) {
    tokio::select! {
        () = follow(&site) => {}
        () = site.process.draining() => {}
    }
}

async fn follow(site: &Site) {
    let mut wanted = site.told.wanted();
    let mut applied = None::<String>;
    let mut backoff = Backoff::new(FIRST, CAP);
    loop {
        wanted.mark_unchanged();
        match ask(site, applied.as_deref()).await {
            Ok(Some(Document { etag, value })) => {
                info!(
                    revision = etag,
                    agent_version = value.agent_version,
                    "configured by the hub"
                );
                site.told.work_by(value);
                applied = Some(etag);
                backoff.reset();
                // Asked again soon, to say so.
                sleep(FIRST).await;
                continue;
            }
            Ok(None) => backoff.reset(),
            Err(error) => {
                let cause = error_chain(&error);
                debug!(
                    cause,
                    "the hub did not tell its configuration; asking again"
                );
                rest(&mut wanted, backoff.next(chance())).await;
                continue;
            }
        }
        // A probe that came meanwhile may have named the one that is known by now.
        let another = async {
            let is_another = |wanted: &Option<String>| wanted.is_some() && *wanted != applied;
            while wanted.changed().await.is_ok() {
                if is_another(&wanted.borrow_and_update()) {
                    return;
                }
            }
            std::future::pending().await
        };
        let _ = timeout(HOURLY, another).await;
    }
}

/// As long, or until a hub names another one: then it answers again.
async fn rest(wanted: &mut watch::Receiver<Option<String>>, long: Duration) {
    sleep(FIRST).await;
    let _ = timeout(long.saturating_sub(FIRST), wanted.changed()).await;
}

async fn ask(
    site: &Site,
    applied: Option<&str>,
) -> Result<Option<Document<AgentConfig>>, AskError> {
    let exchanges = site.sessions.any().await;
    let said = applied.map(|revision| (APPLIED_REVISION_HEADER, revision));
    hub_request::get(&exchanges, CONFIG_PATH, applied, said.as_slice()).await
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::context::configuration::Told;

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_did_not_answer_is_asked_again_as_soon_as_it_names_another_one() {
        let told = Told::default();
        let mut wanted = told.wanted();
        let start = Instant::now();
        rest(&mut wanted, CAP).await;
        assert_eq!(start.elapsed(), CAP, "nothing is named");
        let naming = async {
            sleep(Duration::from_secs(1)).await;
            told.configuration_wanted("two");
        };
        let start = Instant::now();
        tokio::join!(rest(&mut wanted, CAP), naming);
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        let start = Instant::now();
        rest(&mut wanted, Duration::ZERO).await;
        assert_eq!(start.elapsed(), FIRST, "never at once");
    }
}
