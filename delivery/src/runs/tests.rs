//! Runs over a real store. Two values of [`Runs`] on one store are two hubs on one database.

mod logs;
mod own;

use std::sync::Arc;

use fairlead_api::{
    ClusterId, RunId,
    delivery::{
        AttemptOutcome, BundleFields, CancelMode, ClaimedRun, FieldDiff, ObjectChange, ObjectDiff,
        Run, RunDiff, RunHeartbeat, RunKind, RunOutcome, RunState,
    },
};
use fairlead_certs::Registration;
use fairlead_rollout::ResultReceipt;
use fairlead_store::{
    Actor, Clock, Draft, Place, Store, StoreError,
    model::{Binding, Bootstrap, BundleRecord, Cluster},
};
use fairlead_testkit::wall_clock::WallClock;
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

use super::{NewCommand, Runs, record::StoredRun, refusal::RunRefusal};
use crate::parts::DeliveryParts;

const BUNDLE: &str = "b-shop";

/// Runs of two hubs, with a clock of the test.
pub(super) struct Rig {
    pub(super) runs: Arc<Runs>,
    pub(super) other: Arc<Runs>,
    clock: WallClock,
    home: TempDir,
}

impl Rig {
    /// A store with the clusters `c-a` and `c-b`, and the bundle `b-shop`.
    pub(super) async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let start = OffsetDateTime::from_unix_timestamp(1_795_255_200).unwrap();
        let clock = WallClock::at(start);
        let reader = Clock::new(clock.reader());
        let place = Place::File(home.path().join("hub.db"));
        let store = Store::open(&place, reader.clone()).await.unwrap();
        fill(&store, start).await;
        let parts = DeliveryParts::of(&store, &reader);
        Rig {
            runs: Runs::new(parts.clone()),
            other: Runs::new(parts),
            clock,
            home,
        }
    }

    pub(super) fn advance(&self, seconds: i64) {
        self.clock.advance(Duration::seconds(seconds));
    }

    pub(super) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    async fn create(&self, kind: RunKind, confirm: bool) -> Run {
        self.create_of(NewCommand {
            confirm,
            ..command(kind)
        })
        .await
    }

    /// Comparison with content that no generation has.
    async fn diff_of_new_content(&self) -> Run {
        let digest = format!("sha256:{}", "5".repeat(64));
        let content = Some((digest.parse().unwrap(), digest.parse().unwrap()));
        self.create_of(NewCommand {
            content,
            ..command(RunKind::Diff)
        })
        .await
    }

    async fn create_of(&self, new: NewCommand) -> Run {
        // Ids of one millisecond have no order.
        self.advance(1);
        self.runs.create(new).await.unwrap()
    }

    async fn claim(&self) -> Option<ClaimedRun> {
        self.runs.claim(&cluster()).await.unwrap()
    }

    async fn heartbeat(&self, id: &RunId, attempt: u32) -> Result<Option<CancelMode>, RunRefusal> {
        let sent = RunHeartbeat {
            attempt,
            step: Some("apply 1/2".to_owned()),
        };
        let status = self.runs.heartbeat(&cluster(), id, &sent).await?;
        Ok(status.cancel)
    }

    pub(super) async fn finish(
        &self,
        id: &RunId,
        (attempt, outcome, log_bytes): (u32, AttemptOutcome, u64),
    ) -> Result<ResultReceipt, RunRefusal> {
        let sent = RunOutcome {
            sentence: Some("done".to_owned()),
            ..outcome_of(attempt, outcome, log_bytes)
        };
        self.runs.finish(&cluster(), id, &sent).await
    }

    pub(super) async fn stored(&self, id: &RunId) -> StoredRun {
        let row = self.runs.parts.runs.get(id).await.unwrap().unwrap();
        StoredRun::of(&row).unwrap()
    }

    pub(super) async fn state(&self, id: &RunId) -> RunState {
        self.stored(id).await.state()
    }
}

fn command(kind: RunKind) -> NewCommand {
    NewCommand {
        cluster: cluster(),
        bundle: BUNDLE.parse().unwrap(),
        kind,
        generation: 7,
        content: None,
        confirm: false,
        created_by: "anna".to_owned(),
    }
}

pub(super) fn cluster() -> ClusterId {
    "c-a".parse().unwrap()
}

pub(super) fn outcome_of(attempt: u32, outcome: AttemptOutcome, log_bytes: u64) -> RunOutcome {
    RunOutcome {
        attempt,
        outcome,
        sentence: None,
        code: None,
        log_bytes,
        diff: None,
    }
}

async fn fill(store: &Store, now: OffsetDateTime) {
    let filled = store.change::<_, StoreError, _>(Actor::Hub, move |draft: &mut Draft| {
        for id in ["c-a", "c-b"] {
            let registration = Registration::from_bytes([0x41; 8]);
            let binding = Binding::open(registration, Bootstrap::new(1, now, None));
            let (id, tenant) = (id.parse().unwrap(), "t-default".parse().unwrap());
            draft.put_cluster(Cluster::new(id, tenant, binding, now))?;
        }
        draft.put_bundle(BundleRecord::new(
            BUNDLE.parse().unwrap(),
            "t-default".parse().unwrap(),
            BundleFields::default(),
        ))
    });
    filled.await.unwrap();
}

#[tokio::test]
async fn a_command_is_claimed_once_and_ends_with_its_result() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Sync, false).await;
    assert_eq!((run.state, run.attempt), (RunState::Queued, 0));
    let claimed = rig.claim().await.unwrap();
    assert_eq!(
        (&claimed.run, claimed.attempt, claimed.lease_seconds),
        (&run.id, 1, 60)
    );
    assert_eq!(
        (claimed.generation, claimed.created_by.as_str()),
        (7, "anna")
    );
    assert_eq!(rig.claim().await, None);
    let elsewhere = "c-b".parse().unwrap();
    let foreign = rig.runs.heartbeat(
        &elsewhere,
        &run.id,
        &RunHeartbeat {
            attempt: 1,
            step: None,
        },
    );
    assert!(
        matches!(foreign.await, Err(RunRefusal::Gone(_))),
        "the run of another cluster"
    );
    assert_eq!(rig.state(&run.id).await, RunState::Leased);
    assert_eq!(rig.heartbeat(&run.id, 1).await.unwrap(), None);
    assert_eq!(rig.state(&run.id).await, RunState::Running);

    let succeeded = (1, AttemptOutcome::Succeeded, 0);
    assert_eq!(
        rig.finish(&run.id, succeeded).await.unwrap(),
        ResultReceipt::Accepted
    );
    assert_eq!(
        rig.finish(&run.id, succeeded).await.unwrap(),
        ResultReceipt::AlreadyAccepted
    );
    let other = rig.finish(&run.id, (1, AttemptOutcome::Failed, 0)).await;
    assert!(
        matches!(other, Err(RunRefusal::OtherResult { .. })),
        "{other:?}"
    );
    let shown = rig.stored(&run.id).await.shown(None, None);
    assert_eq!(
        (shown.state, shown.result.as_deref()),
        (RunState::Succeeded, Some("done"))
    );
    assert!(
        rig.heartbeat(&run.id, 1).await.is_err(),
        "the run has ended"
    );
}

#[tokio::test]
async fn two_hubs_never_lease_two_runs_of_a_deployment() {
    let rig = Rig::new().await;
    for kind in [RunKind::Sync, RunKind::Diff] {
        rig.create(kind, false).await;
    }
    let cluster = cluster();
    let claims = [
        rig.runs.claim(&cluster),
        rig.other.claim(&cluster),
        rig.runs.claim(&cluster),
        rig.other.claim(&cluster),
    ];
    let claimed = futures_util::future::join_all(claims).await;
    let claimed: Vec<ClaimedRun> = claimed.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!(claimed[0].kind, RunKind::Sync, "the older one comes first");
    let id = claimed[0].run.clone();
    rig.finish(&id, (1, AttemptOutcome::Succeeded, 0))
        .await
        .unwrap();
    assert_eq!(rig.claim().await.unwrap().kind, RunKind::Diff);
}

#[tokio::test]
async fn a_lost_lease_is_fenced_by_the_next_attempt() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Sync, false).await;
    rig.claim().await.unwrap();
    rig.advance(60 + 29);
    assert_eq!(rig.claim().await, None, "the takeover waits 30 s");
    rig.advance(1);
    let second = rig.claim().await.unwrap();
    assert_eq!((&second.run, second.attempt), (&run.id, 2));
    let stale = rig.heartbeat(&run.id, 1).await;
    assert!(matches!(stale, Err(RunRefusal::Stop { .. })), "{stale:?}");
    let stale = rig.finish(&run.id, (1, AttemptOutcome::Succeeded, 0)).await;
    assert!(matches!(stale, Err(RunRefusal::Stop { .. })), "{stale:?}");
    rig.finish(&run.id, (2, AttemptOutcome::Failed, 0))
        .await
        .unwrap();
    assert_eq!(rig.state(&run.id).await, RunState::Queued);
    assert_eq!(rig.claim().await, None, "the back-off runs");
    rig.advance(61);
    assert_eq!(rig.claim().await.unwrap().attempt, 3);
}

#[tokio::test]
async fn newer_commands_supersede_waiting_ones_but_no_confirmation() {
    let rig = Rig::new().await;
    let first = rig.create(RunKind::Sync, false).await;
    let confirmed = rig.create(RunKind::Sync, true).await;
    assert_eq!(rig.state(&first.id).await, RunState::Superseded);
    let shown = rig.stored(&first.id).await.shown(None, None);
    assert_eq!(
        shown.result.unwrap(),
        format!("replaced by {}", confirmed.id)
    );
    let plain = rig.create(RunKind::Sync, false).await;
    assert_eq!(rig.state(&confirmed.id).await, RunState::Queued);
    let claimed = rig.claim().await.unwrap();
    assert!(claimed.confirm && claimed.run == confirmed.id);
    assert_eq!(rig.state(&plain.id).await, RunState::Queued);
}

#[tokio::test]
async fn cancellation_reaches_the_agent_with_its_next_call() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Sync, false).await;
    rig.claim().await.unwrap();
    let stored = rig.stored(&run.id).await;
    rig.runs
        .cancel(&stored, CancelMode::Soft)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        rig.heartbeat(&run.id, 1).await.unwrap(),
        Some(CancelMode::Soft)
    );
    rig.other
        .cancel(&stored, CancelMode::Hard)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        rig.heartbeat(&run.id, 1).await.unwrap(),
        Some(CancelMode::Hard)
    );
    rig.finish(&run.id, (1, AttemptOutcome::Cancelled, 0))
        .await
        .unwrap();
    assert_eq!(rig.state(&run.id).await, RunState::Cancelled);

    let waiting = rig.create(RunKind::Sync, false).await;
    let stored = rig.stored(&waiting.id).await;
    rig.runs
        .cancel(&stored, CancelMode::Soft)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rig.state(&waiting.id).await, RunState::Cancelled);
    assert!(
        rig.runs
            .cancel(&stored, CancelMode::Soft)
            .await
            .unwrap()
            .is_err()
    );
}

#[tokio::test]
async fn an_unclaimed_command_expires_after_a_day() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Sync, false).await;
    rig.runs.refresh().await.unwrap();
    assert_eq!(rig.runs.waiting(&cluster()), 1);
    rig.advance(24 * 3600);
    rig.runs.lapse().await.unwrap();
    rig.runs.refresh().await.unwrap();
    assert_eq!(rig.state(&run.id).await, RunState::Expired);
    assert_eq!(rig.runs.waiting(&cluster()), 0);
}

#[tokio::test]
async fn other_hubs_count_claimable_commands_only() {
    let rig = Rig::new().await;
    let watch = rig.other.watch_waiting();
    rig.create(RunKind::Sync, false).await;
    rig.create(RunKind::Diff, false).await;
    let wake = rig.other.refresh().await.unwrap();
    assert_eq!(rig.other.waiting(&cluster()), 1, "one lease at a time");
    assert!(watch.has_changed().unwrap() && wake.is_some());
    let claimed = rig.claim().await.unwrap();
    rig.other.refresh().await.unwrap();
    assert_eq!(rig.other.waiting(&cluster()), 0);
    rig.finish(&claimed.run, (1, AttemptOutcome::Rejected, 0))
        .await
        .unwrap();
    rig.other.refresh().await.unwrap();
    assert_eq!(rig.other.waiting(&cluster()), 1);
}

#[tokio::test]
async fn commands_of_a_deleted_bundle_are_cancelled_and_comparisons_with_own_content_are_not() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Sync, false).await;
    let content = rig.diff_of_new_content().await;
    let bundle = run.bundle.clone();
    let delete = move |draft: &mut Draft| draft.delete_bundle(&bundle);
    let deleted = rig.runs.parts.store.change(Actor::Hub, delete);
    let deleted: Result<_, StoreError> = deleted.await;
    deleted.unwrap();
    rig.other.refresh().await.unwrap();
    assert_eq!(rig.other.waiting(&cluster()), 1);
    let ended = rig.stored(&run.id).await.shown(None, None);
    assert_eq!(ended.state, RunState::Cancelled);
    assert_eq!(ended.result.as_deref(), Some("its bundle was deleted"));
    assert_eq!(rig.claim().await.unwrap().run, content.id);
}

#[tokio::test]
async fn differences_are_kept_apart_from_the_run() {
    let rig = Rig::new().await;
    let run = rig.create(RunKind::Diff, false).await;
    rig.claim().await.unwrap();
    let diff = RunDiff {
        objects: vec![ObjectDiff {
            object: "Deployment shop/web".to_owned(),
            change: ObjectChange::Update,
            fields: vec![FieldDiff {
                path: ".spec.replicas".to_owned(),
                from: Some(1.into()),
                to: Some(3.into()),
            }],
            error: None,
        }],
        unchanged: 4,
        omitted: 0,
    };
    let sent = RunOutcome {
        diff: Some(diff.clone()),
        ..outcome_of(1, AttemptOutcome::Succeeded, 0)
    };
    rig.runs.finish(&cluster(), &run.id, &sent).await.unwrap();
    let stored = rig.stored(&run.id).await;
    assert_eq!(stored.shown(None, None).diff, None);
    assert_eq!(rig.runs.diff_of(&stored).await.unwrap(), Some(diff));
}

#[tokio::test]
async fn a_deployment_keeps_twenty_ended_runs() {
    let rig = Rig::new().await;
    let mut ids = Vec::new();
    for _ in 0..25 {
        let run = rig.create(RunKind::Sync, false).await;
        let claimed = rig.claim().await.unwrap();
        let piece = bytes::Bytes::from_static(b"log");
        let appended = rig
            .runs
            .append(&cluster(), &claimed.run, (1, 0, &piece))
            .await;
        assert_eq!(appended.ok(), Some(3));
        rig.finish(&run.id, (1, AttemptOutcome::Succeeded, 3))
            .await
            .unwrap();
        ids.push(run.id);
    }
    rig.create(RunKind::Sync, false).await;
    let logs = rig.runs.parts.logs.sizes().await.unwrap();
    let kept: Vec<RunId> = logs.into_iter().map(|(run, _)| run).collect();
    assert_eq!(kept, ids[5..]);
}
