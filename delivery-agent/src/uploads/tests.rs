use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::{
    Code,
    delivery::{
        AttemptOutcome, CancelMode, LOG_OFFSET_HEADER, MAX_LOG_PIECE_BYTES, RunKind, RunOrigin,
        RunOutcome,
    },
};
use http::{Request, Response, StatusCode, header};
use time::OffsetDateTime;
use tokio::time::{Duration, Instant, sleep};

use super::*;
use crate::{HubUnreachable, new_run_id};

/// Length of the lease of a claimed run, in seconds.
const LEASE_SECONDS: u32 = 60;

/// Answer of the hub to one piece of a log, in place of the usual one.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The piece is stored, and its answer is lost.
    LoseAnswer,
    /// The hub has only this many bytes any more.
    Truncate(usize),
    Refuse(StatusCode),
}

#[derive(Default)]
struct HubState {
    is_away: bool,
    faults: VecDeque<Fault>,
    log: Vec<u8>,
    result: Option<RunOutcome>,
    heartbeats: Vec<Instant>,
    /// Answer to heartbeats; 200 without one.
    lease: Option<StatusCode>,
}

/// Hub with one run. It stores a piece only at the end of its log, as the real one does.
#[derive(Default)]
struct FakeHub(Mutex<HubState>);

#[async_trait]
impl HubConnection for FakeHub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let mut state = self.0.lock().unwrap();
        if state.is_away {
            return Err(HubUnreachable("away".to_owned()));
        }
        let path = request.uri().path().to_owned();
        let (status, body) = match path.rsplit('/').next().unwrap() {
            "log" => state.store(&request)?,
            "result" => {
                let outcome: RunOutcome = serde_json::from_slice(request.body()).unwrap();
                if outcome.log_bytes == state.log.len() as u64 {
                    state.result = Some(outcome);
                    (StatusCode::OK, "")
                } else {
                    (StatusCode::PRECONDITION_FAILED, "")
                }
            }
            "heartbeat" => {
                state.heartbeats.push(Instant::now());
                let status = state.lease.unwrap_or(StatusCode::OK);
                (status, r#"{"leaseSeconds": 60}"#)
            }
            _ => (StatusCode::OK, r#"{"logOffset": 0}"#),
        };
        let answer = Response::builder().status(status);
        let answer = answer.header(LOG_OFFSET_HEADER, state.log.len());
        Ok(answer.body(Bytes::from_static(body.as_bytes())).unwrap())
    }
}

impl HubState {
    fn store(
        &mut self,
        request: &Request<Bytes>,
    ) -> Result<(StatusCode, &'static str), HubUnreachable> {
        assert!(request.body().len() <= MAX_LOG_PIECE_BYTES);
        let range = request.headers()[header::CONTENT_RANGE].to_str().unwrap();
        let range = range.strip_prefix("bytes ").unwrap();
        let (first, _) = range.split_once('-').unwrap();
        let fault = self.faults.pop_front();
        match fault {
            Some(Fault::Truncate(length)) => self.log.truncate(length),
            Some(Fault::Refuse(status)) => return Ok((status, "")),
            Some(Fault::LoseAnswer) | None => {}
        }
        if first.parse() != Ok(self.log.len()) {
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, ""));
        }
        self.log.extend_from_slice(request.body());
        match fault {
            Some(Fault::LoseAnswer) => Err(HubUnreachable("cut".to_owned())),
            _ => Ok((StatusCode::OK, "")),
        }
    }
}

impl FakeHub {
    fn with<T>(&self, work: impl FnOnce(&mut HubState) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn fail(&self, faults: &[Fault]) {
        self.with(|state| state.faults.extend(faults));
    }

    async fn until(&self, is_done: impl Fn(&HubState) -> bool) {
        while !self.with(|state| is_done(state)) {
            // The paused clock moves on at once when all tasks wait.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn uploads() -> (Arc<FakeHub>, Uploads) {
    let hub = Arc::new(FakeHub::default());
    (hub.clone(), Uploads::new(hub))
}

fn begin(uploads: &Uploads) -> RunTicket {
    let ticket = hold(uploads);
    ticket.report();
    ticket
}

fn hold(uploads: &Uploads) -> RunTicket {
    let now = OffsetDateTime::now_utc();
    let registration = AgentRun {
        bundle: "b-shop".parse().unwrap(),
        kind: RunKind::Sync,
        origin: RunOrigin::Desired,
        generation: 1,
        attempt: 1,
        started_at: now,
    };
    uploads.hold(new_run_id(now), registration)
}

fn claim(uploads: &Uploads) -> (RunTicket, CancelSignal) {
    uploads.claimed(&ClaimedRun {
        run: new_run_id(OffsetDateTime::now_utc()),
        bundle: "b-shop".parse().unwrap(),
        kind: RunKind::Sync,
        attempt: 1,
        lease_seconds: LEASE_SECONDS,
        generation: 1,
        spec: None,
        confirm: false,
        created_by: "anna".to_owned(),
        log_offset: 0,
    })
}

/// Output with a different number in each line.
fn numbers(lines: usize) -> Vec<u8> {
    let text: String = (0..lines).map(|it| format!("{it:09}\n")).collect();
    text.into_bytes()
}

#[tokio::test(start_paused = true)]
async fn each_byte_arrives_once_whatever_happens_to_its_piece() {
    let faults = [
        Fault::LoseAnswer,
        Fault::Truncate(100_000),
        Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE),
        Fault::LoseAnswer,
        Fault::Truncate(0),
        Fault::Refuse(StatusCode::TOO_MANY_REQUESTS),
    ];
    for order in 0..faults.len() {
        let (hub, uploads) = uploads();
        let mut faults = faults;
        faults.rotate_left(order);
        hub.fail(&faults);
        let ticket = begin(&uploads);
        let output = numbers(30_000);
        ticket.log().output(&output);
        ticket.succeed(Some("done".to_owned()), None);
        hub.until(|hub| hub.result.is_some()).await;
        hub.with(|hub| {
            assert!(hub.log.starts_with(&output), "order {order}");
            let end = String::from_utf8_lossy(&hub.log[output.len()..]);
            assert!(end.ends_with("Succeeded: done\n"), "order {order}: {end}");
            assert_eq!(end.lines().count(), 1, "order {order}: {end}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn hub_that_lost_the_log_gets_it_again_before_the_result() {
    let (hub, uploads) = uploads();
    let ticket = begin(&uploads);
    let output = numbers(20_000);
    ticket.log().output(&output);
    hub.until(|hub| hub.log.len() == output.len()).await;
    hub.with(|hub| hub.log.clear());
    ticket.succeed(None, None);
    hub.until(|hub| hub.result.is_some()).await;
    hub.with(|hub| assert!(hub.log.starts_with(&output)));
}

#[tokio::test(start_paused = true)]
async fn long_log_arrives_with_its_middle_cut() {
    let (hub, uploads) = uploads();
    let ticket = begin(&uploads);
    let output = numbers(300_000);
    for piece in output.chunks(10_000) {
        ticket.log().output(piece);
    }
    ticket.succeed(None, None);
    hub.until(|hub| hub.result.is_some()).await;
    hub.with(|hub| {
        let text = String::from_utf8(hub.log.clone()).unwrap();
        assert!(text.starts_with("000000000\n000000001\n"));
        assert!(text.contains(" bytes cut ...]\n"));
        assert!(text.contains("\n000299999\n"));
        assert!(text.len() < 1100 * 1024, "{}", text.len());
    });
}

#[tokio::test(start_paused = true)]
async fn live_log_is_followed_before_the_run_ends() {
    let (hub, uploads) = uploads();
    let ticket = begin(&uploads);
    for line in ["one\n", "two\n", "three\n"] {
        ticket.log().output(line.as_bytes());
        hub.until(|hub| hub.log.ends_with(line.as_bytes())).await;
    }
    hub.with(|hub| {
        assert_eq!(hub.log, b"one\ntwo\nthree\n");
        assert!(hub.result.is_none());
    });
    drop(ticket);
    hub.until(|hub| hub.result.is_some()).await;
    let outcome = hub.with(|hub| hub.result.clone()).unwrap();
    assert_eq!(outcome.outcome, AttemptOutcome::Unknown);
    assert_eq!(outcome.code, Some(Code::OutcomeUnknown.to_string()));
    assert_eq!(
        outcome.sentence.as_deref(),
        Some("the agent ended before the run")
    );
}

#[tokio::test(start_paused = true)]
async fn log_stays_in_its_bounded_buffer_while_the_hub_is_away() {
    let (hub, uploads) = uploads();
    let ticket = begin(&uploads);
    ticket.log().output(b"begin\n");
    hub.until(|hub| !hub.log.is_empty()).await;
    hub.with(|hub| hub.is_away = true);
    let output = numbers(40_000);
    ticket.log().output(&output);
    let log = ticket.log().clone();
    ticket.succeed(None, None);
    sleep(Duration::from_secs(600)).await;
    // At most one piece is under way; the bound of all logs counts the others.
    assert!(log.pending_bytes() >= output.len() - MAX_LOG_PIECE_BYTES);
    hub.with(|hub| hub.is_away = false);
    hub.until(|hub| hub.result.is_some()).await;
    hub.with(|hub| assert!(hub.log[6..].starts_with(&output)));
}

#[tokio::test(start_paused = true)]
async fn logs_of_ended_runs_lose_the_oldest_beyond_their_bound() {
    let (hub, uploads) = uploads();
    hub.with(|hub| hub.is_away = true);
    let output = numbers(100_000);
    let count = MAX_WAITING_BYTES / output.len() + 2;
    let mut logs = Vec::new();
    for _ in 0..count {
        let ticket = begin(&uploads);
        ticket.log().output(&output);
        logs.push(ticket.log().clone());
        ticket.succeed(None, None);
    }
    let pending: Vec<_> = logs.iter().map(RunLog::pending_bytes).collect();
    assert!(pending.iter().sum::<usize>() <= MAX_WAITING_BYTES);
    let kept = pending.iter().position(|bytes| *bytes > 0).unwrap();
    assert!(kept > 0, "the oldest is dropped");
    assert!(pending[kept..].iter().all(|bytes| *bytes >= output.len()));
}

#[tokio::test(start_paused = true)]
async fn lease_survives_an_outage_that_is_shorter() {
    let (hub, uploads) = uploads();
    let (ticket, _signal) = claim(&uploads);
    hub.until(|hub| !hub.heartbeats.is_empty()).await;
    let start = Instant::now();
    hub.with(|hub| {
        hub.heartbeats.clear();
        hub.is_away = true;
    });
    sleep(Duration::from_secs(52)).await;
    hub.with(|hub| hub.is_away = false);
    hub.until(|hub| !hub.heartbeats.is_empty()).await;
    let first = hub.with(|hub| hub.heartbeats[0]);
    assert!(first - start < Duration::from_secs(u64::from(LEASE_SECONDS)));
    drop(ticket);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_ends_its_run_at_once() {
    for status in [StatusCode::CONFLICT, StatusCode::GONE] {
        let (hub, uploads) = uploads();
        let (_ticket, signal) = claim(&uploads);
        hub.until(|hub| !hub.heartbeats.is_empty()).await;
        assert_eq!(signal.mode(), None);
        hub.with(|hub| hub.lease = Some(status));
        assert_eq!(signal.cancelled().await, CancelMode::Hard);
    }
}

#[tokio::test(start_paused = true)]
async fn held_run_reaches_the_hub_with_its_result_only() {
    let (hub, uploads) = uploads();
    let dropped = hold(&uploads);
    dropped.log().line("waits for the same");
    drop(dropped);
    let ticket = hold(&uploads);
    assert!(ticket.is_held());
    ticket.log().line("applied");
    // The paused clock moves on at once: a started upload would have sent its log.
    sleep(Duration::from_secs(60)).await;
    assert!(hub.with(|state| state.log.is_empty() && state.result.is_none()));
    ticket.succeed(None, None);
    hub.until(|state| state.result.is_some()).await;
    let log = hub.with(|state| String::from_utf8(state.log.clone()).unwrap());
    assert!(log.contains("applied") && !log.contains("waits"), "{log}");
}
