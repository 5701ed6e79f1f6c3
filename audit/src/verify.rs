//! Check of a folder of segments: finds removed, changed, inserted and reordered lines.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use crate::{
    chain::{GENESIS, LineHash, hash, split, unhex},
    event::{AuditEvent, EventKind},
    heads::ChainHeads,
    segment::{first_event, numbers, path_of, read_head},
};

/// Limit of reported defects.
const MAX_FINDINGS: usize = 100;
/// Hashes that are kept to check reordered lines.
const KEPT_HASHES: usize = 4096;

/// A defect of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File name of the segment.
    pub file: String,
    /// Line of the file, from 1; 0 for the whole file.
    pub line: u64,
    /// Kind of the defect.
    pub defect: Defect,
}

/// Kind of a defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// Events with these numbers are missing before the line.
    Removed {
        /// First missing number.
        from: u64,
        /// Last missing number.
        to: u64,
    },
    /// The line does not have the hash of its content.
    Changed {
        /// Number of the event.
        seq: u64,
    },
    /// The line has a number that was before: it was inserted, or repeated.
    Inserted {
        /// Number of the event.
        seq: u64,
    },
    /// The line is genuine and not in its place.
    Reordered {
        /// Number of the event.
        seq: u64,
    },
    /// The line has another hash than at an earlier time: the chain was computed anew.
    Rewritten {
        /// Number of the event.
        seq: u64,
    },
    /// The line is no event.
    Unreadable,
    /// The last line has no end: a crash came while it was written.
    Incomplete,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        match &self.defect {
            Defect::Removed { from, to } if from == to => write!(f, "event {from} is missing"),
            Defect::Removed { from, to } => write!(f, "events {from} to {to} are missing"),
            Defect::Changed { seq } => write!(
                f,
                "event {seq} or the line before it was changed: the hash differs"
            ),
            Defect::Inserted { seq } => write!(f, "event {seq} was inserted"),
            Defect::Reordered { seq } => write!(f, "event {seq} is not in its place"),
            Defect::Rewritten { seq } => write!(
                f,
                "event {seq} has another hash than at an earlier time: the log was rewritten"
            ),
            Defect::Unreadable => write!(f, "the line is no event of this log"),
            Defect::Incomplete => write!(f, "the last line is incomplete"),
        }
    }
}

/// Result of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of checked segments.
    pub segments: u64,
    /// Number of checked lines.
    pub lines: u64,
    /// Number and hash of the last event, to compare with a copy at another place.
    pub last: Option<(u64, String)>,
    /// Defects, in the order of the log; at most a hundred.
    pub findings: Vec<Finding>,
}

/// Checks all segments of a folder.
///
/// A line that is being written at the same time counts as incomplete.
///
/// # Errors
/// The folder or a segment cannot be read.
pub fn verify(dir: &Path) -> io::Result<Verification> {
    verify_with(dir, &ChainHeads::new())
}

/// Checks all segments of a folder, also against hashes that were noted at another place.
///
/// # Errors
/// The folder or a segment cannot be read.
pub fn verify_with(dir: &Path, heads: &ChainHeads) -> io::Result<Verification> {
    let mut check = Check {
        heads: heads.clone(),
        ..Check::default()
    };
    let numbers = numbers(dir)?;
    // Read first: events of a running hub only come after it.
    let noted = read_head(dir)?;
    for (at, &number) in numbers.iter().enumerate() {
        let is_last = at + 1 == numbers.len();
        check.segment(dir, number, is_last)?;
    }
    if let Some(end) = noted
        && end.seq > check.max_seq
    {
        let from = check.max_seq + 1;
        check.report(0, Defect::Removed { from, to: end.seq });
    }
    check.missing_at_end();
    check.removed_at_begin(numbers.first().copied());
    if let Some(hash) = check.hashes.get(&check.max_seq) {
        check.result.last = Some((check.max_seq, crate::chain::hex(hash)));
    }
    // A line that was found elsewhere is not missing.
    let found = check.late;
    check
        .result
        .findings
        .retain(|finding| match finding.defect {
            Defect::Removed { from, to } => !(from..=to).all(|seq| found.contains(&seq)),
            _ => true,
        });
    Ok(check.result)
}

#[derive(Default)]
struct Check {
    result: Verification,
    heads: ChainHeads,
    file: String,
    max_seq: u64,
    /// Number of the last event before the first segment.
    begin_seq: u64,
    hashes: BTreeMap<u64, LineHash>,
    /// Numbers of genuine lines behind their place.
    late: Vec<u64>,
    gaps: Vec<(u64, u64)>,
    /// Last segment that the retention has removed, as the log says.
    retired: u64,
}

impl Check {
    fn report(&mut self, line: u64, defect: Defect) {
        if self.result.findings.len() < MAX_FINDINGS {
            let file = self.file.clone();
            self.result.findings.push(Finding { file, line, defect });
        }
    }

    fn segment(&mut self, dir: &Path, number: u64, is_last: bool) -> io::Result<()> {
        let path = path_of(dir, number);
        self.file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.result.segments += 1;
        if self.result.segments == 1 {
            self.begin(dir, number)?;
        }
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut line = Vec::new();
        for place in 1.. {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.pop_if(|byte| *byte == b'\n').is_none() {
                if is_last {
                    self.report(place, Defect::Incomplete);
                    break;
                }
                self.report(place, Defect::Unreadable);
                continue;
            }
            self.line(place, &line);
        }
        Ok(())
    }

    /// The first segment that is left continues one that the retention has removed.
    fn begin(&mut self, dir: &Path, number: u64) -> io::Result<()> {
        let head = first_event(dir, number)?;
        let head = head.filter(|_| number > 1);
        let before = head.as_ref().and_then(|head| {
            let prev = unhex(head.prev.as_deref()?)?;
            Some((head.seq.checked_sub(1)?, prev))
        });
        let (seq, prev) = before.unwrap_or((0, GENESIS));
        (self.max_seq, self.begin_seq) = (seq, seq);
        self.hashes.insert(seq, prev);
        Ok(())
    }

    fn line(&mut self, place: u64, line: &[u8]) {
        self.result.lines += 1;
        let parts = split(line).zip(serde_json::from_slice::<AuditEvent>(line).ok());
        let Some(((canonical, stated), event)) = parts else {
            self.report(place, Defect::Unreadable);
            return;
        };
        let seq = event.seq;
        let before = seq.checked_sub(1).and_then(|seq| self.hashes.get(&seq));
        let is_genuine = before.map(|before| hash(before, &canonical) == stated);
        let expected = self.max_seq + 1;
        if seq < expected {
            let in_gap = self
                .gaps
                .iter()
                .any(|&(from, to)| (from..=to).contains(&seq));
            // Without the line before it, only its number speaks for it.
            if in_gap && is_genuine != Some(false) && !self.late.contains(&seq) {
                self.late.push(seq);
                self.hashes.insert(seq, stated);
                self.report(place, Defect::Reordered { seq });
            } else {
                self.report(place, Defect::Inserted { seq });
            }
            return;
        }
        if seq > expected {
            let gap = (expected, seq - 1);
            self.gaps.push(gap);
            self.report(
                place,
                Defect::Removed {
                    from: gap.0,
                    to: gap.1,
                },
            );
        } else if is_genuine != Some(true) {
            self.report(place, Defect::Changed { seq });
        }
        if self.heads.get(&seq).is_some_and(|noted| *noted != stated) {
            self.report(place, Defect::Rewritten { seq });
        }
        if event.kind == EventKind::Retention {
            self.retired = self.retired.max(event.count.unwrap_or_default());
        }
        self.max_seq = seq;
        self.hashes.insert(seq, stated);
        while self.hashes.len() > KEPT_HASHES {
            self.hashes.pop_first();
        }
    }

    /// Noted events must be there, unless the retention has removed them.
    fn missing_at_end(&mut self) {
        if let Some((&to, _)) = self.heads.last_key_value()
            && to > self.max_seq
        {
            let from = self.max_seq + 1;
            self.report(0, Defect::Removed { from, to });
        }
    }

    /// Segments before the first one must have been removed by the retention.
    fn removed_at_begin(&mut self, first: Option<u64>) {
        let Some(first) = first else { return };
        if first > self.retired + 1 {
            self.file = format!("{:08}.jsonl", self.retired + 1);
            let to = self.begin_seq;
            self.report(0, Defect::Removed { from: 1, to });
        }
    }
}
