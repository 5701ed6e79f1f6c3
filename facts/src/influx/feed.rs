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
    batch::Batch,
    client::{Away, Client, Written},
    cursor::Cursor,
    meter::{Cause, Meter, State},
    source::{Position, TakeError, take},
    spool::{Lost, Place, Spool},
};

/// Number of remembered rejections, so that each is logged once.
const TOLD: usize = 256;
/// Number of changes without facts after which the position is stored anyway.
const STRIDE: u64 = 1000;

pub(super) struct Feed {
    store: Store,
    client: Arc<Client>,
    meter: Meter,
    folder: PathBuf,
    target: u32,
    spool: Arc<Mutex<Spool>>,
    position: Position,
    /// Last stored cursor.
    written: Cursor,
    is_away: bool,
    told: HashSet<u64>,
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// More work may be available.
    More,
    /// Nothing left, except points that InfluxDB does not accept now.
    Idle,
    /// Pause before the next attempt.
    Rest,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("the spool cannot be written or read")]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Take(#[from] TakeError),
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
        client: Arc<Client>,
        meter: Meter,
    ) -> io::Result<Feed> {
        let place = folder.clone();
        let (cursor, (spool, lost)) = on_disk(move || {
            make_folder(&place)?;
            let cursor = Cursor::read(&place)?;
            let from = cursor.map_or_else(Place::default, |it| it.place);
            Ok((cursor, Spool::open(&place, max, from)?))
        })
        .await?;
        let known = cursor.filter(|it| it.target == target);
        let since = known.and_then(|it| it.since);
        let feed = Feed {
            position: since.map_or_else(|| Position::whole(&store), Position::Since),
            written: Cursor {
                target,
                since,
                place: spool.place(),
            },
            store,
            client,
            folder,
            target,
            spool: Arc::new(Mutex::new(spool)),
            is_away: false,
            told: HashSet::new(),
            meter,
        };
        feed.lost(lost, Cause::Damaged);
        feed.show();
        info!(folder = %feed.folder.display(), since = since.map(|it| it.0), "facts go to InfluxDB");
        Ok(feed)
    }

    /// One step. Without `may_send`, new points go to the spool only.
    ///
    /// # Errors
    /// [`Trouble`]; a retry may succeed.
    pub(super) async fn step(&mut self, may_send: bool) -> Result<Step, Trouble> {
        if may_send {
            let (front, lost) = self.spool(Spool::front).await?;
            self.lost(lost, Cause::Damaged);
            if let Some(batch) = front {
                return self.send_waiting(&batch).await;
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
                let Err(away) = self.send(&batch).await else {
                    continue;
                };
                self.goes_away(&away);
                step = Step::Rest;
            }
            left.push(batch);
        }
        if !left.is_empty() {
            let lost = self.spool(move |spool| spool.append(&left)).await?;
            self.lost(lost, Cause::Full);
        }
        self.position = taken.then;
        self.remember(has_facts).await?;
        Ok(step)
    }

    async fn send_waiting(&mut self, batch: &Batch) -> Result<Step, Trouble> {
        if let Err(away) = self.send(batch).await {
            self.goes_away(&away);
            return Ok(Step::Rest);
        }
        self.spool(Spool::pop).await?;
        self.remember(true).await?;
        Ok(Step::More)
    }

    /// Rejected lines are dropped.
    async fn send(&mut self, batch: &Batch) -> Result<(), Away> {
        match self.client.write(batch.gzip.clone()).await? {
            Written::All => self.meter.written(batch.lines()),
            Written::Partly { dropped, why } => {
                let dropped = dropped.min(batch.lines());
                self.meter.written(batch.lines() - dropped);
                self.refused(dropped, &why);
            }
            Written::Refused { why } => self.send_parts(batch, &why).await?,
        }
        if self.is_away {
            self.is_away = false;
            info!("InfluxDB takes facts again");
        }
        self.meter.stands(State::Up);
        Ok(())
    }

    /// Bisects a rejected batch; single rejected lines are dropped.
    async fn send_parts(&mut self, batch: &Batch, why: &str) -> Result<(), Away> {
        let Ok(lines) = batch.unpack() else {
            self.meter.dropped(Cause::Damaged, batch.lines());
            return Ok(());
        };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut parts = vec![(lines.as_slice(), why.to_owned())];
        while let Some((part, why)) = parts.pop() {
            if part.len() <= 1 {
                self.refused(part.len() as u64, &why);
                continue;
            }
            let halves = part.split_at(part.len() / 2);
            for half in [halves.0, halves.1] {
                let packed = Batch::pack(half, batch.at);
                let packed = packed.map_err(|error| Away::Http(error.to_string()))?;
                match self.client.write(packed.gzip).await? {
                    Written::All => self.meter.written(packed.lengths.len() as u64),
                    Written::Partly { dropped, why } => {
                        let lines = packed.lengths.len() as u64;
                        self.meter.written(lines.saturating_sub(dropped));
                        self.refused(dropped.min(lines), &why);
                    }
                    Written::Refused { why } => parts.push((half, why)),
                }
            }
        }
        Ok(())
    }

    /// Logs each kind of rejection once: it may recur with every report.
    fn refused(&mut self, lines: u64, why: &str) {
        self.meter.dropped(Cause::Refused, lines);
        let mut hasher = DefaultHasher::new();
        why.hash(&mut hasher);
        if self.told.len() < TOLD && self.told.insert(hasher.finish()) {
            warn!(lines, why, "InfluxDB refuses some facts; they are left out");
        }
    }

    fn goes_away(&mut self, away: &Away) {
        if !self.is_away {
            self.is_away = true;
            warn!(error = %away, "InfluxDB takes no facts now; they wait on the disk");
        }
        self.meter.stands(State::Away);
    }

    /// Neither InfluxDB nor the spool accepts points.
    pub(super) fn is_stuck(&self) {
        self.meter.stands(State::Stuck);
    }

    fn lost(&self, lost: Lost, cause: Cause) {
        if lost != Lost::default() {
            self.meter.dropped(cause, lost.lines.max(lost.damaged));
            warn!(lines = lost.lines, damaged = lost.damaged, cause = ?cause, "facts that waited for InfluxDB are lost");
        }
    }

    /// Stores the position if enough has changed.
    async fn remember(&mut self, at_once: bool) -> io::Result<()> {
        let place = self.with_spool(|spool| spool.place());
        self.show();
        let now = Cursor {
            target: self.target,
            since: self.position.since(),
            place,
        };
        let steps = |cursor: &Cursor| cursor.since.map_or(0, |it| it.0);
        let is_far = steps(&now).saturating_sub(steps(&self.written)) >= STRIDE;
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
    fn show(&self) {
        let (bytes, oldest) = self.with_spool(|spool| (spool.bytes(), spool.oldest()));
        self.meter.waits(bytes, oldest);
    }

    pub(super) fn waits(&self) -> bool {
        !self.with_spool(|spool| spool.is_empty())
    }

    /// Only for operations that do not wait for the disk.
    fn with_spool<T>(&self, look: impl FnOnce(&Spool) -> T) -> T {
        look(&self.spool.lock().unwrap_or_else(PoisonError::into_inner))
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
