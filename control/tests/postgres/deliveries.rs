//! Rows of delivery that several hubs on one database write.

use fairlead_api::{BundleId, RunId, delivery::RunState};
use fairlead_delivery_store::{
    ContentStore, DeploymentRow, DeploymentStore, RolloutRow, RolloutStore, RunRow, RunStore,
};
use futures_util::future::join_all;

use crate::*;

fn shop() -> BundleId {
    "b-shop".parse().unwrap()
}

/// Two hubs that know the cluster `c-a`.
async fn two_hubs() -> ([Store; 2], Home) {
    let (one, home) = store().await;
    put_cluster(&one, cluster("c-a", "t-default"))
        .await
        .unwrap();
    let two = open(&home).await;
    ([one, two], home)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_changes_on_two_hubs_exactly_one_adds_a_run() {
    let (hubs, _home) = two_hubs().await;
    let add = |number: u64| {
        let runs = RunStore::of(&hubs[usize::try_from(number % 2).unwrap()]);
        async move {
            let row = RunRow {
                id: RunId::from_parts(number + 1, [7; 10]),
                cluster: cluster_id("c-a"),
                bundle: shop(),
                state: RunState::Queued,
                version: 1,
                body: "{}".to_owned(),
            };
            let cluster = row.cluster.clone();
            let decide = |open: Vec<RunRow>| match open.is_empty() {
                true => (vec![row], true),
                false => (Vec::new(), false),
            };
            // A durable change and an unsynced one have the same lock.
            let changed = match number % 4 < 2 {
                true => runs.change((&cluster, &shop()), None, decide).await,
                false => runs.record((&cluster, &shop()), None, decide).await,
            };
            changed.unwrap()
        }
    };
    let added = join_all((0..16).map(add)).await;
    assert_eq!(added.iter().filter(|it| **it).count(), 1, "{added:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hub_reads_each_state_that_another_one_writes() {
    let ([one, two], _home) = two_hubs().await;
    let write = |number: usize| {
        let rows = DeploymentStore::of(&one);
        async move {
            let row = DeploymentRow {
                cluster: cluster_id("c-a"),
                bundle: format!("b-{number}").parse().unwrap(),
                body: "{}".to_owned(),
            };
            rows.write(&[row]).await.unwrap();
        }
    };
    let (mut since, mut seen) = (-1, 0);
    let reader = DeploymentStore::of(&two);
    let mut writes = std::pin::pin!(join_all((0..40).map(write)));
    let mut is_done = false;
    while !is_done {
        is_done = futures_util::poll!(&mut writes).is_ready();
        since = reader.read(since, |_| seen += 1).await.unwrap();
    }
    assert_eq!(seen, 40, "numbers become visible in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_steps_of_a_rollout_one_is_stored() {
    let (hubs, _home) = two_hubs().await;
    let mut rollout = RolloutRow {
        id: "r-shop-1".parse().unwrap(),
        bundle: shop(),
        generation: 1,
        state: fairlead_api::delivery::RolloutState::Running,
        version: 1,
        body: "{}".to_owned(),
    };
    let added = hubs.iter().map(|it| {
        let (rollouts, row) = (RolloutStore::of(it), rollout.clone());
        async move { rollouts.add(&row, "[]").await.unwrap() }
    });
    let added = join_all(added).await;
    assert_eq!(added.iter().filter(|it| **it).count(), 1);
    rollout.version = 2;
    let replaced = hubs.iter().map(|it| {
        let (rollouts, row) = (RolloutStore::of(it), rollout.clone());
        async move { rollouts.replace(&row).await.unwrap() }
    });
    let replaced = join_all(replaced).await;
    assert_eq!(replaced.iter().filter(|it| **it).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_content_that_is_stored_while_it_is_collected_stays_whole() {
    let (hubs, _home) = two_hubs().await;
    let [writer, collector] = [0, 1].map(|it| ContentStore::of(&hubs[it]));
    let id = fairlead_api::delivery::ArtifactId::of_sha256(&[7; 32]);
    let (bytes, unused) = (vec![7; 600_000], std::collections::BTreeSet::new());
    for round in 1..20 {
        let (put, forgotten) = tokio::join!(
            writer.put(&id, &bytes, round),
            collector.forget(round, &unused),
        );
        put.unwrap();
        assert!(forgotten.unwrap() <= 1);
        assert_eq!(writer.get(&id).await.unwrap().unwrap(), bytes, "{round}");
    }
}
