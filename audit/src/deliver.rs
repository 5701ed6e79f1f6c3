//! Delivery of the log to other systems. The files are the spool: each sink has a place in them, and goes on from there.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_runtime::{Process, backoff::ExponentialDelay};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::{
    log::AuditLog,
    segment::{MAX_LINE_BYTES, numbers, path_of, replace},
    sink::{Sink, Sinks},
};

const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Place in the log: everything before it was delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    segment: u64,
    offset: u64,
}

/// Lines to deliver together, and the place behind them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<String>,
    pub(crate) end: Cursor,
}

impl Sinks {
    /// Delivers the log to all receivers, each in a task of the process.
    pub fn start(self, log: &AuditLog, process: &Process) {
        for sink in self.0 {
            let (dir, written) = (log.dir().to_owned(), log.written());
            process.spawn(deliver(dir, sink, written, process.clone()));
        }
    }
}

/// Delivers to one sink until the process drains. The rest is delivered after the next start.
pub(crate) async fn deliver(
    dir: PathBuf,
    mut sink: Sink,
    mut written: watch::Receiver<u64>,
    process: Process,
) {
    let file = dir.join(format!("cursor-{}.json", sink.name()));
    let mut cursor = read_cursor(&file);
    let mut backoff = ExponentialDelay::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
    let mut limit = sink.batch();
    loop {
        written.borrow_and_update();
        let batch = next_batch(&dir, cursor, limit);
        let sent = match &batch {
            Ok(batch) if batch.lines.is_empty() => {
                tokio::select! {
                    changed = written.changed() => if changed.is_err() { return },
                    () = process.draining() => return,
                }
                continue;
            }
            Ok(batch) => sink.send(&batch.lines).await,
            Err(error) => Err(error.to_string()),
        };
        match (sent, batch) {
            (Ok(()), Ok(batch)) => {
                if !backoff.is_reset() {
                    info!(sink = sink.name(), "audit delivery goes on");
                }
                backoff.reset();
                limit = sink.batch();
                cursor = batch.end;
                if let Err(error) = write_cursor(&file, cursor) {
                    warn!(sink = sink.name(), %error, "place of an audit delivery not saved");
                }
                continue;
            }
            (Err(cause), _) => {
                if backoff.is_reset() {
                    warn!(
                        sink = sink.name(),
                        cause, "audit delivery failed, repeating it"
                    );
                }
                // A smaller request may pass a limit of the receiver.
                limit = (limit / 2).max(1);
            }
            (Ok(()), Err(_)) => {}
        }
        tokio::select! {
            () = process.draining() => return,
            () = sleep(backoff.next_delay()) => {}
        }
    }
}

fn read_cursor(file: &Path) -> Cursor {
    let text = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write_cursor(file: &Path, cursor: Cursor) -> io::Result<()> {
    replace(file, &serde_json::to_vec(&cursor)?)
}

/// Complete lines from a place on; empty at the end of the log.
pub(crate) fn next_batch(dir: &Path, from: Cursor, limit: usize) -> io::Result<Batch> {
    let numbers = numbers(dir)?;
    let mut batch = Batch {
        end: from,
        ..Batch::default()
    };
    for number in numbers.into_iter().filter(|number| *number >= from.segment) {
        if number > batch.end.segment {
            batch.end = Cursor {
                segment: number,
                offset: 0,
            };
        }
        fill(&mut batch, &path_of(dir, number), limit)?;
        if !batch.lines.is_empty() {
            break;
        }
    }
    Ok(batch)
}

fn fill(batch: &mut Batch, path: &Path, limit: usize) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(batch.end.offset))?;
    let mut reader = BufReader::new(file);
    let mut bytes = 0;
    while batch.lines.len() < limit && bytes < MAX_BATCH_BYTES {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        batch.end.offset += read as u64;
        bytes += read;
        batch
            .lines
            .push(String::from_utf8_lossy(&line).into_owned());
    }
    Ok(())
}
