//! Carries documents, status, rows and the time into the fleet, and steps, rows and ETags out of it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fairlead_api::{BundleId, Code, Failure, RolloutId, resources::ClusterState};
use fairlead_delivery_store::{DeploymentStore, RolloutStore, RolloutVersion};
use fairlead_rollout::{RolloutVerb, UnixMillis, VerbRefused};
use fairlead_store::{Actor, Clock, Draft, Store, StoreError};
use tracing::{error, info, warn};

use super::{
    Fleet,
    bundle_rollout::RolloutSave,
    follow::LoadedGeneration,
    rollout_row::RolloutBody,
    stored_rows::StoredRows,
    tombstones::{self, ServedTombstones},
};
use crate::{announcements::Announcements, generations::Generations};

/// Time without decisions after the start of a hub or a change of the leading one: agents reconnect, and a wave without
/// connected clusters would be done at once.
const QUIET_TIME: Duration = Duration::from_secs(30);
/// The same after another hub has led: this one has observed all clusters meanwhile, and those of a lost hub count as
/// connected for longer than this.
const TAKEOVER_QUIET_TIME: Duration = Duration::from_secs(3);
/// Interval of reading what other hubs have written.
const REMOTE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of ETags that are computed at a time, while agents and people wait.
const ETAG_BATCH: usize = 200;
/// Number of rounds in which loaded generations may need further ones.
const MAX_LOAD_ROUNDS: usize = 3;
/// Number of rollouts of a bundle that are kept.
const MAX_ROLLOUTS: usize = 20;
/// No decision: another hub makes them.
const NEVER: UnixMillis = UnixMillis(u64::MAX);

/// Parts of the hub that the supervisor joins.
pub(crate) struct SupervisorParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) generations: Generations,
    pub(crate) deployments: DeploymentStore,
    pub(crate) rollouts: RolloutStore,
    pub(crate) announcements: Arc<Announcements>,
}

/// Keeps the fleet up to date.
pub(crate) struct Supervisor {
    parts: SupervisorParts,
    /// Turn of the last taken status.
    turn: u64,
    rows: StoredRows,
    /// True if this hub makes the decisions: it leads, and no restore awaits a confirmation.
    decides: bool,
    /// True if stored rollouts of deleted bundles may exist.
    has_deleted_bundles: bool,
    /// No decision before this time.
    quiet_until: UnixMillis,
    /// Start of this hub.
    started: UnixMillis,
    /// Time of the last read of what other hubs have written.
    polled: UnixMillis,
}

/// Reason why a verb of a person has no effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerbError {
    /// The rollout has ended, or another one has replaced it.
    #[error("another rollout of the bundle has replaced it")]
    Replaced,
    /// The verb has no meaning in this state.
    #[error(transparent)]
    Refused(#[from] VerbRefused),
    /// The step cannot be stored, or another hub has stored one.
    #[error("the step of the rollout was not stored")]
    NotStored,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        match error {
            VerbError::Replaced | VerbError::Refused(_) => {
                Failure::because(Code::RolloutVerb, error)
            }
            VerbError::NotStored => Code::Conflict.into(),
            VerbError::Store(error) => error.into(),
        }
    }
}

impl Supervisor {
    pub(crate) fn new(parts: SupervisorParts) -> Self {
        let started = parts.clock.now().into();
        Supervisor {
            rows: StoredRows::new(parts.deployments.clone()),
            started,
            parts,
            turn: 0,
            decides: false,
            has_deleted_bundles: true,
            quiet_until: UnixMillis(0),
            polled: UnixMillis(0),
        }
    }

    fn now(&self) -> UnixMillis {
        self.parts.clock.now().into()
    }

    /// Brings the fleet up to date; returns the time until the next pass, if nothing happens before.
    ///
    /// # Errors
    /// [`StoreError`]; the next pass begins where this one has failed.
    pub(crate) async fn pass(&mut self, fleet: &Mutex<Fleet>) -> Result<Duration, StoreError> {
        let now = self.now();
        self.follow(fleet, now).await?;
        self.observe(fleet, now);
        self.read_rows(fleet, now).await?;
        self.lead(fleet, now);
        self.read_rollouts(fleet, now).await?;
        // Released generations of restored rollouts.
        self.follow(fleet, now).await?;
        {
            let mut fleet = lock(fleet);
            fleet.note_reports(now);
            if self.decides {
                fleet.drive(self.quiet_until, now);
            }
        }
        let saves = match self.decides {
            true => lock(fleet).saves(),
            false => Vec::new(),
        };
        self.store_steps(fleet, saves, now).await?;
        self.forget_tombstones(fleet).await?;
        self.forget_deleted_bundles(fleet).await?;
        self.write_rows(fleet).await?;
        self.publish(fleet);
        Ok(self.delay(fleet))
    }

    /// Applies the verb of a person.
    ///
    /// # Errors
    /// [`VerbError`]
    pub(crate) async fn verb(
        &mut self,
        fleet: &Mutex<Fleet>,
        id: &RolloutId,
        verb: RolloutVerb,
    ) -> Result<(), VerbError> {
        self.pass(fleet).await?;
        let now = self.now();
        let done = lock(fleet).verb(id, verb, now);
        let bundle = done.ok_or(VerbError::Replaced)??;
        let mut saves = lock(fleet).saves();
        saves.retain(|it| self.decides || it.row.bundle == bundle);
        self.store_steps(fleet, saves, now).await?;
        let known = lock(fleet).known_rollouts();
        if !known.contains_key(id) {
            return Err(VerbError::NotStored);
        }
        info!(rollout = %id, %bundle, %verb, "rollout changed by a person");
        self.publish(fleet);
        Ok(())
    }

    /// Takes the documents, with the generations that they need.
    async fn follow(&self, fleet: &Mutex<Fleet>, now: UnixMillis) -> Result<(), StoreError> {
        for _ in 0..MAX_LOAD_ROUNDS {
            let view = self.parts.store.view();
            let (missing, is_current) = {
                let fleet = lock(fleet);
                (fleet.missing_generations(&view), fleet.has_followed(&view))
            };
            if is_current && missing.is_empty() {
                return Ok(());
            }
            let mut loaded = Vec::with_capacity(missing.len());
            for (record, number) in missing {
                let bundle = &record.value;
                let found = bundle.generations.iter().find(|it| it.number == number);
                let Some(found) = found else { continue };
                match self.parts.generations.load(bundle, found).await {
                    Ok(generation) => loaded.push(LoadedGeneration {
                        bundle: bundle.id.clone(),
                        number,
                        generation,
                    }),
                    Err(StoreError::Damaged(what)) => {
                        error!(bundle = %bundle.id, generation = number, what, "generation not loaded");
                    }
                    Err(other) => return Err(other),
                }
            }
            if is_current && loaded.is_empty() {
                // Damaged ones: nothing more can be done.
                return Ok(());
            }
            let store = &self.parts.store;
            let status = |id: &_| store.observed(id);
            lock(fleet).follow(&view, loaded, &status, now);
        }
        Ok(())
    }

    /// Takes changed connection status.
    fn observe(&mut self, fleet: &Mutex<Fleet>, now: UnixMillis) {
        let store = &self.parts.store;
        let turn = *store.watch_seen().borrow();
        if turn == self.turn {
            return;
        }
        let changed = store.seen_since(self.turn).into_iter();
        let changed = changed.filter_map(|id| store.observed(&id).map(|it| (id, it)));
        let changed: Vec<_> = changed.collect();
        self.turn = turn;
        lock(fleet).observe(changed, now);
    }

    /// Reads states of deployments: all at first, then those of other hubs. The leading hub deletes removed ones.
    async fn read_rows(&mut self, fleet: &Mutex<Fleet>, now: UnixMillis) -> Result<(), StoreError> {
        let is_due = now.since(self.polled) >= REMOTE_POLL_INTERVAL;
        if self.rows.is_unread() || (self.parts.store.is_shared() && is_due) {
            self.rows.read(fleet, now).await?;
        }
        if self.parts.store.leads() {
            self.rows.collect(now).await?;
        }
        Ok(())
    }

    /// Notes whether this hub decides. A hub that begins to reads all rollouts again, and waits for agents.
    fn lead(&mut self, fleet: &Mutex<Fleet>, now: UnixMillis) {
        let decides = self.parts.store.leads() && !lock(fleet).awaits_confirmation();
        if decides == self.decides {
            return;
        }
        self.decides = decides;
        // The hub that led may have ended before it deleted them.
        self.has_deleted_bundles = true;
        lock(fleet).forget_rollouts();
        let status = self.parts.store.all_observed();
        let were_connected = |state| !matches!(state, ClusterState::Never);
        if decides && status.values().any(|it| were_connected(it.status.state)) {
            let has_observed = now.since(self.started) >= QUIET_TIME;
            self.quiet_until = now
                + match has_observed {
                    true => TAKEOVER_QUIET_TIME,
                    false => QUIET_TIME,
                };
        }
    }

    /// Reads stored rollouts: unknown ones, and those that other hubs have changed.
    async fn read_rollouts(
        &mut self,
        fleet: &Mutex<Fleet>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let is_due = now.since(self.polled) >= REMOTE_POLL_INTERVAL && self.parts.store.is_shared();
        if !is_due && !lock(fleet).has_unknown_rollouts() {
            return Ok(());
        }
        self.polled = now;
        let stored = self.parts.rollouts.newest().await?;
        let known = lock(fleet).known_rollouts();
        for RolloutVersion { id, version } in stored {
            if known.get(&id).is_none_or(|it| *it < version) {
                self.read_rollout(fleet, &id, now).await?;
            }
        }
        lock(fleet).set_rollouts_known();
        Ok(())
    }

    async fn read_rollout(
        &self,
        fleet: &Mutex<Fleet>,
        id: &RolloutId,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let rollouts = &self.parts.rollouts;
        let (row, waves) = (rollouts.get(id).await?, rollouts.waves(id).await?);
        let (Some(row), Some(waves)) = (row, waves) else {
            return Ok(());
        };
        let damaged = || StoreError::Damaged(format!("rollout {id}"));
        let frozen = serde_json::from_str(&waves).map_err(|_| damaged())?;
        let body = RolloutBody::read(&row).ok_or_else(damaged)?;
        let quiet_until = match self.decides {
            true => self.quiet_until,
            false => NEVER,
        };
        lock(fleet).restore_rollout(&row, frozen, body, Some(quiet_until), now);
        Ok(())
    }

    /// Stores the steps of rollouts, then applies their effects.
    async fn store_steps(
        &self,
        fleet: &Mutex<Fleet>,
        saves: Vec<RolloutSave>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        for save in saves {
            match self.store_step(&save).await {
                Ok(true) => lock(fleet).saved(&save.row.bundle),
                Ok(false) => {
                    info!(rollout = %save.row.id, "rollout changed by another hub");
                    lock(fleet).forget_rollout(&save.row.bundle);
                }
                Err(error) => {
                    lock(fleet).forget_rollout(&save.row.bundle);
                    failed = Some(error);
                }
            }
        }
        let retried = lock(fleet).apply(now);
        lock(fleet).note_retries(retried);
        failed.map_or(Ok(()), Err)
    }

    /// True unless another hub has stored another step.
    async fn store_step(&self, save: &RolloutSave) -> Result<bool, StoreError> {
        let rollouts = &self.parts.rollouts;
        if let Some(superseded) = &save.superseded {
            // A crash after this write leaves a replaced rollout without a successor; the next pass starts that.
            rollouts.replace(superseded).await?;
        }
        let Some(waves) = &save.waves else {
            return rollouts.replace(&save.row).await;
        };
        let added = rollouts.add(&save.row, waves).await?;
        if added {
            let row = &save.row;
            info!(rollout = %row.id, bundle = %row.bundle, generation = row.generation, "rollout started");
            self.forget_old_rollouts(&row.bundle).await?;
        }
        Ok(added)
    }

    async fn forget_old_rollouts(&self, bundle: &BundleId) -> Result<(), StoreError> {
        let filter = fairlead_delivery_store::RolloutFilter {
            bundle: Some(bundle.clone()),
            ..Default::default()
        };
        let limit = u32::try_from(4 * MAX_ROLLOUTS).unwrap_or(u32::MAX);
        let rollouts = self.parts.rollouts.list(&filter, limit).await?;
        let mut numbers: Vec<u64> = rollouts.iter().map(|it| it.generation).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(oldest_kept) = numbers.get(MAX_ROLLOUTS - 1) {
            self.parts.rollouts.forget(bundle, *oldest_kept).await?;
        }
        Ok(())
    }

    /// Deletes tombstones that have served, and bundles without a further one.
    async fn forget_tombstones(&self, fleet: &Mutex<Fleet>) -> Result<(), StoreError> {
        let served = lock(fleet).served_tombstones();
        if served.is_empty() {
            return Ok(());
        }
        let done: ServedTombstones = served.clone();
        let decide = move |draft: &mut Draft| tombstones::forget(draft, &done);
        let stored = self.parts.store.change(Actor::Hub, decide).await;
        if stored.is_err() {
            lock(fleet).return_tombstones(served);
        }
        stored.map(drop)
    }

    /// Deletes stored rollouts of deleted bundles.
    async fn forget_deleted_bundles(&mut self, fleet: &Mutex<Fleet>) -> Result<(), StoreError> {
        self.has_deleted_bundles |= lock(fleet).take_deleted_bundles();
        if self.has_deleted_bundles && self.parts.store.leads() {
            self.parts.rollouts.forget_deleted().await?;
            self.has_deleted_bundles = false;
        }
        Ok(())
    }

    /// Writes changed states of deployments.
    async fn write_rows(&mut self, fleet: &Mutex<Fleet>) -> Result<(), StoreError> {
        let rows = lock(fleet).take_rows();
        if rows.is_empty() {
            return Ok(());
        }
        let is_shared = self.parts.store.is_shared();
        let written = self.rows.write(&rows, is_shared).await;
        if written.is_err() {
            lock(fleet).return_rows(rows);
        }
        written
    }

    /// Announces changed desired states.
    fn publish(&self, fleet: &Mutex<Fleet>) {
        loop {
            let etags = lock(fleet).take_etags(ETAG_BATCH);
            if etags.is_empty() {
                return;
            }
            self.parts.announcements.publish(etags);
        }
    }

    fn delay(&self, fleet: &Mutex<Fleet>) -> Duration {
        const MAX_PASS_INTERVAL: Duration = Duration::from_secs(5);
        const MIN_PASS_INTERVAL: Duration = Duration::from_millis(100);
        let now = self.now();
        let mut delay = match self.parts.store.is_shared() {
            true => REMOTE_POLL_INTERVAL,
            false => MAX_PASS_INTERVAL,
        };
        if self.decides {
            let decision = lock(fleet).wake();
            let quiet = Some(self.quiet_until).filter(|it| *it > now);
            for at in [decision, quiet].into_iter().flatten() {
                delay = delay.min(at.since(now));
            }
        }
        delay.max(MIN_PASS_INTERVAL)
    }
}

/// Locks the fleet. A panic of another thread leaves consistent documents; the next pass follows them again.
pub(crate) fn lock(fleet: &Mutex<Fleet>) -> std::sync::MutexGuard<'_, Fleet> {
    fleet.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs a failed pass.
pub(crate) fn log_failure(error: &StoreError) {
    warn!(%error, "deliveries not brought up to date");
}
