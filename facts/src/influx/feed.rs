//! Feed to InfluxDB: new batches are sent directly; during an outage they go to the spool, and from
//! there to InfluxDB, oldest first. No request waits for this.
//!
//! A batch leaves the log or the spool only after it is safe in the next place. An interrupted step
//! is repeated and writes the same points.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_store::Store;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::influx::{
    batch::LineBatch,
    client::{InfluxClient, Unavailable, Written},
    cursor::FeedCursor,
    metrics::{DropCause, FeedState, InfluxMetrics},
    source::{BatchReadError, Position, take},
    spool::{LostBatches, Spool, SpoolPosition},
};

/// Number of remembered rejections, so that each is logged once.
const MAX_LOGGED_REJECTIONS: usize = 256;
/// Number of changes without facts after which the position is stored anyway.
const CURSOR_STRIDE: u64 = 1000;

pub(super) struct Feed {
    store: Store,
    client: Arc<InfluxClient>,
    metrics: InfluxMetrics,
    folder: PathBuf,
    target: u32,
    spool: Arc<Mutex<Spool>>,
    position: Position,
    /// Last stored cursor.
    written: FeedCursor,
    is_unavailable: bool,
    logged: HashSet<u64>,
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// More work may be available.
    More,
    /// Nothing left, except points that InfluxDB does not accept now.
    Idle,
    /// Pause before the next attempt.
    Pause,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    #[error("reading or writing the spool failed")]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Take(#[from] BatchReadError),
}

impl Feed {
    /// Resumes from the stored position, or starts with all facts.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(super) async fn open(
        (folder, max): (PathBuf, u64),
        target: u32,
        store: Store,
        client: Arc<InfluxClient>,
        metrics: InfluxMetrics,
    ) -> io::Result<Feed> {
        let place = folder.clone();
        let (cursor, (spool, lost)) = on_disk(move || {
            make_folder(&place)?;
            let cursor = FeedCursor::read(&place)?;
            let from = cursor.map_or_else(SpoolPosition::default, |it| it.place);
            Ok((cursor, Spool::open(&place, max, from)?))
        })
        .await?;
        let known = cursor.filter(|it| it.target == target);
        let since = known.and_then(|it| it.since);
        let feed = Feed {
            position: since.map_or_else(|| Position::whole(&store), Position::Since),
            written: FeedCursor {
                target,
                since,
                place: spool.place(),
            },
            store,
            client,
            folder,
            target,
            spool: Arc::new(Mutex::new(spool)),
            is_unavailable: false,
            logged: HashSet::new(),
            metrics,
        };
        feed.report_lost(lost, DropCause::Damaged);
        feed.update_metrics();
        info!(folder = %feed.folder.display(), since = since.map(|it| it.0), "InfluxDB feed started");
        Ok(feed)
    }

    /// One step. Without `may_send`, new points go to the spool only.
    ///
    /// # Errors
    /// [`FeedError`]; a retry may succeed.
    pub(super) async fn step(&mut self, may_send: bool) -> Result<Step, FeedError> {
        if may_send {
            let (front, lost) = self.spool(Spool::front).await?;
            self.report_lost(lost, DropCause::Damaged);
            if let Some(batch) = front {
                return self.send_spooled(&batch).await;
            }
        }
        let Some(taken) = take(&self.store, &self.position).await? else {
            return Ok(Step::Idle);
        };
        let has_facts = !taken.batches.is_empty();
        let mut step = Step::More;
        let mut left = Vec::new();
        for batch in taken.batches {
            // Order is kept: later batches wait behind a spooled one.
            if may_send && left.is_empty() {
                let Err(error) = self.send(&batch).await else {
                    continue;
                };
                self.mark_unavailable(&error);
                step = Step::Pause;
            }
            left.push(batch);
        }
        if !left.is_empty() {
            let lost = self.spool(move |spool| spool.append(&left)).await?;
            self.report_lost(lost, DropCause::Full);
        }
        self.position = taken.position;
        self.store_cursor(has_facts).await?;
        Ok(step)
    }

    async fn send_spooled(&mut self, batch: &LineBatch) -> Result<Step, FeedError> {
        if let Err(error) = self.send(batch).await {
            self.mark_unavailable(&error);
            return Ok(Step::Pause);
        }
        self.spool(Spool::pop).await?;
        self.store_cursor(true).await?;
        Ok(Step::More)
    }

    /// Rejected lines are dropped.
    async fn send(&mut self, batch: &LineBatch) -> Result<(), Unavailable> {
        match self.client.write(batch.gzip.clone()).await? {
            Written::All => self.metrics.written(batch.lines()),
            Written::Partly { dropped, reason } => {
                let dropped = dropped.min(batch.lines());
                self.metrics.written(batch.lines() - dropped);
                self.count_rejected(dropped, &reason);
            }
            Written::Rejected { reason } => self.send_parts(batch, &reason).await?,
        }
        if self.is_unavailable {
            self.is_unavailable = false;
            info!("InfluxDB accepts writes again");
        }
        self.metrics.set_state(FeedState::Up);
        Ok(())
    }

    /// Bisects a rejected batch; single rejected lines are dropped.
    async fn send_parts(&mut self, batch: &LineBatch, reason: &str) -> Result<(), Unavailable> {
        let Ok(lines) = batch.unpack() else {
            self.metrics.dropped(DropCause::Damaged, batch.lines());
            return Ok(());
        };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut parts = vec![(lines.as_slice(), reason.to_owned())];
        while let Some((part, reason)) = parts.pop() {
            if part.len() <= 1 {
                self.count_rejected(part.len() as u64, &reason);
                continue;
            }
            let halves = part.split_at(part.len() / 2);
            for half in [halves.0, halves.1] {
                let packed = LineBatch::pack(half, batch.at);
                let packed = packed.map_err(|error| Unavailable::Http(error.to_string()))?;
                match self.client.write(packed.gzip).await? {
                    Written::All => self.metrics.written(packed.lengths.len() as u64),
                    Written::Partly { dropped, reason } => {
                        let lines = packed.lengths.len() as u64;
                        self.metrics.written(lines.saturating_sub(dropped));
                        self.count_rejected(dropped.min(lines), &reason);
                    }
                    Written::Rejected { reason } => parts.push((half, reason)),
                }
            }
        }
        Ok(())
    }

    /// Logs each kind of rejection once: it may recur with every report.
    fn count_rejected(&mut self, lines: u64, reason: &str) {
        self.metrics.dropped(DropCause::Rejected, lines);
        let mut hasher = DefaultHasher::new();
        reason.hash(&mut hasher);
        if self.logged.len() < MAX_LOGGED_REJECTIONS && self.logged.insert(hasher.finish()) {
            warn!(lines, reason, "InfluxDB rejected facts; they are dropped");
        }
    }

    fn mark_unavailable(&mut self, error: &Unavailable) {
        if !self.is_unavailable {
            self.is_unavailable = true;
            warn!(error = %error, "InfluxDB is unavailable; facts are spooled to disk");
        }
        self.metrics.set_state(FeedState::Unavailable);
    }

    /// Neither InfluxDB nor the spool accepts points.
    pub(super) fn mark_stuck(&self) {
        self.metrics.set_state(FeedState::Stuck);
    }

    fn report_lost(&self, lost: LostBatches, cause: DropCause) {
        if lost != LostBatches::default() {
            self.metrics.dropped(cause, lost.lines.max(lost.damaged));
            warn!(lines = lost.lines, damaged = lost.damaged, cause = ?cause, "spooled facts lost");
        }
    }

    /// Stores the position if enough has changed.
    async fn store_cursor(&mut self, at_once: bool) -> io::Result<()> {
        let place = self.with_spool(|spool| spool.place());
        self.update_metrics();
        let now = FeedCursor {
            target: self.target,
            since: self.position.since(),
            place,
        };
        let steps = |cursor: &FeedCursor| cursor.since.map_or(0, |it| it.0);
        let is_far = steps(&now).saturating_sub(steps(&self.written)) >= CURSOR_STRIDE;
        let is_another = now.since.is_some() != self.written.since.is_some();
        if now == self.written || !(at_once || is_far || is_another) {
            return Ok(());
        }
        let folder = self.folder.clone();
        on_disk(move || now.write(&folder)).await?;
        self.written = now;
        Ok(())
    }

    /// Updates the metrics of the spool.
    fn update_metrics(&self) {
        let (bytes, oldest) = self.with_spool(|spool| (spool.bytes(), spool.oldest()));
        self.metrics.set_spool(bytes, oldest);
    }

    pub(super) fn has_spooled(&self) -> bool {
        !self.with_spool(|spool| spool.is_empty())
    }

    /// Only for operations that do not wait for the disk.
    fn with_spool<T>(&self, read: impl FnOnce(&Spool) -> T) -> T {
        read(&self.spool.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn spool<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let spool = Arc::clone(&self.spool);
        on_disk(move || work(&mut spool.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

/// Runs on a blocking thread.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

fn make_folder(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}
