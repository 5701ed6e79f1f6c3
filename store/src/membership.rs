//! Membership: announces this hub to the others on its database, detects the live ones, and reads
//! their observations. Runs independently of the writer, which must not wait for it.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    backend::Heartbeat,
    document::{whole, with},
    error::Result,
    heartbeats::{HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT},
    shared::StoreState,
    view::View,
};

/// Interval of reading other hubs' observations.
const OBSERVATIONS_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Deadline for announcing the end of this hub; without it the others notice by the missing
/// heartbeat.
const ANNOUNCE_END_DEADLINE: Duration = Duration::from_secs(1);

impl StoreState {
    /// Applies changes committed by another hub.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let before = self.view();
        match self.backend.load(before.revision).await? {
            Some(loaded) => {
                // Recorded before anyone is notified.
                self.remote_commits.add(before.revision, loaded.revision);
                let view = with(View::clone(&before), &loaded)?;
                self.publish(view, loaded.deleted.iter().chain(&loaded.documents));
            }
            None => {
                self.publish(whole(self.backend.as_ref()).await?, &[]);
                self.announce_revocations(&before, before.clusters.keys().cloned());
            }
        }
        Ok(())
    }
}

/// Runs until `end`.
pub(super) async fn run(shared: Arc<StoreState>, end: CancellationToken) {
    if !shared.backend.is_shared() {
        return;
    }
    let mut last_heartbeat = Instant::now();
    let mut answered_call = 0;
    let polling = async {
        loop {
            sleep(OBSERVATIONS_POLL_INTERVAL).await;
            if last_heartbeat.elapsed() >= HEARTBEAT_INTERVAL {
                last_heartbeat = Instant::now();
                if let Err(error) = send_heartbeat(&shared).await {
                    warn!(%error, "heartbeat not written");
                }
            }
            if let Err(error) = read_observations(&shared).await {
                debug!(%error, "observations of other hubs not read");
            }
            match answer_call(&shared, answered_call).await {
                Ok(seq) => answered_call = seq,
                Err(error) => debug!(%error, "call of another hub not answered"),
            }
        }
    };
    end.run_until_cancelled(polling).await;
}

async fn read_observations(shared: &StoreState) -> Result<()> {
    let (last_seq, reread) = shared.observations.read_position();
    match shared.backend.seen(last_seq, &reread).await {
        Ok(rows) => {
            shared.observations.apply_rows(rows);
            Ok(())
        }
        Err(error) => {
            shared.observations.schedule_read(&reread);
            Err(error)
        }
    }
}

async fn send_heartbeat(shared: &StoreState) -> Result<()> {
    let hubs = shared.backend.hubs().await?;
    let declared_dead = shared.observations.apply_hubs(hubs, HEARTBEAT_TIMEOUT);
    // A program that only reads is not a hub.
    let Some(me) = shared.own_hub() else {
        return Ok(());
    };
    shared.backend.beat(me, Heartbeat::On).await?;
    if declared_dead {
        info!("other hubs declared this hub dead; writing all observations again");
        shared.observations.persist_all_again();
    }
    Ok(())
}

/// Called after everything was persisted.
pub(super) async fn announce_end(shared: &StoreState) {
    let Some(me) = shared.own_hub() else { return };
    let sent = timeout(
        ANNOUNCE_END_DEADLINE,
        shared.backend.beat(me, Heartbeat::End),
    )
    .await;
    if !matches!(sent, Ok(Ok(()))) {
        debug!("end of this hub not announced");
    }
}

/// Answers the last call unless this hub has; returns its number.
async fn answer_call(state: &StoreState, answered: i64) -> Result<i64> {
    let Some(source) = state.parts.source.get() else {
        return Ok(answered);
    };
    let seq = state.backend.part_call().await?;
    // The number falls back after a crash of the server.
    if seq != answered && seq != 0 {
        let me = state.observations.me();
        state.backend.put_part(me, seq, &source()).await?;
    }
    Ok(seq)
}
