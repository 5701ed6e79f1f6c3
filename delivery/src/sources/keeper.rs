//! Background work of sources: the leading hub polls, and each hub writes down calls of webhooks.

use std::{sync::Arc, time::Duration};

use fairlead_runtime::Process;
use fairlead_store::{Actor, Draft, StoreError, millis, random};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tracing::warn;

use super::{
    Sources,
    poll::options_of,
    schedule::{PollKey, PollOutcome, PollSource, Schedule},
};

/// Interval at which a standby hub checks that the leading one is alive.
const STANDBY_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two writes of requests by webhooks.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

impl Sources {
    /// Works until the hub drains.
    pub(crate) async fn keep(self: &Arc<Self>, process: &Process) {
        tokio::select! {
            () = process.draining() => {}
            () = self.write_requests() => {}
            () = self.lead() => {}
        }
    }

    /// Polls while this hub leads. Never returns.
    async fn lead(self: &Arc<Self>) {
        loop {
            if self.parts.store.leads() {
                match self.prepare() {
                    Ok(()) => self.poll_all().await,
                    Err(error) => warn!(%error, "cache of sources cannot be used"),
                }
            }
            sleep(STANDBY_POLL_INTERVAL).await;
        }
    }

    /// Returns when another hub leads.
    async fn poll_all(self: &Arc<Self>) {
        let mut schedule = Schedule::default();
        let mut polls: JoinSet<(PollKey, PollOutcome)> = JoinSet::new();
        let mut revisions = self.parts.store.watch();
        schedule.refresh(Instant::now(), &self.to_poll());
        while self.parts.store.leads() {
            for key in schedule.take_due(Instant::now()) {
                let sources = Arc::clone(self);
                polls.spawn(async move {
                    let outcome = sources.poll(&key).await;
                    (key, outcome)
                });
            }
            let wake = Instant::now() + STANDBY_POLL_INTERVAL;
            let wake = schedule.next().map_or(wake, |it| it.min(wake));
            tokio::select! {
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    schedule.refresh(Instant::now(), &self.to_poll());
                }
                Some(done) = polls.join_next() => match done {
                    Ok((key, outcome)) => complete(&mut schedule, &key, outcome),
                    Err(error) => {
                        warn!(%error, "poll of a source ended early");
                        return;
                    }
                },
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Sources that are not suspended.
    fn to_poll(&self) -> Vec<PollSource> {
        let view = self.parts.store.view();
        self.processed.retain(|id| view.source(id).is_some());
        let sources = view.sources().map(|it| &it.value);
        let sources = sources.filter(|it| !it.suspended).map(|it| PollSource {
            id: it.id.clone(),
            key: PollKey::of(&it.tenant, &it.git),
            requested: it.requested,
            options: options_of(it),
        });
        sources.collect()
    }

    /// Writes requests of webhooks into the sources, so that the leading hub polls. Never returns.
    async fn write_requests(&self) {
        loop {
            self.hooked.notified().await;
            let called = self.take_calls();
            let now = millis(self.parts.clock.now());
            let decide = move |draft: &mut Draft| {
                for id in &called {
                    request(draft, id, now)?;
                }
                Ok(())
            };
            let written = self
                .parts
                .store
                .change::<_, StoreError, _>(Actor::Hub, decide);
            if let Err(error) = written.await {
                warn!(%error, "call of a webhook not recorded");
            }
            sleep(REQUEST_INTERVAL).await;
        }
    }
}

fn complete(schedule: &mut Schedule, key: &PollKey, outcome: PollOutcome) {
    let spread = random::bytes::<1>().map_or(0.5, |[byte]| f64::from(byte) / 255.0);
    schedule.complete(Instant::now(), key, (outcome, spread));
}

/// Requests a poll of a source, unless it is gone.
pub(super) fn request(
    draft: &mut Draft,
    id: &fairlead_api::SourceId,
    now: i64,
) -> Result<(), StoreError> {
    let Some(mut source) = draft.source(id).map(|it| it.value.clone()) else {
        return Ok(());
    };
    // Two requests of one millisecond are two, too.
    source.requested = now.max(source.requested + 1);
    draft.put_source(source)
}
