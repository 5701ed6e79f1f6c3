//! Heads of a chain that were noted at another place: numbers of events with their hashes.
//!
//! The hub logs its head at intervals, and each receiver of the log has the hashes of all lines.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chain::{LineHash, unhex};

/// Message of the hub's own log with a head.
pub(crate) const HEAD_MESSAGE: &str = "audit chain head";

/// Hashes by number of the event.
pub type ChainHeads = BTreeMap<u64, LineHash>;

/// Reads heads from the hub's own log (text or JSON), or from delivered lines of the audit log. Other lines are skipped.
#[must_use]
pub fn chain_heads(text: &str) -> ChainHeads {
    text.lines().filter_map(head).collect()
}

fn head(line: &str) -> Option<(u64, LineHash)> {
    let begin = line.find('{');
    let json = begin.and_then(|at| serde_json::from_str::<Value>(line.get(at..)?).ok());
    if let Some(json) = json {
        let fields = [Some(&json), json.get("fields")];
        return fields.into_iter().flatten().find_map(|fields| {
            let seq = fields.get("seq")?.as_u64()?;
            Some((seq, unhex(fields.get("hash")?.as_str()?)?))
        });
    }
    // Of a line of text only the hub's own message counts: a request may name anything.
    let (_, fields) = line.split_once(HEAD_MESSAGE)?;
    let value = |key: &str| {
        let rest = fields
            .split_whitespace()
            .find_map(|it| it.strip_prefix(key))?;
        Some(rest.trim_matches('"'))
    };
    let seq = value("seq=")?.parse().ok()?;
    Some((seq, unhex(value("hash=")?)?))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        AuditEvent, Defect, JournalSettings,
        chain::{ChainEnd, hex},
        journal::Journal,
        segment::{numbers, path_of, write_head},
        verify, verify_with,
    };

    const EVENT_COUNT: usize = 30;

    /// A log of some segments, and the hashes of all of its lines as a receiver has them.
    fn filled() -> (tempfile::TempDir, ChainHeads) {
        let folder = tempfile::tempdir().unwrap();
        let now = time::OffsetDateTime::now_utc();
        let settings = JournalSettings {
            segment_bytes: 2048,
            ..JournalSettings::of(folder.path().to_owned(), "hub-a".to_owned())
        };
        let mut journal = Journal::open(settings, now).unwrap();
        for number in 0..EVENT_COUNT {
            let event = AuditEvent {
                at: crate::timestamp(now),
                path: Some(format!("/api/v1/namespaces/n-{number}")),
                ..AuditEvent::default()
            };
            journal.write(vec![event], now).unwrap();
        }
        journal.sync().unwrap();
        let files = numbers(folder.path()).unwrap();
        let text = files
            .iter()
            .map(|it| fs::read_to_string(path_of(folder.path(), *it)).unwrap());
        let heads = chain_heads(&text.collect::<String>());
        (folder, heads)
    }

    /// Changes events, and computes the whole chain anew, as somebody with access to the files can.
    fn rewrite(dir: &Path, mut change: impl FnMut(&mut AuditEvent) -> bool) {
        let mut end = ChainEnd::EMPTY;
        for number in numbers(dir).unwrap() {
            let path = path_of(dir, number);
            let mut lines = Vec::new();
            for line in fs::read_to_string(&path).unwrap().lines() {
                let mut event: AuditEvent = serde_json::from_str(line).unwrap();
                if !change(&mut event) {
                    continue;
                }
                if event.segment.is_some() {
                    event.prev = Some(hex(&end.hash));
                }
                end.append(event, &mut lines);
            }
            fs::write(path, lines).unwrap();
        }
        write_head(dir, &end).unwrap();
    }

    fn defects(dir: &Path, heads: &ChainHeads) -> Vec<Defect> {
        assert_eq!(
            verify(dir).unwrap().findings,
            [],
            "the chain alone is whole"
        );
        let found = verify_with(dir, heads).unwrap().findings;
        found.into_iter().map(|it| it.defect).collect()
    }

    #[test]
    fn log_that_was_computed_anew_shows_against_earlier_hashes() {
        let (dir, heads) = filled();
        let last = *heads.last_key_value().unwrap().0;
        assert_eq!(defects(dir.path(), &heads), []);
        // One earlier hash behind the change is enough.
        let one: ChainHeads = heads
            .iter()
            .skip(20)
            .take(1)
            .map(|(a, b)| (*a, *b))
            .collect();
        rewrite(dir.path(), |event| {
            if event.path.as_deref() == Some("/api/v1/namespaces/n-9") {
                event.path = Some("/version".to_owned());
            }
            true
        });
        let seq = *one.first_key_value().unwrap().0;
        assert_eq!(defects(dir.path(), &one), [Defect::Rewritten { seq }]);

        let (dir, heads) = filled();
        rewrite(dir.path(), |event| event.seq <= last - 2);
        let tail = Defect::Removed {
            from: last - 1,
            to: last,
        };
        assert_eq!(defects(dir.path(), &heads), [tail], "truncated tail");

        let (dir, heads) = filled();
        let file = *numbers(dir.path()).unwrap().last().unwrap();
        fs::remove_file(path_of(dir.path(), file)).unwrap();
        rewrite(dir.path(), |_| true);
        let removed = defects(dir.path(), &heads);
        assert!(
            matches!(removed[..], [Defect::Removed { to, .. }] if to == last),
            "removed file: {removed:?}"
        );

        let empty = tempfile::tempdir().unwrap();
        let all = Defect::Removed { from: 1, to: last };
        assert_eq!(defects(empty.path(), &heads), [all], "replaced folder");
    }

    #[test]
    fn heads_are_read_from_text_and_json() {
        let hash = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
        let text = format!(
            "2026-11-23T12:00:00Z  INFO fairlead_audit::log: audit chain head seq=7 hash={hash}\n\
             2026-11-23T12:00:00Z  INFO audit: request path=\"/x seq=1 hash={hash}\"\n\
             {{\"timestamp\":\"x\",\"fields\":{{\"message\":\"audit chain head\",\"seq\":8,\"hash\":\"{hash}\"}}}}\n\
             {{\"v\":1,\"seq\":9,\"kind\":\"request\",\"hash\":\"{hash}\"}}\n\
             <110>1 2026-11-23T12:00:00Z hub fairlead - audit - {{\"v\":1,\"seq\":10,\"hash\":\"{hash}\"}}\n\
             nothing\n"
        );
        let heads = chain_heads(&text);
        assert_eq!(heads.keys().copied().collect::<Vec<_>>(), [7, 8, 9, 10]);
        assert!(heads.values().all(|it| *it == unhex(hash).unwrap()));
    }
}
