//! Contract of the rows of delivery.

use std::collections::BTreeSet;

use fairlead_api::{
    RunId,
    delivery::{ArtifactId, RolloutState, RunState},
};
use fairlead_delivery_store::{
    ContentStore, DeploymentRow, DeploymentStore, LogStore, RolloutFilter, RolloutRow,
    RolloutStore, RunFilter, RunRow, RunStore,
};

use fairlead_store::model::BundleRecord;

use crate::*;

/// A store with the clusters `c-a` and `c-b`.
async fn store_with_clusters() -> (Store, Home) {
    let (store, home) = store().await;
    for id in ["c-a", "c-b"] {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
    }
    (store, home)
}

fn content_id(byte: u8) -> ArtifactId {
    ArtifactId::of_sha256(&[byte; 32])
}

fn run_id(last: char) -> RunId {
    format!("run-01ARZ3NDEKTSV4RRFFQ69G5FA{last}")
        .parse()
        .unwrap()
}

fn run(last: char, cluster: &str, bundle: &str) -> RunRow {
    RunRow {
        id: run_id(last),
        cluster: cluster_id(cluster),
        bundle: bundle.parse().unwrap(),
        state: RunState::Queued,
        version: 1,
        body: "{}".to_owned(),
    }
}

fn deployment(cluster: &str, bundle: &str, body: &str) -> DeploymentRow {
    DeploymentRow {
        cluster: cluster_id(cluster),
        bundle: bundle.parse().unwrap(),
        body: body.to_owned(),
    }
}

async fn deployments_since(store: &Store, since: i64) -> (i64, Vec<DeploymentRow>) {
    let mut rows = Vec::new();
    let deployments = DeploymentStore::of(store);
    let last = deployments.read(since, |row| rows.push(row)).await.unwrap();
    rows.sort_by(|a, b| (&a.cluster, &a.bundle).cmp(&(&b.cluster, &b.bundle)));
    (last, rows)
}

#[tokio::test]
async fn contents_are_read_whole_and_in_ranges() {
    let (store, _home) = store().await;
    let contents = ContentStore::of(&store);
    let bytes: Vec<u8> = (0..700_000u32).map(|it| (it % 251) as u8).collect();
    assert_eq!(contents.get(&content_id(1)).await.unwrap(), None);
    for now in [10, 20, 20] {
        contents.put(&content_id(1), &bytes, now).await.unwrap();
    }
    contents.put(&content_id(2), b"", 10).await.unwrap();
    assert_eq!(contents.size(&content_id(1)).await.unwrap(), Some(700_000));
    assert_eq!(contents.get(&content_id(1)).await.unwrap().unwrap(), bytes);
    assert_eq!(contents.get(&content_id(2)).await.unwrap().unwrap(), "");
    for (from, length) in [
        (0u64, 1u64),
        (262_143, 2),
        (262_144, 262_144),
        (699_999, 10),
        (700_000, 1),
        (0, u64::MAX),
    ] {
        let range = contents.range(&content_id(1), from, length).await.unwrap();
        let end = from.saturating_add(length).min(700_000) as usize;
        assert_eq!(range, bytes[from as usize..end], "{from} {length}");
    }
    let missing = contents.range(&content_id(9), 0, 1).await;
    assert!(matches!(missing, Err(StoreError::Missing)), "{missing:?}");
}

#[tokio::test]
async fn contents_in_use_are_not_forgotten() {
    let (store, _home) = store().await;
    let contents = ContentStore::of(&store);
    for (byte, at) in [(1, 10), (2, 10), (3, 30)] {
        contents.put(&content_id(byte), &[byte], at).await.unwrap();
    }
    let used = BTreeSet::from([content_id(1)]);
    assert_eq!(contents.forget(20, &used).await.unwrap(), 1);
    for (byte, is_there) in [(1, true), (2, false), (3, true)] {
        let found = contents.get(&content_id(byte)).await.unwrap();
        assert_eq!(found.is_some(), is_there, "{byte}");
    }
    // A forgotten content can be stored again.
    contents.put(&content_id(2), &[2], 40).await.unwrap();
    assert_eq!(
        contents.get(&content_id(2)).await.unwrap().unwrap(),
        [2][..]
    );
}

#[tokio::test]
async fn deployments_are_read_since_a_number() {
    let (store, _home) = store_with_clusters().await;
    let rows = DeploymentStore::of(&store);
    let first = [
        deployment("c-a", "b-shop", "{\"n\":1}"),
        deployment("c-b", "b-shop", "{\"n\":\"ä\"}"),
        deployment("c-unknown", "b-shop", "{}"),
    ];
    rows.write(&first).await.unwrap();
    let (seen, all) = deployments_since(&store, -1).await;
    assert_eq!(all, first[..2]);

    rows.write(&[deployment("c-a", "b-shop", "{\"n\":2}")])
        .await
        .unwrap();
    rows.write(&[deployment("c-b", "b-shop", "")])
        .await
        .unwrap();
    let (seen, later) = deployments_since(&store, seen).await;
    let second = [
        deployment("c-a", "b-shop", "{\"n\":2}"),
        deployment("c-b", "b-shop", ""),
    ];
    assert_eq!(later, second);
    assert_eq!(deployments_since(&store, seen).await, (seen, Vec::new()));

    let (a, gone) = (second[0].clone(), deployment("c-a", "b-web", ""));
    rows.write(std::slice::from_ref(&gone)).await.unwrap();
    assert_eq!(rows.forget_removed(seen).await.unwrap(), 1);
    assert_eq!(deployments_since(&store, -1).await.1, [a, gone]);
}

#[tokio::test]
async fn a_run_changes_only_from_its_known_version() {
    let (store, _home) = store_with_clusters().await;
    let runs = RunStore::of(&store);
    let first = run('A', "c-a", "b-shop");
    assert!(runs.add(&first).await.unwrap());
    assert!(!runs.add(&first).await.unwrap(), "its id is taken");
    let orphan = run('B', "c-unknown", "b-shop");
    assert!(!runs.add(&orphan).await.unwrap(), "no such cluster");

    let leased = RunRow {
        state: RunState::Leased,
        version: 2,
        ..first.clone()
    };
    assert!(runs.replace(&leased).await.unwrap());
    assert!(!runs.replace(&leased).await.unwrap(), "another was faster");
    assert_eq!(runs.get(&first.id).await.unwrap(), Some(leased));
    assert_eq!(runs.get(&run_id('Z')).await.unwrap(), None);
}

#[tokio::test]
async fn runs_are_listed_by_cluster_bundle_and_state() {
    let (store, _home) = store_with_clusters().await;
    let runs = RunStore::of(&store);
    for (last, cluster, bundle, state) in [
        ('A', "c-a", "b-shop", RunState::Succeeded),
        ('B', "c-a", "b-crds", RunState::Queued),
        ('C', "c-b", "b-shop", RunState::Queued),
        ('D', "c-a", "b-shop", RunState::Failed),
    ] {
        let row = RunRow {
            state,
            ..run(last, cluster, bundle)
        };
        assert!(runs.add(&row).await.unwrap());
    }
    let listed = async |filter: RunFilter, limit| {
        let found = runs.list(&filter, limit).await.unwrap().into_iter();
        found
            .map(|it| it.id.as_str().chars().last().unwrap())
            .collect::<String>()
    };
    let filter = RunFilter::default;
    let (a, shop) = (Some(cluster_id("c-a")), Some("b-shop".parse().unwrap()));
    assert_eq!(listed(filter(), 10).await, "DCBA");
    assert_eq!(listed(filter(), 2).await, "DC");
    let older = RunFilter {
        before: Some(run_id('C')),
        ..filter()
    };
    assert_eq!(listed(older, 10).await, "BA");
    let of_cluster = RunFilter {
        cluster: a.clone(),
        ..filter()
    };
    assert_eq!(listed(of_cluster, 10).await, "DBA");
    let of_both = RunFilter {
        cluster: a,
        bundle: shop,
        states: vec![RunState::Failed, RunState::Queued],
        ..filter()
    };
    assert_eq!(listed(of_both, 10).await, "D");

    assert_eq!(runs.forget(&run_id('D'), 10).await.unwrap(), 1);
    assert_eq!(listed(filter(), 10).await, "DCB", "open runs stay");
}

#[tokio::test]
async fn runs_of_a_deployment_change_one_after_the_other() {
    let (store, _home) = store_with_clusters().await;
    let runs = RunStore::of(&store);
    let (a, shop) = (cluster_id("c-a"), "b-shop".parse().unwrap());
    let add = |last: char| {
        let row = run(last, "c-a", "b-shop");
        let (runs, a, shop) = (runs.clone(), a.clone(), &shop);
        async move {
            let change = runs.change((&a, shop), None, |open| match open.is_empty() {
                true => (vec![row], true),
                false => (Vec::new(), false),
            });
            change.await.unwrap()
        }
    };
    let added = futures_util::future::join_all("ABCDEFGH".chars().map(add)).await;
    assert_eq!(added.iter().filter(|it| **it).count(), 1, "{added:?}");

    let ended = runs.change((&a, &shop), None, |mut open| {
        let mut row = open.remove(0);
        row.version += 1;
        row.state = RunState::Succeeded;
        (vec![row.clone()], row.id)
    });
    let ended = ended.await.unwrap();
    let seen = async |also: Option<&RunId>| {
        let seen = runs.change((&a, &shop), also, |open| (Vec::new(), open.len()));
        seen.await.unwrap()
    };
    assert_eq!((seen(None).await, seen(Some(&ended)).await), (0, 1));
    let nowhere = run('Z', "c-none", "b-shop");
    let missing = runs.change((&nowhere.cluster, &shop), None, |_| {
        (vec![nowhere.clone()], ())
    });
    assert!(matches!(missing.await, Err(StoreError::Missing)));
}

#[tokio::test]
async fn logs_are_pieces_by_offset() {
    let (store, _home) = store_with_clusters().await;
    let (runs, logs) = (RunStore::of(&store), LogStore::of(&store));
    for last in ['A', 'B'] {
        runs.add(&run(last, "c-a", "b-shop")).await.unwrap();
    }
    let id = run_id('A');
    assert_eq!(logs.length(&id).await.unwrap(), 0);
    assert!(logs.append(&id, 0, b"one\n").await.unwrap());
    assert!(logs.append(&id, 4, b"\xff\0two\n").await.unwrap());
    assert!(!logs.append(&id, 4, b"other").await.unwrap());
    assert!(!logs.append(&run_id('Z'), 0, b"none").await.unwrap());
    assert!(logs.append(&run_id('B'), 0, b"b").await.unwrap());
    assert_eq!(logs.length(&id).await.unwrap(), 10);
    let pieces = async |from| {
        let pieces = logs.read(&id, from, 10).await.unwrap().into_iter();
        pieces
            .map(|it| (it.at, it.bytes.to_vec()))
            .collect::<Vec<_>>()
    };
    let (one, two) = ((0, b"one\n".to_vec()), (4, b"\xff\0two\n".to_vec()));
    assert_eq!(pieces(0).await, [one.clone(), two.clone()]);
    assert_eq!(pieces(3).await, [one, two.clone()]);
    assert_eq!(pieces(4).await, [two]);
    assert_eq!(pieces(10).await, []);
    logs.put_diff(&id, b"older").await.unwrap();
    logs.put_diff(&id, b"{}").await.unwrap();
    assert_eq!(logs.diff(&id).await.unwrap().unwrap(), "{}");
    assert_eq!(logs.diff(&run_id('B')).await.unwrap(), None);
    assert_eq!(logs.length(&id).await.unwrap(), 10);
    let sizes = logs.sizes().await.unwrap();
    assert_eq!(sizes, [(id.clone(), 12), (run_id('B'), 1)]);
    logs.cut(&id, 1..10).await.unwrap();
    assert_eq!(pieces(0).await, [(0, b"one\n".to_vec())]);
    logs.forget(&id).await.unwrap();
    assert_eq!(logs.sizes().await.unwrap(), [(run_id('B'), 1)]);
}

#[tokio::test]
async fn a_deleted_cluster_takes_its_rows_along() {
    let (store, _home) = store_with_clusters().await;
    for (last, cluster) in [('A', "c-a"), ('B', "c-b")] {
        let row = run(last, cluster, "b-shop");
        RunStore::of(&store).add(&row).await.unwrap();
        let logs = LogStore::of(&store);
        logs.append(&row.id, 0, b"log").await.unwrap();
        let state = deployment(cluster, "b-shop", "{}");
        DeploymentStore::of(&store).write(&[state]).await.unwrap();
    }
    delete_cluster(&store, "c-a").await.unwrap();
    let (_, left) = deployments_since(&store, -1).await;
    assert_eq!(left, [deployment("c-b", "b-shop", "{}")]);
    let (runs, all) = (RunStore::of(&store), RunFilter::default());
    let runs = runs.list(&all, 10).await.unwrap();
    assert_eq!(runs, [run('B', "c-b", "b-shop")]);
    let sizes = LogStore::of(&store).sizes().await.unwrap();
    assert_eq!(sizes, [(run_id('B'), 3)]);
}

fn rollout(bundle: &str, generation: u64) -> RolloutRow {
    RolloutRow {
        id: format!("r-{bundle}-{generation}").parse().unwrap(),
        bundle: format!("b-{bundle}").parse().unwrap(),
        generation,
        state: RolloutState::Running,
        version: 1,
        body: "{}".to_owned(),
    }
}

#[tokio::test]
async fn a_rollout_changes_only_from_its_known_version() {
    let (store, _home) = store().await;
    let rollouts = RolloutStore::of(&store);
    let first = rollout("shop", 8);
    assert!(rollouts.add(&first, "[1]").await.unwrap());
    assert!(
        !rollouts.add(&first, "[2]").await.unwrap(),
        "its id is taken"
    );
    assert_eq!(rollouts.waves(&first.id).await.unwrap().unwrap(), "[1]");
    let halted = RolloutRow {
        state: RolloutState::Halted,
        version: 2,
        ..first.clone()
    };
    assert!(rollouts.replace(&halted).await.unwrap());
    assert!(
        !rollouts.replace(&halted).await.unwrap(),
        "another was faster"
    );
    assert_eq!(rollouts.get(&first.id).await.unwrap(), Some(halted));
    assert_eq!(
        rollouts.get(&"r-none".parse().unwrap()).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn the_newest_rollout_of_each_bundle_is_found() {
    let (store, _home) = store().await;
    let rollouts = RolloutStore::of(&store);
    for (bundle, generation) in [("shop", 9), ("shop", 10), ("crds", 1)] {
        let row = rollout(bundle, generation);
        assert!(rollouts.add(&row, "[]").await.unwrap());
    }
    let newest = async || {
        let newest = rollouts.newest().await.unwrap().into_iter();
        newest
            .map(|it| (it.id.to_string(), it.version))
            .collect::<Vec<_>>()
    };
    let crds = ("r-crds-1".to_owned(), 1);
    assert_eq!(newest().await, [crds.clone(), ("r-shop-10".to_owned(), 1)]);
    let listed = async |filter: RolloutFilter, limit| {
        let found = rollouts.list(&filter, limit).await.unwrap().into_iter();
        found.map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    let all = RolloutFilter::default;
    assert_eq!(
        listed(all(), 10).await,
        ["r-crds-1", "r-shop-10", "r-shop-9"]
    );
    let of_shop = RolloutFilter {
        bundle: Some("b-shop".parse().unwrap()),
        states: vec![RolloutState::Running],
        after: Some("r-shop-10".parse().unwrap()),
    };
    assert_eq!(listed(of_shop, 10).await, ["r-shop-9"]);
    let none = RolloutFilter {
        states: vec![RolloutState::Done],
        ..all()
    };
    assert_eq!(listed(none, 10).await, [""; 0]);

    let shop = "b-shop".parse().unwrap();
    assert_eq!(rollouts.forget(&shop, 10).await.unwrap(), 1);
    assert_eq!(
        rollouts.waves(&"r-shop-9".parse().unwrap()).await.unwrap(),
        None
    );
    assert_eq!(newest().await, [crds, ("r-shop-10".to_owned(), 1)]);
}

#[tokio::test]
async fn rollouts_of_deleted_bundles_are_deleted_with_their_waves() {
    let (store, _home) = store().await;
    let rollouts = RolloutStore::of(&store);
    put_bundle(&store, "b-shop").await;
    for bundle in ["shop", "gone"] {
        let row = rollout(bundle, 1);
        assert!(rollouts.add(&row, "[]").await.unwrap());
    }
    assert_eq!(rollouts.forget_deleted().await.unwrap(), 1);
    for (id, is_kept) in [("r-shop-1", true), ("r-gone-1", false)] {
        let id = id.parse().unwrap();
        let (row, waves) = (rollouts.get(&id).await, rollouts.waves(&id).await);
        assert_eq!(row.unwrap().is_some(), is_kept, "{id}");
        assert_eq!(waves.unwrap().is_some(), is_kept, "{id}");
    }
}

async fn put_bundle(store: &Store, id: &str) {
    let fields = fairlead_api::delivery::BundleFields::default();
    let bundle = BundleRecord::new(id.parse().unwrap(), "t-default".parse().unwrap(), fields);
    change(store, move |draft| draft.put_bundle(bundle.clone()))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_touched_content_outlives_its_upload() {
    let (store, _home) = store().await;
    let contents = ContentStore::of(&store);
    assert!(!contents.touch(&content_id(1), 10).await.unwrap());
    contents.put(&content_id(1), b"x", 10).await.unwrap();
    assert!(contents.touch(&content_id(1), 20).await.unwrap());
    assert!(contents.touch(&content_id(1), 20).await.unwrap());
    assert_eq!(contents.forget(20, &BTreeSet::new()).await.unwrap(), 0);
    assert_eq!(contents.forget(21, &BTreeSet::new()).await.unwrap(), 1);
}

#[tokio::test]
async fn clusters_of_a_bundle_have_a_state_that_is_not_removed() {
    let (store, _home) = store_with_clusters().await;
    let deployments = DeploymentStore::of(&store);
    let rows = [
        deployment("c-b", "b-shop", "{}"),
        deployment("c-a", "b-shop", "{}"),
        deployment("c-a", "b-web", "{}"),
    ];
    deployments.write(&rows).await.unwrap();
    let shop = "b-shop".parse().unwrap();
    let found = deployments.clusters_of(&shop).await.unwrap();
    assert_eq!(found, [cluster_id("c-a"), cluster_id("c-b")]);
    deployments
        .write(&[deployment("c-a", "b-shop", "")])
        .await
        .unwrap();
    let found = deployments.clusters_of(&shop).await.unwrap();
    assert_eq!(found, [cluster_id("c-b")]);
}
