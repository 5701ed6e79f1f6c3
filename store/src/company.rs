//! Membership: announces this hub to the others on its database, detects the live ones, and reads
//! their observations. Runs independently of the writer, which must not wait for it.

use std::{sync::Arc, time::Duration};

use fairlead_api::ClusterId;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    backend::Beat,
    document::{whole, with},
    error::Result,
    peers::{BEAT, SILENT},
    record::Kind,
    shared::Shared,
    view::View,
};

/// Interval of reading other hubs' observations.
const LOOK: Duration = Duration::from_secs(1);
/// Deadline for announcing the end of this hub; without it the others notice by the missing
/// heartbeat.
const GOOD_BYE: Duration = Duration::from_secs(1);

impl Shared {
    /// Applies changes committed by another hub.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let before = self.view();
        let touched: Vec<ClusterId> = match self.backend.load(before.revision).await? {
            Some(loaded) => {
                // Recorded before anyone is notified.
                self.foreign.add(before.revision, loaded.revision);
                let view = with(View::clone(&before), &loaded)?;
                let rows = || loaded.deleted.iter().chain(&loaded.documents);
                self.publish(view, rows());
                let clusters = rows().filter(|row| row.kind == Kind::Cluster);
                clusters.filter_map(|row| row.id.parse().ok()).collect()
            }
            None => {
                self.publish(whole(self.backend.as_ref()).await?, &[]);
                before.clusters.keys().cloned().collect()
            }
        };
        self.part(&before, touched);
        Ok(())
    }

    /// Announces clusters deleted by another hub, including those registered again or moved to
    /// another tenant.
    fn part(&self, before: &View, touched: Vec<ClusterId>) {
        let view = self.view();
        for id in touched {
            let whose = |view: &View| {
                let cluster = &view.cluster(&id)?.value;
                Some((cluster.tenant.clone(), cluster.binding.registration))
            };
            let was = whose(before);
            if was.is_some() && was != whose(&view) {
                // Without a gateway there are no subscribers.
                let _ = self.parted.send(id);
            }
        }
    }
}

/// Runs until `end`.
pub(super) async fn keep(shared: Arc<Shared>, end: CancellationToken) {
    if !shared.backend.is_shared() {
        return;
    }
    let mut beaten = Instant::now();
    let looking = async {
        loop {
            sleep(LOOK).await;
            if beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                if let Err(error) = beat(&shared).await {
                    warn!(%error, "other hubs cannot be told that this one lives");
                }
            }
            if let Err(error) = look(&shared).await {
                debug!(%error, "what other hubs have seen cannot be read now");
            }
        }
    };
    end.run_until_cancelled(looking).await;
}

async fn look(shared: &Shared) -> Result<()> {
    let (mark, again) = shared.observations.known();
    match shared.backend.seen(mark, &again).await {
        Ok(rows) => {
            shared.observations.take_in(rows);
            Ok(())
        }
        Err(error) => {
            shared.observations.read_again(&again);
            Err(error)
        }
    }
}

async fn beat(shared: &Shared) -> Result<()> {
    let hubs = shared.backend.hubs().await?;
    let given_up = shared.observations.take_in_hubs(hubs, SILENT);
    // A program that only reads is not a hub.
    let Some(url) = shared.url.get() else {
        return Ok(());
    };
    let me = shared.observations.me();
    shared.backend.beat(me, &url.to_string(), Beat::On).await?;
    if given_up {
        info!("other hubs had given this one up; what it has seen is told again");
        shared.observations.write_again();
    }
    Ok(())
}

/// Called after everything was persisted.
pub(super) async fn leave(shared: &Shared) {
    let Some(url) = shared.url.get() else { return };
    let me = shared.observations.me();
    let url = url.to_string();
    let said = timeout(GOOD_BYE, shared.backend.beat(me, &url, Beat::End)).await;
    if !matches!(said, Ok(Ok(()))) {
        debug!("other hubs are not told that this one ends");
    }
}
