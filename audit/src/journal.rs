//! Journal: appends events to the segments of one folder, with rotation and retention.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use time::OffsetDateTime;

use crate::{
    chain::{ChainEnd, hex},
    event::{AuditEvent, EVENT_VERSION, EventKind, timestamp},
    line::EncodedEvents,
    segment::{self, OpenSegment},
};

/// Memory that is kept from one write to the next, in bytes.
const MAX_KEPT_BYTES: usize = 512 * 1024;
/// Bytes of a line besides its encoded event: version, number and hash.
const OWN_MEMBERS_BYTES: usize = 112;

/// Settings of the files.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// Folder of the segments.
    pub dir: PathBuf,
    /// Name of the hub, for the heads of segments.
    pub hub: String,
    /// Retention: a segment is removed once all of its events are older.
    pub keep: Duration,
    /// Size at which a new segment begins, in bytes.
    pub segment_bytes: u64,
    /// Age at which a new segment begins.
    pub segment_age: Duration,
    /// Longest time until written events are synced to the disk; zero syncs each batch.
    pub sync: Duration,
}

impl JournalSettings {
    /// Default settings for a folder.
    #[must_use]
    pub fn of(dir: PathBuf, hub: String) -> Self {
        const ONE_DAY: Duration = Duration::from_secs(24 * 3600);
        JournalSettings {
            dir,
            hub,
            keep: 365 * ONE_DAY,
            segment_bytes: 64 << 20,
            segment_age: ONE_DAY,
            sync: Duration::from_secs(1),
        }
    }
}

pub(crate) struct Journal {
    settings: JournalSettings,
    pub(crate) end: ChainEnd,
    segment: Option<OpenSegment>,
    /// Memory of the last write, for the next one.
    lines: Vec<u8>,
    /// One process writes a chain.
    _lock: fs::File,
    #[cfg(test)]
    pub(crate) disk_full: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Journal {
    /// Opens a folder, and continues its chain.
    ///
    /// # Errors
    /// The folder cannot be read or written, or its end is damaged.
    pub(crate) fn open(settings: JournalSettings, now: OffsetDateTime) -> io::Result<Self> {
        segment::create_private_dir(&settings.dir)?;
        let lock = segment::lock(&settings.dir)?;
        let resumed = segment::resume(&settings.dir)?;
        let mut journal = Journal {
            settings,
            end: resumed.end,
            segment: resumed.segment,
            lines: Vec::new(),
            _lock: lock,
            #[cfg(test)]
            disk_full: std::sync::Arc::default(),
        };
        if resumed.cut > 0 {
            journal.write(vec![note(now, EventKind::Recovered, resumed.cut)], now)?;
        }
        Ok(journal)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.settings.dir
    }

    pub(crate) fn sync_interval(&self) -> Duration {
        self.settings.sync
    }

    /// Name of the hub.
    pub(crate) fn hub(&self) -> &str {
        &self.settings.hub
    }

    /// Appends events, all or nothing. After an error nothing has changed.
    pub(crate) fn write(&mut self, events: Vec<AuditEvent>, now: OffsetDateTime) -> io::Result<()> {
        let mut encoded = EncodedEvents::default();
        for mut event in events {
            event.hub = Some(self.settings.hub.clone());
            encoded.push_event(event);
        }
        self.write_encoded(&encoded, now)
    }

    /// Appends encoded events, all or nothing. After an error nothing has changed.
    pub(crate) fn write_encoded(
        &mut self,
        events: &EncodedEvents,
        now: OffsetDateTime,
    ) -> io::Result<()> {
        if self.is_segment_full(now) {
            self.rotate(now)?;
        }
        let mut end = self.end;
        self.lines.clear();
        self.lines.shrink_to(MAX_KEPT_BYTES);
        self.lines
            .reserve(events.size() + events.len() * OWN_MEMBERS_BYTES);
        for encoded in events.iter() {
            end.append_encoded(encoded, &mut self.lines);
        }
        let Some(segment) = &mut self.segment else {
            return Err(io::Error::other("no open segment"));
        };
        #[cfg(test)]
        {
            segment.disk_full = std::sync::Arc::clone(&self.disk_full);
        }
        segment.append(&self.lines)?;
        self.end = end;
        Ok(())
    }

    /// Makes all written events durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if let Some(segment) = &self.segment {
            segment.sync()?;
        }
        segment::write_head(&self.settings.dir, &self.end)
    }

    fn is_segment_full(&self, now: OffsetDateTime) -> bool {
        let Some(segment) = &self.segment else {
            return true;
        };
        let age = now.unix_timestamp().saturating_sub(segment.since);
        let max_age = i64::try_from(self.settings.segment_age.as_secs()).unwrap_or(i64::MAX);
        segment.length >= self.settings.segment_bytes || age >= max_age
    }

    /// Begins a segment. Its head names the hash of the line before, so that a missing file shows.
    fn rotate(&mut self, now: OffsetDateTime) -> io::Result<()> {
        let number = self
            .segment
            .as_ref()
            .map_or(1, |segment| segment.number + 1);
        if let Some(full) = &self.segment {
            full.sync()?;
        }
        let mut end = self.end;
        let head = AuditEvent {
            segment: Some(number),
            prev: Some(hex(&end.hash)),
            name: Some(self.settings.hub.clone()),
            ..note_without_count(now, EventKind::Segment)
        };
        let mut line = Vec::new();
        end.append(head, &mut line);
        let created = OpenSegment::create(&self.settings.dir, number, now.unix_timestamp());
        let mut segment = created?;
        #[cfg(test)]
        {
            segment.disk_full = std::sync::Arc::clone(&self.disk_full);
        }
        if let Err(error) = segment.append(&line) {
            fs::remove_file(segment::path_of(&self.settings.dir, number))?;
            return Err(error);
        }
        self.segment = Some(segment);
        self.end = end;
        Ok(())
    }

    /// Removes segments with nothing but events beyond the retention. The log notes it first.
    pub(crate) fn remove_old(&mut self, now: OffsetDateTime) -> io::Result<()> {
        let numbers = segment::numbers(&self.settings.dir)?;
        let oldest = timestamp(now - self.settings.keep);
        let mut old = Vec::new();
        for pair in numbers.windows(2) {
            let &[number, next] = pair else { continue };
            // All events of a segment are older than the head of the next one.
            match segment::first_event(&self.settings.dir, next)? {
                Some(head) if head.at < oldest => old.push(number),
                _ => break,
            }
        }
        let Some(&last) = old.last() else {
            return Ok(());
        };
        self.write(vec![note(now, EventKind::Retention, last)], now)?;
        self.sync()?;
        for number in old {
            fs::remove_file(segment::path_of(&self.settings.dir, number))?;
        }
        Ok(())
    }
}

fn note_without_count(at: OffsetDateTime, kind: EventKind) -> AuditEvent {
    AuditEvent {
        v: EVENT_VERSION,
        at: timestamp(at),
        kind,
        ..AuditEvent::default()
    }
}

fn note(at: OffsetDateTime, kind: EventKind, count: u64) -> AuditEvent {
    AuditEvent {
        count: Some(count),
        ..note_without_count(at, kind)
    }
}
