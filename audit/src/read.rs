//! Events of the log by filter, latest first, in bounded steps.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::{
    event::{AuditEvent, Stage},
    segment::{MAX_LINE_BYTES, first_event, numbers, path_of},
};

/// Bytes that one call reads at most, apart from the rest of a block.
const MAX_SCANNED_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 1 << 20;

/// Filter of events; matches all by default.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Name of the caller.
    pub caller: Option<String>,
    /// Id of the cluster.
    pub cluster: Option<String>,
    /// Kubernetes verb, or method in lower case.
    pub verb: Option<String>,
    /// Id of the request.
    pub id: Option<String>,
    /// Stage of the request.
    pub stage: Option<Stage>,
    /// Earliest time, as [`timestamp`](crate::timestamp).
    pub since: Option<String>,
}

impl EventFilter {
    fn matches(&self, event: &AuditEvent) -> bool {
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
        };
        let caller = event.caller.as_ref().map(|caller| caller.name.as_str());
        is(&self.caller, caller)
            && is(&self.cluster, event.cluster.as_deref())
            && is(&self.verb, event.verb.as_deref())
            && is(&self.id, event.id.as_deref())
            && self.stage.is_none_or(|stage| event.stage == Some(stage))
    }

    /// Quick check before a line is parsed: each wanted value occurs in it.
    fn may_match(&self, line: &str) -> bool {
        let wanted = [&self.caller, &self.cluster, &self.verb, &self.id];
        wanted
            .into_iter()
            .flatten()
            .filter(|value| {
                value
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-.:@".contains(&byte))
            })
            .all(|value| line.contains(value.as_str()))
    }
}

/// Events of one call.
#[derive(Debug, Default)]
pub struct EventPage {
    /// Matching events, latest first.
    pub events: Vec<AuditEvent>,
    /// Number for `before` of the next call; `None` at the end.
    pub next: Option<u64>,
}

/// Reads matching events before a number, latest first.
///
/// # Errors
/// A segment cannot be read.
pub fn read(
    dir: &Path,
    filter: &EventFilter,
    before: u64,
    limit: usize,
    is_visible: impl Fn(&AuditEvent) -> bool,
) -> io::Result<EventPage> {
    let mut page = EventPage::default();
    let (mut scanned, mut last) = (0, before);
    for &number in numbers(dir)?.iter().rev() {
        let head = match first_event(dir, number) {
            // The retention may remove a segment at any time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(page),
            head => head?,
        };
        if head.is_none_or(|head| head.seq >= before) {
            continue;
        }
        let mut lines = BackwardLines::open(&path_of(dir, number))?;
        while let Some(line) = lines.next_line()? {
            scanned += line.len() as u64;
            if scanned > MAX_SCANNED_BYTES {
                page.next = Some(last);
                return Ok(page);
            }
            let is_candidate = filter.since.is_some() || filter.may_match(&line);
            if !is_candidate {
                last = seq_of(&line).unwrap_or(last);
                continue;
            }
            let Ok(event) = serde_json::from_str::<AuditEvent>(&line) else {
                continue;
            };
            if event.seq >= before {
                continue;
            }
            if filter.since.as_ref().is_some_and(|since| event.at < *since) {
                return Ok(page);
            }
            if filter.matches(&event) && is_visible(&event) {
                if page.events.len() == limit {
                    page.next = Some(last);
                    return Ok(page);
                }
                last = event.seq;
                page.events.push(event);
            } else {
                last = event.seq;
            }
        }
    }
    Ok(page)
}

/// Number of a line, without parsing all of it.
fn seq_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("\"seq\":")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Lines of a file from its end.
struct BackwardLines {
    file: File,
    /// Bytes of the file before `block`.
    begin: u64,
    block: Vec<u8>,
}

impl BackwardLines {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let begin = file.seek(SeekFrom::End(0))?;
        let mut lines = BackwardLines {
            file,
            begin,
            block: Vec::new(),
        };
        lines.load()?;
        // An incomplete last line is still being written.
        let whole = lines.block.iter().rposition(|&byte| byte == b'\n');
        lines.block.truncate(whole.unwrap_or(0));
        Ok(lines)
    }

    /// Reads the block before; false at the begin of the file.
    fn load(&mut self) -> io::Result<bool> {
        if self.begin == 0 {
            return Ok(false);
        }
        let size = self.begin.min(BLOCK_BYTES);
        self.begin -= size;
        self.file.seek(SeekFrom::Start(self.begin))?;
        let mut block = Vec::new();
        (&self.file).take(size).read_to_end(&mut block)?;
        block.append(&mut self.block);
        self.block = block;
        Ok(true)
    }

    fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = self.block.iter().rposition(|&byte| byte == b'\n') {
                let line = self.block.split_off(at + 1);
                self.block.truncate(at);
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            let is_endless = self.block.len() as u64 > MAX_LINE_BYTES + BLOCK_BYTES;
            if is_endless || !self.load()? {
                let line = std::mem::take(&mut self.block);
                let line = String::from_utf8_lossy(&line).into_owned();
                return Ok((!line.is_empty()).then_some(line));
            }
        }
    }
}
