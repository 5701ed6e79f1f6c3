use axum::http::Method;
use fairlead_api::delivery::{RunKind, RunOrigin, SpecId};
use fairlead_manifests::{InventoryEntry, ObjectKey};
use serde_json::json;
use time::OffsetDateTime;

use super::*;
use crate::{
    fence::LockPlace,
    testing::{FakeApi, status},
};

const PATH: &str = "/api/v1/namespaces/fairlead-delivery/secrets/release-b-shop";

async fn api() -> FakeApi {
    let api = FakeApi::start().await;
    let namespace = json!({"metadata": {"name": "fairlead-delivery"}});
    api.put("/api/v1/namespaces/fairlead-delivery", namespace);
    api
}

fn process() -> ProcessIdentity {
    ProcessIdentity::of_pod("a")
}

fn bundle() -> BundleId {
    "b-shop".parse().unwrap()
}

fn journal(api: &FakeApi) -> Journal {
    Journal::new(api.client(), bundle(), &process())
}

async fn reloaded(api: &FakeApi) -> Journal {
    let mut all = Journal::load_all(&api.client(), &process()).await.unwrap();
    assert_eq!(all.len(), 1);
    all.remove(&bundle()).unwrap()
}

fn accepted(generation: u64) -> AcceptedSpec {
    AcceptedSpec {
        generation,
        spec: SpecId::of_sha256(&[7; 32]),
    }
}

/// Content that gzip cannot make smaller than `bytes`.
fn content(bytes: usize) -> Arc<JournalContent> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": fairlead_api::hex::encode(&random)});
    let objects = vec![StoredObject::new(&manifest, None)];
    Arc::new(JournalContent {
        objects,
        ..JournalContent::default()
    })
}

#[tokio::test]
async fn written_state_is_read_after_a_restart() {
    let api = api().await;
    let journal = journal(&api);
    let pending = PendingRun {
        run: crate::new_run_id(OffsetDateTime::now_utc()),
        attempt: 2,
        kind: RunKind::Sync,
        origin: RunOrigin::Desired,
        generation: 8,
        step: "apply".to_owned(),
        lock: LockPlace {
            namespace: "fairlead-delivery".to_owned(),
            name: "run-b-shop".to_owned(),
            uid: "u".to_owned(),
        },
        process: process(),
        started_at: OffsetDateTime::UNIX_EPOCH,
    };
    let entry = InventoryEntry {
        key: ObjectKey::of(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        )
        .unwrap(),
        version: "v1".to_owned(),
        uid: Some("u".to_owned()),
    };
    journal
        .update(|state| {
            state.record.highest = 8;
            state.record.accepted = Some(accepted(8));
            state.record.pending = Some(pending.clone());
            Arc::make_mut(&mut state.inventory).insert(entry.clone());
            state.content = content(100);
        })
        .await
        .unwrap();
    journal.set_step("prune", None).await.unwrap();
    let state = reloaded(&api).await.state().await;
    assert_eq!(state.record.highest, 8);
    assert_eq!(state.record.pending.unwrap().step, "prune");
    assert_eq!(state.inventory.iter().collect::<Vec<_>>(), [&entry]);
    assert_eq!(state.content.objects.len(), 1);
    assert_eq!(api.get(PATH).unwrap()["type"], "fairlead/release");
}

#[tokio::test]
async fn large_content_lies_in_parts_and_changes_slots() {
    let api = api().await;
    let journal = journal(&api);
    for _ in 0..2 {
        let change = |state: &mut JournalState| state.content = content(1_000_000);
        journal.update(change).await.unwrap();
        let names = api.paths(PATH);
        assert!((3..=4).contains(&names.len()), "{names:?}");
        let state = reloaded(&api).await.state().await;
        assert_eq!(state.record.damage, None);
        assert_eq!(state.content.objects.len(), 1);
    }
    journal.delete().await.unwrap();
    assert_eq!(api.paths(PATH), Vec::<String>::new());
}

#[tokio::test]
async fn kill_between_two_writes_leaves_the_old_journal() {
    let api = api().await;
    let journal = journal(&api);
    let change = |state: &mut JournalState| {
        state.record.highest = 1;
        state.content = content(1_000_000);
    };
    journal.update(change).await.unwrap();
    // The new parts are written, and the first Secret is not.
    api.set_fault(|method, path, _| {
        (method == Method::PUT && path == PATH).then(|| status(503, "", ""))
    });
    let change = |state: &mut JournalState| {
        state.record.highest = 2;
        state.content = content(1_000_000);
    };
    let failure = journal.update(change).await.unwrap_err();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Waiting, Code::JournalFailed)
    );
    api.clear_fault();
    let state = reloaded(&api).await.state().await;
    assert_eq!((state.record.highest, state.record.damage), (1, None));
    assert_eq!(
        journal.state().await.record.highest,
        1,
        "unwritten changes are not visible"
    );
    journal
        .update(|state| state.record.highest = 3)
        .await
        .unwrap();
    let state = reloaded(&api).await.state().await;
    assert_eq!((state.record.highest, state.record.damage), (3, None));
}

#[tokio::test]
async fn full_etcd_refuses_the_step() {
    let api = api().await;
    let journal = journal(&api);
    api.set_fault(|method, _, _| {
        (method == Method::POST).then(|| {
            status(
                500,
                "InternalError",
                "etcdserver: mvcc: database space exceeded",
            )
        })
    });
    let failure = journal
        .update(|state| state.record.highest = 1)
        .await
        .unwrap_err();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Retry, Code::JournalFailed)
    );
    assert!(
        failure.sentence.contains("database space exceeded"),
        "{failure}"
    );
}

#[test]
fn too_large_content_is_refused() {
    let content = content(1_000);
    assert!(content.pack_within(10_000).is_ok());
    let error = content.pack_within(100).unwrap_err();
    assert_eq!(error.limit, 100);
}

#[tokio::test]
async fn journal_beyond_its_limit_is_refused_and_stays_as_it_was() {
    let api = api().await;
    let journal = journal(&api);
    let highest = |it: u64| move |state: &mut JournalState| state.record.highest = it;
    journal.update(highest(1)).await.unwrap();
    let large = content(8_500_000);
    let change = |state: &mut JournalState| {
        highest(2)(state);
        state.content = large;
    };
    let failure = journal.update(change).await.unwrap_err();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Permanent, Code::JournalTooLarge)
    );
    let sentence = &failure.sentence;
    assert!(
        sentence.starts_with("the journal fairlead-delivery/release-b-shop takes ")
            && sentence.ends_with(" bytes; at most 8388608 fit"),
        "{sentence}"
    );
    assert_eq!(api.paths(PATH), [PATH], "no part is written");
    assert_eq!(reloaded(&api).await.state().await.record.highest, 1);
    journal.update(highest(3)).await.unwrap();
}

#[tokio::test]
async fn damaged_journal_is_read_as_such() {
    let api = api().await;
    let journal = journal(&api);
    journal
        .update(|state| state.record.highest = 8)
        .await
        .unwrap();
    api.change(PATH, |secret| secret["data"]["content"] = json!("YQ=="));
    let state = reloaded(&api).await.state().await;
    assert_eq!(state.record.highest, 8);
    assert_eq!(
        state.record.damage.unwrap(),
        "the content has another digest"
    );
}

#[tokio::test]
async fn journal_of_another_writer_is_not_overwritten() {
    let api = api().await;
    let journal = journal(&api);
    journal
        .update(|state| state.record.highest = 1)
        .await
        .unwrap();
    let other = reloaded(&api).await;
    other
        .update(|state| state.record.highest = 2)
        .await
        .unwrap();
    for _ in 0..2 {
        let failure = journal
            .update(|state| state.record.highest = 3)
            .await
            .unwrap_err();
        assert_eq!(failure.code, Code::JournalFailed);
    }
    assert_eq!(reloaded(&api).await.state().await.record.highest, 2);
}

#[tokio::test]
async fn deleted_journal_is_written_again_as_it_was() {
    let api = api().await;
    let journal = journal(&api);
    assert!(!journal.restore().await.unwrap());
    let large = content(2_000_000);
    let update = journal.update(|state| {
        state.record.highest = 7;
        state.content = large.clone();
    });
    update.await.unwrap();
    assert!(!journal.restore().await.unwrap());
    for path in api.paths(PATH) {
        api.delete(&path);
    }
    assert!(journal.restore().await.unwrap());
    let state = reloaded(&api).await.state().await;
    assert_eq!((state.record.highest, state.record.damage), (7, None));
    assert_eq!(
        state.content.objects[0].manifest(),
        large.objects[0].manifest()
    );
}
