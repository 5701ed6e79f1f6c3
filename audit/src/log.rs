//! Audit log of a hub: a bounded queue, and one thread that writes it.
//!
//! A request encodes its own two events, and takes a short lock for each. The thread wakes at most 200 times a second. It
//! numbers, hashes and writes all queued events together.

use std::{
    io, mem,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::{error, info};

use crate::{
    buffer::EventBuffer,
    chain::hex,
    config::OnFull,
    event::{AuditEvent, EventKind, RequestHead, RequestParty, RequestResult, Stage, timestamp},
    journal::{Journal, JournalSettings},
    line::{EncodedEvents, encode_end, encode_event, encode_request},
    metrics::AuditMetrics,
    policy::Recorder,
};

/// Events that wait for the writer; beyond it new requests are refused.
const MAX_QUEUED_EVENTS: usize = 65_536;
/// Capacity on top, for the ends of running requests.
const RESERVED_EVENTS: usize = 32_768;
/// Time in which events are gathered for one write.
const GATHER_TIME: Duration = Duration::from_millis(5);
/// Interval of writes while they fail.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of notes about events that were not logged, and of checks for old segments.
const UPKEEP_INTERVAL_SECONDS: i64 = 60;
/// Interval of notes of the chain's head in the hub's own log.
const HEAD_INTERVAL_SECONDS: i64 = 300;
/// Logged requests without a credential per second; strangers must not fill the disk.
const MAX_STRANGERS_PER_SECOND: u64 = 50;

/// The audit log cannot be written: no new request may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct AuditUnwritable;

/// Handle for reporting events; clones share the log.
#[derive(Clone)]
pub struct AuditLog(Arc<LogState>);

/// Part of a start's event that the event of the end has as well.
pub struct StartedEvent {
    start: EventBuffer,
    common: Range<usize>,
}

/// Owner of the thread that writes the log.
pub struct AuditWriter {
    log: AuditLog,
    thread: Option<JoinHandle<()>>,
}

struct LogState {
    dir: PathBuf,
    /// Name of the hub.
    hub: String,
    on_full: OnFull,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// The last write failed, or the queue is full.
    is_failing: AtomicBool,
    lost: AtomicU64,
    suppressed: AtomicU64,
    /// Number of the last event on disk.
    written: watch::Sender<u64>,
    metrics: AuditMetrics,
    recorder: OnceLock<Recorder>,
}

#[derive(Default)]
struct Queue {
    events: EncodedEvents,
    is_closed: bool,
    /// Second and number of its requests without a credential.
    strangers: (u64, u64),
}

impl AuditLog {
    /// Opens the log of a folder and starts its writer.
    ///
    /// # Errors
    /// The folder cannot be read or written, or the end of the log is damaged.
    pub fn open(settings: JournalSettings, on_full: OnFull) -> io::Result<AuditWriter> {
        let dir = settings.dir.clone();
        let journal = Journal::open(settings, OffsetDateTime::now_utc())?;
        Self::start(dir, journal, on_full)
    }

    pub(crate) fn start(
        dir: PathBuf,
        journal: Journal,
        on_full: OnFull,
    ) -> io::Result<AuditWriter> {
        let log = AuditLog(Arc::new(LogState {
            dir,
            hub: journal.hub().to_owned(),
            on_full,
            queue: Mutex::default(),
            wake: Condvar::new(),
            is_failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            written: watch::Sender::new(journal.end.seq),
            recorder: OnceLock::new(),
            metrics: AuditMetrics::new().map_err(io::Error::other)?,
        }));
        let state = Arc::clone(&log.0);
        let writer = std::thread::Builder::new().name("audit".to_owned());
        let thread = writer.spawn(move || Writer::new(state, journal).run())?;
        Ok(AuditWriter {
            log,
            thread: Some(thread),
        })
    }

    /// Adds the metrics of the log to a registry.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn register(
        &self,
        registry: &fairlead_runtime::metrics::Registry,
    ) -> Result<(), prometheus::Error> {
        let metrics = self.0.metrics.clone();
        registry.register(Box::new(metrics.events))?;
        registry.register(Box::new(metrics.lost))?;
        registry.register(Box::new(metrics.failures))
    }

    /// Folder of the segments.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Number of the last event on disk; changes with each write.
    #[must_use]
    pub fn written(&self) -> watch::Receiver<u64> {
        self.0.written.subscribe()
    }

    /// Sets the recorder of terminal sessions; only the first one counts.
    pub fn record_sessions(&self, recorder: Recorder) {
        let _ = self.0.recorder.set(recorder);
    }

    /// Recorder of terminal sessions, if there is a policy.
    #[must_use]
    pub fn recorder(&self) -> Option<Recorder> {
        self.0.recorder.get().cloned()
    }

    /// Permits a new request, unless its events could be lost.
    ///
    /// # Errors
    /// [`AuditUnwritable`] while writes fail, if the settings say so.
    pub fn admit(&self) -> Result<(), AuditUnwritable> {
        match self.0.on_full {
            OnFull::Refuse if self.0.is_failing.load(Ordering::Relaxed) => Err(AuditUnwritable),
            _ => Ok(()),
        }
    }

    /// Reports the start of an authorized request.
    pub fn start_of(&self, head: &RequestHead<'_>, party: &RequestParty<'_>) {
        self.request(head, party, None);
    }

    /// Like [`AuditLog::start_of`], with the time of the request's head; the result makes the event of the end cheaper. It takes
    /// some 600 bytes.
    pub fn short_start_of(
        &self,
        at: SystemTime,
        head: &RequestHead<'_>,
        party: &RequestParty<'_>,
    ) -> StartedEvent {
        let mut start = EventBuffer::new();
        let common = encode_request(at, &self.0.hub, head, party, None, start.bytes());
        self.push(&start);
        StartedEvent { start, common }
    }

    /// Reports the end of a request.
    pub fn end_of(&self, head: &RequestHead<'_>, party: &RequestParty<'_>, result: &RequestResult) {
        self.request(head, party, Some(result));
    }

    /// Reports the end of a request about whose sender and cluster nothing has changed since its start.
    pub fn end_of_started(&self, started: &StartedEvent, at: SystemTime, result: &RequestResult) {
        let common = started.start.get(started.common.clone());
        let mut end = EventBuffer::new();
        let to = end.bytes();
        encode_end(at, &self.0.hub, common.unwrap_or_default(), result, to);
        self.push(&end);
    }

    fn request(
        &self,
        head: &RequestHead<'_>,
        party: &RequestParty<'_>,
        result: Option<&RequestResult>,
    ) {
        let at = SystemTime::now();
        if party.caller.is_none() && self.0.queue().is_over_strangers_limit(at) {
            self.0.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut event = EventBuffer::new();
        encode_request(at, &self.0.hub, head, party, result, event.bytes());
        self.push(&event);
    }

    /// Reports the begin or end of a recording. `event` is that of its request.
    pub(crate) fn recording(&self, stage: Stage, event: AuditEvent, file: String, bytes: u64) {
        self.push_event(AuditEvent {
            kind: EventKind::Recording,
            stage: Some(stage),
            name: Some(file),
            bytes_out: (stage != Stage::Start).then_some(bytes),
            ..event
        });
    }

    /// Reports the removal of a recording by the retention.
    pub(crate) fn recording_removed(&self, file: String, bytes: u64) {
        self.recording(Stage::Removed, AuditEvent::default(), file, bytes);
    }

    fn push_event(&self, event: AuditEvent) {
        let event = self.0.with_origin(event);
        let mut encoded = EventBuffer::new();
        encode_event(event, encoded.bytes());
        self.push(&encoded);
    }

    fn push(&self, encoded: &[u8]) {
        let mut queue = self.0.queue();
        let queued = queue.events.len();
        if queued >= MAX_QUEUED_EVENTS + RESERVED_EVENTS {
            drop(queue);
            self.0.lose(1);
            return;
        }
        queue.events.push(encoded);
        drop(queue);
        if queued + 1 >= MAX_QUEUED_EVENTS {
            self.0.is_failing.store(true, Ordering::Relaxed);
        }
        if queued == 0 {
            self.0.wake.notify_one();
        }
    }
}

impl Queue {
    fn is_over_strangers_limit(&mut self, at: SystemTime) -> bool {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs();
        if self.strangers.0 != second {
            self.strangers = (second, 0);
        }
        self.strangers.1 += 1;
        self.strangers.1 > MAX_STRANGERS_PER_SECOND
    }
}

impl LogState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event at this time and hub.
    fn with_origin(&self, event: AuditEvent) -> AuditEvent {
        AuditEvent {
            at: timestamp(OffsetDateTime::now_utc()),
            hub: Some(self.hub.clone()),
            ..event
        }
    }

    fn lose(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
        self.metrics.lost.inc_by(events);
    }
}

impl AuditWriter {
    /// Handle for reporting events.
    #[must_use]
    pub fn log(&self) -> AuditLog {
        self.log.clone()
    }

    /// Writes all queued events, and ends the thread.
    pub fn finish(mut self) {
        self.close();
    }

    fn close(&mut self) {
        self.log.0.queue().is_closed = true;
        self.log.0.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer {
    state: Arc<LogState>,
    journal: Journal,
    /// Events that a failed write has left.
    pending: EncodedEvents,
    is_failing: bool,
    unsynced_since: Option<tokio::time::Instant>,
    upkeep_at: i64,
    head_at: i64,
    /// Number of the last noted head.
    head: u64,
}

impl Writer {
    fn new(state: Arc<LogState>, journal: Journal) -> Self {
        Writer {
            state,
            journal,
            pending: EncodedEvents::default(),
            is_failing: false,
            unsynced_since: None,
            upkeep_at: 0,
            head_at: 0,
            head: 0,
        }
    }

    fn run(mut self) {
        loop {
            let is_closed = self.gather();
            self.upkeep();
            self.write();
            self.sync(is_closed);
            self.note_head(is_closed);
            if is_closed && (self.is_failing || self.pending.is_empty()) {
                let left = self.pending.len() as u64;
                if left > 0 {
                    error!(events = left, "audit events lost at the end of the hub");
                }
                return;
            }
        }
    }

    /// Waits for events; true if the log is closed and no more will come.
    fn gather(&mut self) -> bool {
        let state = Arc::clone(&self.state);
        let mut queue = state.queue();
        let wait = |queue, time| {
            let waited = state.wake.wait_timeout(queue, time);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        if self.is_failing && !queue.is_closed {
            queue = wait(queue, RETRY_INTERVAL);
        } else if queue.events.is_empty() && !queue.is_closed {
            let idle = match self.unsynced_since {
                Some(_) => self.journal.sync_interval(),
                None => Duration::from_secs(60),
            };
            queue = wait(queue, idle);
        }
        if !queue.events.is_empty() && !queue.is_closed && !self.is_failing {
            // Not woken before: the queue is not empty.
            queue = wait(queue, GATHER_TIME);
        }
        if self.pending.is_empty() {
            mem::swap(&mut self.pending, &mut queue.events);
        }
        queue.is_closed && queue.events.is_empty()
    }

    fn upkeep(&mut self) {
        let now = OffsetDateTime::now_utc();
        if now.unix_timestamp() < self.upkeep_at {
            return;
        }
        self.upkeep_at = now.unix_timestamp() + UPKEEP_INTERVAL_SECONDS;
        let suppressed = self.state.suppressed.swap(0, Ordering::Relaxed);
        self.note(EventKind::Suppressed, suppressed);
        if let Err(error) = self.journal.remove_old(now) {
            error!(%error, "old audit segments not removed");
        }
    }

    fn note(&mut self, kind: EventKind, count: u64) {
        if count > 0 {
            let event = AuditEvent {
                kind,
                count: Some(count),
                ..AuditEvent::default()
            };
            self.pending.push_event(self.state.with_origin(event));
        }
    }

    fn write(&mut self) {
        if !self.is_failing {
            let lost = self.state.lost.swap(0, Ordering::Relaxed);
            self.note(EventKind::Dropped, lost);
        }
        if self.pending.is_empty() {
            return;
        }
        let number = self.pending.len() as u64;
        let now = OffsetDateTime::now_utc();
        match self.journal.write_encoded(&self.pending, now) {
            Ok(()) => {
                self.pending.clear();
                self.state.metrics.events.inc_by(number);
                self.unsynced_since
                    .get_or_insert_with(tokio::time::Instant::now);
                if mem::take(&mut self.is_failing) {
                    info!("audit log is written again");
                }
                self.state.is_failing.store(false, Ordering::Relaxed);
                self.state.written.send_replace(self.journal.end.seq);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, cause: &io::Error) {
        self.state.metrics.failures.inc();
        if !mem::replace(&mut self.is_failing, true) {
            error!(error = %cause, dir = %self.journal.dir().display(), "audit log cannot be written");
        }
        self.state.is_failing.store(true, Ordering::Relaxed);
        if self.state.on_full == OnFull::Drop {
            self.state.lose(self.pending.len() as u64);
            self.pending.clear();
        }
    }

    /// Notes the head of the chain in the hub's own log, which is usually kept at another place than the files.
    fn note_head(&mut self, is_closed: bool) {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let end = self.journal.end;
        if end.seq > self.head && (is_closed || now >= self.head_at) {
            self.head_at = now + HEAD_INTERVAL_SECONDS;
            self.head = end.seq;
            info!(seq = end.seq, hash = hex(&end.hash), "audit chain head");
        }
    }

    fn sync(&mut self, is_closed: bool) {
        let Some(since) = self.unsynced_since else {
            return;
        };
        if is_closed || since.elapsed() >= self.journal.sync_interval() {
            self.unsynced_since = None;
            if let Err(error) = self.journal.sync() {
                error!(%error, "audit log not synced");
            }
        }
    }
}

#[cfg(test)]
impl AuditLog {
    pub(crate) fn lost_total(&self) -> u64 {
        self.0.metrics.lost.get()
    }
}
