//! Copies of a whole store: into a file and back, or between databases. Rows are counted and hashed
//! per table; a copy with a different count or hash is discarded.
//!
//! The file consists of lines of JSON: a header, rows by table, keys of the hub, and a trailer with
//! counts and hashes.

use std::{
    collections::BTreeMap,
    io::{BufRead, Read, Write},
};

use aws_lc_rs::digest;
use fairlead_api::Failure;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    backend::Backend,
    claim::{Claim, refuse_live_hubs},
    error::{DumpError, Result, StoreError},
    model::hex,
    open::{as_it_is, up_to_date},
    place::Place,
    revision::Revision,
    tables::{DumpPart, JsonRow, TABLES},
    unusable::unusable,
};

/// Version of the file format, which changes with the tables.
const FORMAT_VERSION: u32 = 1;
/// Limit of a line in bytes: a slice with the largest catalogs must fit.
const MAX_LINE_BYTES: u64 = 4 << 30;
/// Number of slices in flight.
const MAX_SLICES_IN_FLIGHT: usize = 4;

/// Number of rows of a table, and the hash over all rows in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of rows.
    pub rows: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

/// By table or file.
pub type Tallies = BTreeMap<String, Tally>;

/// Files that belong to the store, by name.
pub type Files = BTreeMap<String, SecretString>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DumpLine {
    Fairlead(u32),
    Table(String, Vec<JsonRow>),
    File(String, String),
    End(Tallies),
}

#[derive(Default)]
struct Counter(BTreeMap<String, (u64, Option<digest::Context>)>);

impl Counter {
    fn add(&mut self, name: &str, bytes: &[u8], rows: usize) {
        let (count, hash) = self.0.entry(name.to_owned()).or_default();
        *count += rows as u64;
        hash.get_or_insert_with(|| digest::Context::new(&digest::SHA256))
            .update(bytes);
    }

    fn rows(&mut self, table: &str, rows: &[JsonRow]) {
        self.add(table, b"", 0);
        for row in rows {
            let text = serde_json::Value::from(row.clone()).to_string();
            self.add(table, text.as_bytes(), 1);
        }
    }

    fn finish(self) -> Tallies {
        let tally = |(rows, hash): (u64, Option<digest::Context>)| Tally {
            rows,
            sha256: hash.map_or_else(String::new, |hash| hex::encode(hash.finish().as_ref())),
        };
        let all = self.0.into_iter();
        all.map(|(name, counted)| (name, tally(counted))).collect()
    }
}

fn store_failure(place: &Place, error: &StoreError) -> DumpError {
    unusable(place, error).into()
}

fn unreadable(detail: impl std::fmt::Display) -> DumpError {
    DumpError::Unreadable(detail.to_string())
}

/// Writes a store and these files to `sink`; the hub may keep running.
///
/// # Errors
/// [`DumpError::Sink`] if `sink` rejects a write, [`DumpError::Failed`] if the store cannot be read or
/// is of another version.
pub async fn write<W: Write + Send + 'static>(
    place: &Place,
    files: Files,
    sink: W,
    finish: impl FnOnce(W) -> std::io::Result<()> + Send + 'static,
) -> std::result::Result<Tallies, DumpError> {
    let backend = as_it_is(place).await?;
    let (rows, taken) = mpsc::channel(MAX_SLICES_IN_FLIGHT);
    let writing = spawn_blocking(move || write_lines(taken, &files, sink, finish));
    let read = backend.export(rows).await;
    let written = writing.await;
    backend.close().await;
    let written = written.map_err(DumpError::Task)?;
    match (written, read) {
        // If both failed, the sink is the cause.
        (Err(error), _) => Err(DumpError::Sink(error)),
        (Ok(_), Err(error)) => Err(store_failure(place, &error)),
        (Ok(None), Ok(())) => Err(store_failure(place, &StoreError::CutOff)),
        (Ok(Some(tallies)), Ok(())) => Ok(tallies),
    }
}

/// `None` if the end marker of the rows is missing.
fn write_lines<W: Write>(
    mut rows: mpsc::Receiver<DumpPart>,
    files: &Files,
    mut sink: W,
    finish: impl FnOnce(W) -> std::io::Result<()>,
) -> std::io::Result<Option<Tallies>> {
    let mut counter = Counter::default();
    let mut line = |line: &DumpLine| {
        serde_json::to_writer(&mut sink, line)?;
        sink.write_all(b"\n")
    };
    line(&DumpLine::Fairlead(FORMAT_VERSION))?;
    loop {
        match rows.blocking_recv() {
            None => return Ok(None),
            Some(DumpPart::End) => break,
            Some(DumpPart::Rows(at, rows)) => {
                let name = TABLES.get(at).map_or("", |table| table.name);
                counter.rows(name, &rows);
                if !rows.is_empty() {
                    line(&DumpLine::Table(name.to_owned(), rows))?;
                }
            }
        }
    }
    for (name, text) in files {
        counter.add(name, text.expose_secret().as_bytes(), 1);
        let text = text.expose_secret().to_owned();
        line(&DumpLine::File(name.clone(), text))?;
    }
    let tallies = counter.finish();
    line(&DumpLine::End(tallies.clone()))?;
    finish(sink)?;
    Ok(Some(tallies))
}

/// Receives the files of a backup before the store changes.
pub type Stage = Box<dyn FnOnce(&Files) -> std::result::Result<(), Failure> + Send>;

/// Replaces the content of a store with `source`. The files go to `stage` before anything changes.
///
/// # Errors
/// [`DumpError::NotEmpty`] if the store is not empty and `overwrite` is not set,
/// [`DumpError::Unreadable`] if `source` is damaged, [`DumpError::Failed`] if the store cannot be
/// written, a hub runs on it, or `stage` fails. Nothing has changed then.
pub async fn read(
    place: &Place,
    source: Box<dyn BufRead + Send>,
    overwrite: bool,
    stage: Stage,
) -> std::result::Result<Tallies, DumpError> {
    let _claim = Claim::of(place)?;
    let backend = up_to_date(place).await?;
    let done = read_into(place, backend.as_ref(), source, overwrite, stage).await;
    backend.close().await;
    done
}

async fn read_into(
    place: &Place,
    backend: &dyn Backend,
    source: Box<dyn BufRead + Send>,
    overwrite: bool,
    stage: Stage,
) -> std::result::Result<Tallies, DumpError> {
    refuse_live_hubs(place, backend).await?;
    may_write(place, backend, overwrite).await?;
    let (rows, taken) = mpsc::channel(MAX_SLICES_IN_FLIGHT);
    let reading = spawn_blocking(move || read_lines(source, &rows, stage));
    let written = backend.import(taken).await;
    let read = reading.await.map_err(DumpError::Task)?;
    match (read, written) {
        (Ok(read), Ok(())) => Ok(read),
        (Ok(_), Err(error)) => Err(store_failure(place, &error)),
        // The reader stopped because the store failed.
        (Err(_), Err(error)) if !matches!(error, StoreError::CutOff) => {
            Err(store_failure(place, &error))
        }
        (Err(failure), _) => Err(failure),
    }
}

fn read_lines(
    mut source: Box<dyn BufRead + Send>,
    rows: &mpsc::Sender<DumpPart>,
    stage: Stage,
) -> std::result::Result<Tallies, DumpError> {
    let (mut counter, mut files) = (Counter::default(), Files::new());
    let mut next = || {
        let mut text = Vec::new();
        let mut line = source.by_ref().take(MAX_LINE_BYTES);
        line.read_until(b'\n', &mut text).map_err(unreadable)?;
        serde_json::from_slice(&text)
            .map_err(|_| unreadable("it is damaged, truncated, or not a backup"))
    };
    match next()? {
        DumpLine::Fairlead(FORMAT_VERSION) => {}
        DumpLine::Fairlead(other) => {
            let detail =
                format_args!("its format is {other}, and this version reads {FORMAT_VERSION}");
            return Err(unreadable(detail));
        }
        _ => return Err(unreadable("not a backup")),
    }
    for table in &TABLES {
        counter.rows(table.name, &[]);
    }
    let send = |part| {
        let sent = rows.blocking_send(part);
        sent.map_err(|_| unreadable("the store rejected a write"))
    };
    loop {
        match next()? {
            DumpLine::Fairlead(_) => return Err(unreadable("duplicate header")),
            DumpLine::Table(name, rows) => {
                let at = TABLES.iter().position(|table| table.name == name);
                let at = at.ok_or_else(|| unreadable("unknown table"))?;
                counter.rows(&name, &rows);
                send(DumpPart::Rows(at, rows))?;
            }
            DumpLine::File(name, text) => {
                counter.add(&name, text.as_bytes(), 1);
                files.insert(name, text.into());
            }
            DumpLine::End(tallies) => {
                if counter.finish() != tallies {
                    return Err(unreadable("counts or hashes do not match"));
                }
                stage(&files)?;
                send(DumpPart::End)?;
                return Ok(tallies);
            }
        }
    }
}

/// Copies all rows of one store over another, then reads both to compare.
///
/// # Errors
/// [`DumpError::NotEmpty`] if the target is not empty and `overwrite` is not set,
/// [`DumpError::Failed`] if one of them cannot be used or a hub runs on it, [`DumpError::Differs`] if
/// they differ afterwards.
pub async fn migrate(
    from: &Place,
    to: &Place,
    overwrite: bool,
) -> std::result::Result<Tallies, DumpError> {
    let _claims = (Claim::of(from)?, Claim::of(to)?);
    let source = as_it_is(from).await?;
    refuse_live_hubs(from, source.as_ref()).await?;
    let target = up_to_date(to).await?;
    refuse_live_hubs(to, target.as_ref()).await?;
    may_write(to, target.as_ref(), overwrite).await?;
    let (rows, taken) = mpsc::channel(MAX_SLICES_IN_FLIGHT);
    let (forward, given) = mpsc::channel(MAX_SLICES_IN_FLIGHT);
    let (read, before, written) = tokio::join!(
        source.export(rows),
        count(taken, Some(forward)),
        target.import(given)
    );
    match (read, written) {
        (Ok(()), Ok(())) => {}
        // If one side fails, the other one sees its channel closed.
        (Err(error), Ok(()) | Err(StoreError::CutOff)) => return Err(store_failure(from, &error)),
        (_, Err(error)) => return Err(store_failure(to, &error)),
    }
    let (rows, taken) = mpsc::channel(MAX_SLICES_IN_FLIGHT);
    let (read, after) = tokio::join!(target.export(rows), count(taken, None));
    read.map_err(|error| store_failure(to, &error))?;
    source.close().await;
    target.close().await;
    if before != after {
        let detail = format!("{to} differs from {from} after the copy");
        return Err(DumpError::Differs(detail));
    }
    Ok(after)
}

async fn count(
    mut rows: mpsc::Receiver<DumpPart>,
    forward: Option<mpsc::Sender<DumpPart>>,
) -> Tallies {
    let mut counter = Counter::default();
    while let Some(part) = rows.recv().await {
        if let DumpPart::Rows(at, rows) = &part {
            let name = TABLES.get(*at).map_or("", |table| table.name);
            counter.rows(name, rows);
        }
        if let Some(forward) = &forward
            && forward.send(part).await.is_err()
        {
            // The receiver reports its own error.
            break;
        }
    }
    counter.finish()
}

/// A new store contains only the default tenant.
async fn may_write(
    place: &Place,
    backend: &dyn Backend,
    overwrite: bool,
) -> std::result::Result<(), DumpError> {
    let there =
        async { Result::Ok(backend.revision().await?.0 > 1 || document_count(backend).await? > 1) };
    let there = there.await.map_err(|error| store_failure(place, &error))?;
    if there && !overwrite {
        return Err(DumpError::NotEmpty(format!("{place} is not empty")));
    }
    Ok(())
}

async fn document_count(backend: &dyn Backend) -> Result<usize> {
    let loaded = backend.load(Revision(0)).await?;
    Ok(loaded.unwrap_or_default().documents.len())
}
