//! A history of facts of several months, written into a backup that the hub then restores. The rows thus pass
//! through the store's own code, for any database.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use aws_lc_rs::digest;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::fleet;
use crate::hub::client::HubRequest;

/// Rows per line of the backup.
const ROWS_PER_LINE: usize = 500;
const DAY_MILLIS: i64 = 86_400_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryShape {
    pub(super) clusters: usize,
    pub(super) facts: usize,
    /// One version per day, up to today.
    pub(super) versions: usize,
    /// Milliseconds since 1970.
    pub(super) now: i64,
}

impl HistoryShape {
    pub(super) fn rows(&self) -> usize {
        self.clusters * self.facts * self.versions
    }

    /// Time of version `version` of a fact, spread over the day by cluster.
    fn at(&self, cluster: usize, fact: usize, version: usize) -> i64 {
        let days_ago = i64::try_from(self.versions - version).unwrap_or(0);
        let spread = (cluster * 7_919 + fact * 104_729) * 61;
        self.now - days_ago * DAY_MILLIS + i64::try_from(spread).unwrap_or(0) % DAY_MILLIS
    }

    fn moment(&self, ago: i64) -> String {
        let at = i128::from(self.now - ago) * 1_000_000;
        let at = OffsetDateTime::from_unix_timestamp_nanos(at).ok();
        at.and_then(|at| at.format(&Rfc3339).ok())
            .unwrap_or_default()
    }

    /// The measured queries by name. Each takes the number of a request.
    pub(super) fn questions(self) -> [(&'static str, impl Fn(usize) -> HubRequest + Clone); 5] {
        let question = move |kind: usize| {
            move |number: usize| {
                let cluster = fleet::id(number * 7_919 % self.clusters);
                let fact = name(number % self.facts);
                let history = format!("/v1/clusters/{cluster}/facts/history");
                let half = self.moment(i64::try_from(self.versions / 2).unwrap_or(0) * DAY_MILLIS);
                HubRequest::get(match kind {
                    0 => format!("{history}?at={half}"),
                    1 => format!("{history}?fact={fact}"),
                    2 => format!("{history}?from={}", self.moment(7 * DAY_MILLIS)),
                    3 => format!(
                        "/v1/facts/{fact}/changes?from={}",
                        self.moment(DAY_MILLIS + DAY_MILLIS / 24)
                    ),
                    _ => format!(
                        "/inventory?q=SELECT%20LAST(value)%20FROM%20%22{fact}%22%20WHERE%20cluster%20%3D%20%27{cluster}%27"
                    ),
                })
            }
        };
        [
            ("facts of a cluster at a time", question(0)),
            ("all versions of one fact", question(1)),
            ("a cluster's last seven days", question(2)),
            ("recent changes of a fact", question(3)),
            ("inventory: last value of a fact", question(4)),
        ]
    }
}

fn name(fact: usize) -> String {
    format!("fact-{fact:02}")
}

/// Copies `backup` to `file` and adds this history.
pub(super) fn fill(backup: &Path, file: &Path, shape: HistoryShape) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut made = None;
    for line in BufReader::new(File::open(backup)?).lines() {
        let line = line?;
        if line.starts_with(r#"{"table":["fact_history""#) {
            continue;
        }
        if line.starts_with(r#"{"table""#) || line.starts_with(r#"{"fairlead""#) {
            writeln!(out, "{line}")?;
            continue;
        }
        if made.is_none() {
            made = Some(rows(&mut out, shape)?);
        }
        let Some(tally) = &made else { continue };
        let mut end: Value = serde_json::from_str(&line).context("the backup is damaged")?;
        if let Some(tallies) = end.get_mut("end").and_then(Value::as_object_mut) {
            tallies.insert("fact_history".to_owned(), tally.clone());
        }
        writeln!(out, "{end}")?;
    }
    out.flush()?;
    if made.is_none() {
        bail!("the backup has no end");
    }
    Ok(())
}

/// Writes the rows and returns their count and hash for the end of the backup.
fn rows(out: &mut impl std::io::Write, shape: HistoryShape) -> anyhow::Result<Value> {
    let mut hash = digest::Context::new(&digest::SHA256);
    let (mut line, mut held, mut done) = (String::new(), 0, 0);
    let mut flush = |line: &mut String, held: &mut usize| {
        if *held > 0 {
            writeln!(out, r#"{{"table":["fact_history",[{line}]]}}"#)?;
            line.clear();
            *held = 0;
        }
        anyhow::Ok(())
    };
    for cluster in 0..shape.clusters {
        let id = fleet::id(cluster);
        for fact in 0..shape.facts {
            let name = name(fact);
            for version in 0..shape.versions {
                let at = shape.at(cluster, fact, version);
                let row =
                    format!(r#"["{id}","{name}",1,{at},2,"agent",{at},"\"v1.{version}.{fact}\""]"#);
                hash.update(row.as_bytes());
                if held > 0 {
                    line.push(',');
                }
                line.push_str(&row);
                held += 1;
                done += 1;
                if held == ROWS_PER_LINE {
                    flush(&mut line, &mut held)?;
                }
            }
        }
        if cluster % 1000 == 999 {
            eprintln!("  {done} of {} versions", shape.rows());
        }
    }
    flush(&mut line, &mut held)?;
    let hash = hash.finish();
    let hash = fairlead_api::hex::encode(hash.as_ref());
    Ok(json!({ "rows": done, "sha256": hash }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_gets_another_history_and_the_tally_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (dir.path().join("before"), dir.path().join("after"));
        let lines = [
            r#"{"fairlead":1}"#,
            r#"{"table":["revision",[[1,2,1]]]}"#,
            r#"{"table":["fact_history",[["c-old"]]]}"#,
            r#"{"file":["ca.key","x"]}"#,
            r#"{"end":{"fact_history":{"rows":1,"sha256":""},"revision":{"rows":1,"sha256":"aa"}}}"#,
        ];
        std::fs::write(&before, lines.join("\n")).unwrap();
        let shape = HistoryShape {
            clusters: 2,
            facts: 3,
            versions: 100,
            now: 1_800_000_000_000,
        };
        fill(&before, &after, shape).unwrap();
        let text = std::fs::read_to_string(&after).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 6);
        let counted: usize = [2, 3]
            .iter()
            .map(|at: &usize| lines[*at]["table"][1].as_array().unwrap().len())
            .sum();
        assert_eq!(counted, 600);
        assert_eq!(lines[5]["end"]["fact_history"]["rows"], 600);
        assert_eq!(lines[5]["end"]["revision"]["sha256"], "aa");
        assert!(!text.contains("c-old"));
    }
}
