//! Tests of the log as a whole: crashes, full disks, tampering, retention.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use time::OffsetDateTime;

use crate::{
    AuditEvent, AuditLog, CallerNames, Defect, EventFilter, EventKind, JournalSettings, OnFull,
    RequestHead, RequestParty, RequestResult, Verification,
    journal::Journal,
    read,
    segment::{numbers, path_of},
    verify,
};

const ONE_DAY: Duration = Duration::from_secs(24 * 3600);

fn settings(dir: &Path) -> JournalSettings {
    JournalSettings {
        segment_bytes: 2048,
        ..JournalSettings::of(dir.to_owned(), "hub-a".to_owned())
    }
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn event(number: usize) -> AuditEvent {
    AuditEvent {
        v: 1,
        at: crate::timestamp(now()),
        id: Some(format!("{number:016x}")),
        path: Some("/api/v1/pods".to_owned()),
        ..AuditEvent::default()
    }
}

/// A folder with this number of events, in segments of about six lines.
fn filled(events: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("audit");
    let mut journal = Journal::open(settings(&dir), now()).unwrap();
    for number in 0..events {
        journal.write(vec![event(number)], now()).unwrap();
    }
    journal.sync().unwrap();
    (folder, dir)
}

fn defects(dir: &Path) -> Vec<Defect> {
    let found = verify(dir).unwrap().findings;
    found.into_iter().map(|finding| finding.defect).collect()
}

fn edit(dir: &Path, number: u64, change: impl FnOnce(&mut Vec<String>)) {
    let path = path_of(dir, number);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(
        path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
}

fn all(dir: &Path) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    for number in numbers(dir).unwrap() {
        let text = fs::read_to_string(path_of(dir, number)).unwrap();
        events.extend(
            text.lines()
                .map(|line| serde_json::from_str::<AuditEvent>(line).unwrap()),
        );
    }
    events
}

#[test]
fn whole_log_verifies_over_many_segments_and_restarts() {
    let (_folder, dir) = filled(30);
    let mut journal = Journal::open(settings(&dir), now()).unwrap();
    journal.write(vec![event(30)], now()).unwrap();
    let Verification {
        segments,
        lines,
        last,
        findings,
    } = verify(&dir).unwrap();
    assert!(segments > 3, "{segments}");
    assert_eq!(lines, 31 + segments, "each segment has a head");
    assert_eq!(last.unwrap().0, lines);
    assert_eq!(findings, []);
    let sequence: Vec<_> = all(&dir).iter().map(|event| event.seq).collect();
    assert_eq!(sequence, (1..=lines).collect::<Vec<_>>());
}

#[test]
fn changed_line_shows_with_its_place() {
    let (_folder, dir) = filled(30);
    edit(&dir, 2, |lines| {
        lines[2] = lines[2].replace("/pods", "/none")
    });
    let found = verify(&dir).unwrap().findings;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].file.as_str(), found[0].line),
        ("00000002.jsonl", 3)
    );
    assert!(matches!(found[0].defect, Defect::Changed { .. }));
    assert!(found[0].to_string().contains("was changed"));
}

#[test]
fn changed_hash_shows_at_the_next_line() {
    let (_folder, dir) = filled(30);
    edit(&dir, 2, |lines| {
        let at = lines[2].len() - 10;
        let digit = if lines[2][at..].starts_with('0') {
            "1"
        } else {
            "0"
        };
        lines[2].replace_range(at..=at, digit);
    });
    assert!(!defects(&dir).is_empty());
}

#[test]
fn removed_lines_and_files_show_with_their_numbers() {
    let (_folder, dir) = filled(30);
    let removed = all(&dir)
        .iter()
        .position(|event| event.segment == Some(2))
        .unwrap() as u64
        + 2;
    edit(&dir, 2, |lines| drop(lines.remove(1)));
    assert_eq!(
        defects(&dir),
        [Defect::Removed {
            from: removed,
            to: removed
        }]
    );

    let (_folder, dir) = filled(30);
    let events = all(&dir);
    let head = |number| {
        events
            .iter()
            .find(|event| event.segment == Some(number))
            .unwrap()
            .seq
    };
    fs::remove_file(path_of(&dir, 2)).unwrap();
    let gap = Defect::Removed {
        from: head(2),
        to: head(3) - 1,
    };
    assert_eq!(defects(&dir), [gap]);

    let (_folder, dir) = filled(30);
    fs::remove_file(path_of(&dir, 1)).unwrap();
    let gap = Defect::Removed {
        from: 1,
        to: head(2) - 1,
    };
    assert_eq!(
        defects(&dir),
        [gap],
        "nothing says that the retention removed it"
    );
}

#[test]
fn missing_end_shows_by_the_noted_head() {
    let (_folder, dir) = filled(30);
    let last = all(&dir).last().unwrap().seq;
    let number = *numbers(&dir).unwrap().last().unwrap();
    edit(&dir, number, |lines| drop(lines.pop()));
    assert_eq!(
        defects(&dir),
        [Defect::Removed {
            from: last,
            to: last
        }]
    );
}

#[test]
fn inserted_and_reordered_lines_show() {
    let (_folder, dir) = filled(30);
    edit(&dir, 2, |lines| lines.insert(3, lines[1].clone()));
    assert!(matches!(defects(&dir)[..], [Defect::Inserted { .. }]));

    let (_folder, dir) = filled(30);
    edit(&dir, 2, |lines| lines.swap(2, 3));
    let found = defects(&dir);
    assert!(matches!(found[..], [Defect::Reordered { .. }]), "{found:?}");
}

#[test]
fn incomplete_last_line_of_a_crash_is_cut_and_noted() {
    let (_folder, dir) = filled(3);
    let path = path_of(&dir, 1);
    let whole = fs::read_to_string(&path).unwrap();
    for cut in [1, 20, 200] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        fs::remove_file(dir.join("head.json")).unwrap();
        assert_eq!(defects(&dir), [Defect::Incomplete]);
        let journal = Journal::open(settings(&dir), now()).unwrap();
        journal.sync().unwrap();
        assert_eq!(defects(&dir), []);
        let last = all(&dir).pop().unwrap();
        assert_eq!(last.kind, EventKind::Recovered);
        assert!(last.count.unwrap() > 0);
    }
}

#[test]
fn crash_before_the_head_of_a_segment_loses_nothing() {
    let (_folder, dir) = filled(30);
    let events = all(&dir).len();
    let next = numbers(&dir).unwrap().last().unwrap() + 1;
    fs::write(path_of(&dir, next), "{\"v\":1,\"seq\"").unwrap();
    let mut journal = Journal::open(settings(&dir), now()).unwrap();
    journal.write(vec![event(30)], now()).unwrap();
    assert_eq!(defects(&dir), []);
    assert!(all(&dir).len() >= events + 2);
}

#[test]
fn old_segments_are_removed_and_the_log_says_so() {
    let (_folder, dir) = filled(30);
    let later = now() + 366 * ONE_DAY;
    let mut journal = Journal::open(settings(&dir), now()).unwrap();
    journal.write(vec![event(30)], later).unwrap();
    journal.remove_old(later).unwrap();
    let left = numbers(&dir).unwrap();
    assert!(left[0] >= 3, "{left:?}");
    assert_eq!(defects(&dir), []);
    let noted = all(&dir)
        .into_iter()
        .find(|event| event.kind == EventKind::Retention);
    assert_eq!(noted.unwrap().count, Some(left[0] - 1));
    fs::remove_file(path_of(&dir, left[0])).unwrap();
    assert!(matches!(defects(&dir)[..], [Defect::Removed { .. }, ..]));
}

fn head(id: &str) -> RequestHead<'_> {
    RequestHead {
        id,
        method: "POST",
        path: "/k8s/clusters/c-a/api/v1/namespaces/x/pods/p/exec",
        query: Some("command=ls&container=app&token=hunter2"),
        from: "192.0.2.1:4000".parse().unwrap(),
    }
}

fn party(access: &[Arc<str>]) -> RequestParty<'_> {
    RequestParty {
        caller: Some(CallerNames {
            name: "ann",
            token: Some("tok-1"),
            ..CallerNames::default()
        }),
        cluster: Some("c-a"),
        tenant: Some("t-a"),
        access,
        api_path: Some("/api/v1/namespaces/x/pods/p/exec"),
        ..RequestParty::default()
    }
}

fn end(log: &AuditLog, number: usize) {
    let id = format!("{number:016x}");
    log.end_of(&head(&id), &party(&[]), &RequestResult::default());
}

#[test]
fn request_has_a_start_and_an_end_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let writer = AuditLog::open(settings(folder.path()), OnFull::Refuse).unwrap();
    let (log, head) = (writer.log(), head("0000000000000007"));
    let access = ["ar-1".into()];
    log.start_of(&head, &party(&access));
    let result = RequestResult {
        status: Some(101),
        outcome: "ok",
        bytes_out: 5,
        ..RequestResult::default()
    };
    log.end_of(&head, &party(&access), &result);
    writer.finish();
    let text = fs::read_to_string(path_of(folder.path(), 1)).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let events = all(folder.path());
    let json = serde_json::to_value(&events[1]).unwrap();
    assert_eq!(json["stage"], "start");
    assert_eq!(json["verb"], "create");
    assert_eq!(json["resource"]["subresource"], "exec");
    assert_eq!(json["query"]["command"][0], "ls");
    assert_eq!(json["caller"]["token"], "tok-1");
    let json = serde_json::to_value(&events[2]).unwrap();
    assert_eq!(
        (&json["stage"], &json["status"], &json["bytesOut"]),
        (&"end".into(), &101.into(), &5.into())
    );
    assert_eq!(json["id"], "0000000000000007");
    assert_eq!(defects(folder.path()), []);
}

fn full_disk(
    on_full: OnFull,
) -> (
    tempfile::TempDir,
    crate::AuditWriter,
    Arc<std::sync::atomic::AtomicBool>,
) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(settings(folder.path()), now()).unwrap();
    let disk = Arc::clone(&journal.disk_full);
    let writer = AuditLog::start(folder.path().to_owned(), journal, on_full).unwrap();
    (folder, writer, disk)
}

fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let _ = receiver.recv_timeout(Duration::from_millis(10));
        drop(sender);
    }
    panic!("never: {what}");
}

#[test]
fn full_disk_refuses_requests_and_loses_no_event() {
    let (folder, writer, disk) = full_disk(OnFull::Refuse);
    let log = writer.log();
    log.start_of(&head("1"), &party(&[]));
    until("first event", || *log.written().borrow() >= 2);
    disk.store(true, Ordering::SeqCst);
    end(&log, 1);
    until("refusal", || log.admit().is_err());
    for number in 2..40 {
        end(&log, number);
    }
    disk.store(false, Ordering::SeqCst);
    until("admission", || log.admit().is_ok());
    writer.finish();
    let requests = all(folder.path())
        .into_iter()
        .filter(|it| it.kind == EventKind::Request);
    assert_eq!(requests.count(), 40);
    assert_eq!(defects(folder.path()), []);
}

#[test]
fn dropped_events_are_counted_in_a_later_event() {
    let (folder, writer, disk) = full_disk(OnFull::Drop);
    let log = writer.log();
    disk.store(true, Ordering::SeqCst);
    for number in 0..3 {
        end(&log, number);
    }
    until("loss", || log.lost_total() == 3);
    assert!(log.admit().is_ok(), "requests go on");
    disk.store(false, Ordering::SeqCst);
    end(&log, 4);
    until("later event", || *log.written().borrow() >= 2);
    writer.finish();
    let dropped: u64 = all(folder.path())
        .iter()
        .filter(|it| it.kind == EventKind::Dropped)
        .filter_map(|it| it.count)
        .sum();
    assert_eq!(dropped, 3);
    assert_eq!(defects(folder.path()), []);
}

#[test]
fn strangers_do_not_fill_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let writer = AuditLog::open(settings(folder.path()), OnFull::Refuse).unwrap();
    for number in 0..10_000 {
        let id = number.to_string();
        let result = RequestResult::default();
        writer
            .log()
            .end_of(&head(&id), &RequestParty::default(), &result);
    }
    writer.finish();
    let requests = all(folder.path())
        .into_iter()
        .filter(|it| it.kind == EventKind::Request);
    let requests = requests.count();
    assert!((50..1000).contains(&requests), "{requests}");
}

#[test]
fn events_are_read_in_pages_from_the_latest() {
    let (_folder, dir) = filled(30);
    let mut found = Vec::new();
    let mut before = Some(u64::MAX);
    while let Some(at) = before {
        let page = read(&dir, &EventFilter::default(), at, 7, |event| {
            event.path.is_some()
        });
        let page = page.unwrap();
        assert!(page.events.len() <= 7);
        found.extend(page.events.into_iter().map(|event| event.id.unwrap()));
        before = page.next;
    }
    let expected: Vec<_> = (0..30)
        .rev()
        .map(|number| format!("{number:016x}"))
        .collect();
    assert_eq!(found, expected);
    let one = EventFilter {
        id: Some(format!("{:016x}", 4)),
        ..EventFilter::default()
    };
    assert_eq!(
        read(&dir, &one, u64::MAX, 10, |_| true)
            .unwrap()
            .events
            .len(),
        1
    );
    let later = EventFilter {
        since: Some(crate::timestamp(now() + ONE_DAY)),
        ..EventFilter::default()
    };
    assert_eq!(
        read(&dir, &later, u64::MAX, 10, |_| true)
            .unwrap()
            .events
            .len(),
        0
    );
}
