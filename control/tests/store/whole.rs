//! A whole store: backup under load, restore, migration.

use std::{
    io::{self, BufReader, Write},
    sync::{Arc, Mutex},
};

use fairlead_api::{
    Code,
    delivery::{ArtifactId, RunState},
};
use fairlead_control::backup::{self, HubData, RestoredAccess, RestoredDeliveries};
use fairlead_delivery_store::{
    ContentStore, DeploymentRow, DeploymentStore, LogStore, RunRow, RunStore,
};
use fairlead_store::{
    Place, Revision,
    dump::migrate,
    model::{Fact, FactSource},
};
use serde_json::json;

use crate::*;

/// Output buffer to inspect.
#[derive(Clone, Default)]
struct TestSink(Arc<Mutex<Vec<u8>>>);

impl Write for TestSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A hub's data with this store and its own folder.
fn data(home: &Home) -> (HubData, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let data = HubData {
        data_dir: dir.path().join("data"),
        store: Some(home.place()),
    };
    std::fs::create_dir(&data.data_dir).unwrap();
    (data, dir)
}

async fn backup(data: &HubData) -> Vec<u8> {
    let sink = TestSink::default();
    let plain = backup::Sink::new(Box::new(sink.clone()), &[]).unwrap();
    data.back_up(plain, true).await.unwrap();
    std::mem::take(&mut *sink.0.lock().unwrap())
}

async fn restore(data: &HubData, backup: &[u8], overwrite: bool) -> Result<(), Code> {
    let source = BufReader::new(io::Cursor::new(backup.to_vec()));
    let done = data
        .restore(
            Box::new(source),
            overwrite,
            RestoredAccess::Kept,
            RestoredDeliveries::Kept,
        )
        .await;
    done.map(drop).map_err(|error| error.code())
}

/// A tenant, its cluster with a fact and a catalog, in one change.
async fn fill(store: &Store, n: usize) {
    change(store, move |draft| {
        let (tenant_name, cluster_name) = (format!("t-{n}"), format!("c-{n}"));
        draft.put_tenant(tenant(&tenant_name))?;
        let mut cluster = cluster(&cluster_name, &tenant_name);
        let fact = Fact {
            value: json!({"n": n, "odd \"text\"": "ä\u{0}\n"}),
            source: FactSource::Agent,
            received: 0,
            observed: 0,
        };
        cluster.facts.insert("n".to_owned(), fact.clone());
        cluster.dynamic_facts.insert("n".to_owned(), fact);
        draft.put_cluster(cluster)?;
        draft.put_catalog(&cluster_id(&cluster_name), vec![json!({"n": n})])
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_restores_a_consistent_state() {
    let (store, home) = store().await;
    let (there, _there) = data(&home);
    std::fs::write(there.data_dir.join("ca.key"), "a key").unwrap();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..300 {
                fill(&store, n).await;
            }
        })
    };
    let mut told = store.watch();
    told.wait_for(|revision| revision.0 > 20).await.unwrap();
    let copy = backup(&there).await;
    writer.await.unwrap();

    let second = home_of_its_own().await;
    let (here, _here) = data(&second);
    restore(&here, &copy, false).await.unwrap();
    assert_eq!(here.check().await.unwrap(), Vec::<String>::new());
    let key = std::fs::read_to_string(here.data_dir.join("ca.key")).unwrap();
    assert_eq!(key, "a key");
    let restored = open(&second).await;
    let view = restored.view();
    // One revision each, so the revision gives the count.
    let count = usize::try_from(view.revision().0 - 1).unwrap();
    assert!((20..=300).contains(&count), "{count}");
    assert_eq!(view.clusters().count(), count);
    for n in 0..count {
        let id = cluster_id(&format!("c-{n}"));
        let now = store.view().cluster(&id).unwrap().clone();
        assert_eq!(view.cluster(&id), Some(&now));
        let catalog = restored.catalog(&id).await.unwrap();
        assert_eq!(catalog.objects, [json!({"n": n})]);
    }
    let log = restored.changes(Revision(1), 10_000).await.unwrap();
    assert_eq!(log.changes.len(), count * 3);
    fill(&restored, 1000).await;
}

#[tokio::test]
async fn a_backup_contains_the_rows_of_delivery() {
    let (store, home) = store().await;
    fill(&store, 1).await;
    let bytes: Vec<u8> = (0..9_000_000u32).map(|it| (it % 253) as u8).collect();
    let id = ArtifactId::of_sha256(&[7; 32]);
    let run = RunRow {
        id: "run-01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
        cluster: cluster_id("c-1"),
        bundle: "b-shop".parse().unwrap(),
        state: RunState::Failed,
        version: 3,
        body: "{}".to_owned(),
    };
    let state = DeploymentRow {
        cluster: cluster_id("c-1"),
        bundle: "b-shop".parse().unwrap(),
        body: "{}".to_owned(),
    };
    ContentStore::of(&store).put(&id, &bytes, 5).await.unwrap();
    RunStore::of(&store).add(&run).await.unwrap();
    let logs = LogStore::of(&store);
    logs.append(&run.id, 7, b"\xff\0log").await.unwrap();
    DeploymentStore::of(&store)
        .write(std::slice::from_ref(&state))
        .await
        .unwrap();
    let (there, _there) = data(&home);
    let copy = backup(&there).await;

    let second = home_of_its_own().await;
    let (here, _here) = data(&second);
    restore(&here, &copy, false).await.unwrap();
    let restored = open(&second).await;
    let contents = ContentStore::of(&restored);
    assert!(contents.get(&id).await.unwrap().unwrap() == bytes);
    let runs = RunStore::of(&restored);
    assert_eq!(runs.get(&run.id).await.unwrap().as_ref(), Some(&run));
    let pieces = LogStore::of(&restored).read(&run.id, 0, 10).await.unwrap();
    assert_eq!((pieces[0].at, &pieces[0].bytes[..]), (7, &b"\xff\0log"[..]));
    let mut states = Vec::new();
    let deployments = DeploymentStore::of(&restored);
    deployments.read(-1, |it| states.push(it)).await.unwrap();
    assert_eq!(states, [state]);
}

#[tokio::test]
async fn a_failed_restore_leaves_nothing_behind() {
    let (store, home) = store().await;
    let (there, _there) = data(&home);
    fill(&store, 1).await;
    std::fs::write(there.data_dir.join("ca.key"), "a key").unwrap();
    let mut copy = backup(&there).await;
    let cut = copy.split_off(copy.len() / 2);
    let second = home_of_its_own().await;
    let (mut here, _here) = data(&second);
    here.data_dir = here.data_dir.join("new/folder");
    let failed = restore(&here, &copy, false).await;
    assert_eq!(failed, Err(Code::Invalid));
    assert!(!here.data_dir.parent().unwrap().exists());
    copy.extend(cut);
    restore(&here, &copy, false).await.unwrap();
    let key = std::fs::read_to_string(here.data_dir.join("ca.key")).unwrap();
    assert_eq!(key, "a key");
    // A failed restore keeps existing data.
    let failed = restore(&here, b"no backup", true).await;
    assert_eq!(failed, Err(Code::Invalid));
    assert!(here.data_dir.join("ca.key").exists());
    assert_eq!(open(&second).await.view().clusters().count(), 1);
}

async fn home_of_its_own() -> Home {
    crate::rig::home().await
}

#[tokio::test]
async fn overwriting_requires_the_flag() {
    let (store, home) = store().await;
    let (there, _there) = data(&home);
    fill(&store, 1).await;
    let copy = backup(&there).await;
    store.close().await;
    assert_eq!(restore(&there, &copy, false).await, Err(Code::InUse));
    let second = home_of_its_own().await;
    let other = open(&second).await;
    put_tenant(&other, tenant("t-other")).await.unwrap();
    other.close().await;
    let (here, _here) = data(&second);
    assert_eq!(restore(&here, &copy, false).await, Err(Code::InUse));
    assert!(
        open(&second)
            .await
            .view()
            .tenant(&tenant_id("t-other"))
            .is_some()
    );
    restore(&here, &copy, true).await.unwrap();
    let restored = open(&second).await;
    assert!(restored.view().tenant(&tenant_id("t-other")).is_none());
    assert!(restored.view().tenant(&tenant_id("t-1")).is_some());
    // Keys are not overwritten either.
    restored.close().await;
    std::fs::write(here.data_dir.join("bootstrap.key"), "mine").unwrap();
    assert_eq!(restore(&here, &copy, false).await, Err(Code::InUse));
}

#[tokio::test]
async fn a_damaged_backup_changes_nothing() {
    let (store, home) = store().await;
    let (there, _there) = data(&home);
    for n in 0..5 {
        fill(&store, n).await;
    }
    let copy = backup(&there).await;
    let text = String::from_utf8(copy.clone()).unwrap();
    let second = home_of_its_own().await;
    let (here, _here) = data(&second);
    let cut: String = text.split_inclusive('\n').take(3).collect();
    for damaged in [
        "",
        "{}\n",
        &text.replacen("T-3", "T-4", 1),
        &text.replacen("{\"fairlead\":1}", "{\"fairlead\":2}", 1),
        &text[..text.len() / 2],
        &cut,
    ] {
        let refused = restore(&here, damaged.as_bytes(), true).await;
        assert_eq!(refused, Err(Code::Invalid), "{} bytes", damaged.len());
        assert_eq!(open(&second).await.view().revision(), Revision(1));
    }
    restore(&here, &copy, false).await.unwrap();
}

#[tokio::test]
async fn a_store_migrates_to_a_file_and_back_unchanged() {
    let (store, home) = store().await;
    for n in 0..700 {
        put_tenant(&store, tenant(&format!("t-many-{n}")))
            .await
            .unwrap();
    }
    fill(&store, 1).await;
    delete_cluster(&store, "c-1").await.unwrap();
    store.close().await;
    let dir = tempfile::tempdir().unwrap();
    let file = Place::File(dir.path().join("other.db"));
    let there = migrate(&home.place(), &file, false).await.unwrap();
    let rows = |table: &str| there.get(table).unwrap().rows;
    assert_eq!((rows("documents"), rows("changes")), (702, 704));
    let twice = migrate(&home.place(), &file, false).await.unwrap_err();
    assert_eq!(twice.code(), Code::InUse);
    let back = home_of_its_own().await;
    let again = migrate(&file, &back.place(), false).await.unwrap();
    assert_eq!(there, again);
    let moved = open(&back).await;
    assert!(moved.view().tenants().eq(store.view().tenants()));
    assert_eq!(moved.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_encrypted_backup_opens_with_its_identity_only() {
    let (store, home) = store().await;
    let (there, _there) = data(&home);
    fill(&store, 1).await;
    std::fs::write(there.data_dir.join("ca.key"), "a key").unwrap();
    // A key pair of `age-keygen`, and a key of another one.
    let recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
    let mine = "# created: 2021-01-02\nAGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n";
    let sink = TestSink::default();
    let sealed = backup::Sink::new(Box::new(sink.clone()), &[recipient.to_owned()]).unwrap();
    there.back_up(sealed, true).await.unwrap();
    let bytes = sink.0.lock().unwrap().clone();
    assert!(!bytes.windows(5).any(|window| window == b"a key"));

    let source = || Box::new(BufReader::new(io::Cursor::new(bytes.clone())));
    let second = home_of_its_own().await;
    let (here, _here) = data(&second);
    let refused = backup::opened(source(), None).map(drop).unwrap_err();
    assert_eq!(refused.code, Code::WrongKey);
    // A public key, another private key, and a file without one.
    let other = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
    for wrong in [recipient, other, "# nothing"] {
        let refused = backup::opened(source(), Some(&wrong.into()));
        assert_eq!(refused.map(drop).unwrap_err().code, Code::WrongKey);
    }
    let mine = mine.to_owned().into();
    let opened = backup::opened(source(), Some(&mine)).unwrap();
    here.restore(
        opened,
        false,
        RestoredAccess::Kept,
        RestoredDeliveries::Kept,
    )
    .await
    .unwrap();
    let key = std::fs::read_to_string(here.data_dir.join("ca.key")).unwrap();
    assert_eq!(key, "a key");
}
