//! Rows of removed deployments, and what a deleted cluster or bundle leaves behind.

use std::{sync::Mutex, time::Duration};

use fairlead_api::delivery::{DeploymentReports, DeploymentState};
use fairlead_delivery_store::{DeploymentRow, DeploymentStore};
use fairlead_rollout::UnixMillis;
use serde_json::json;

use super::hub::{TestHub, id, shop};
use crate::fleet::{
    Fleet,
    stored_rows::{REMOVED_ROWS_KEPT, StoredRows},
};

async fn numbers(rows: &DeploymentStore) -> Vec<bool> {
    let mut found = Vec::new();
    let read = rows.read(-1, |row| found.push(row.body.is_empty()));
    read.await.unwrap();
    found
}

#[tokio::test]
async fn removed_rows_are_kept_until_each_hub_has_read_them() {
    let hub = TestHub::with(2).await;
    let fleet = Mutex::new(Fleet::default());
    let store = DeploymentStore::of(&hub.store);
    let mut rows = StoredRows::new(store.clone());
    let row = |number: usize, body: &str| DeploymentRow {
        cluster: id(number),
        bundle: shop(),
        body: body.to_owned(),
    };
    let start = UnixMillis::from(hub.clock.now());
    let written = [row(0, ""), row(1, "{}")];
    rows.write(&written, true).await.unwrap();
    let kept = REMOVED_ROWS_KEPT;
    let second = Duration::from_secs(1);
    for (after, expected) in [
        (Duration::ZERO, vec![true, false]),
        (kept - second, vec![true, false]),
        (kept, vec![false]),
    ] {
        let now = start + after;
        rows.read(&fleet, now).await.unwrap();
        rows.collect(now).await.unwrap();
        assert_eq!(numbers(&store).await, expected, "{after:?}");
    }
    rows.write(&[row(1, "")], false).await.unwrap();
    assert_eq!(
        numbers(&store).await,
        [false; 0],
        "a hub alone waits for none"
    );
}

#[tokio::test]
async fn a_hub_that_missed_removed_rows_forgets_their_reports() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    let store = DeploymentStore::of(&hub.store);
    let mut rows = StoredRows::new(store.clone());
    let fleet = Mutex::new(Fleet::default());
    let view = hub.store.view();
    let (none, start) = (|_: &_| None, UnixMillis::from(hub.clock.now()));
    fleet
        .lock()
        .unwrap()
        .follow(&view, Vec::new(), &none, start);
    let reported = || {
        let fleet = fleet.lock().unwrap();
        let bundle = fleet.bundles.get(&shop()).unwrap();
        let cells = bundle.cells.iter().filter(|it| it.report.is_some());
        cells.map(|it| it.cluster.clone()).collect::<Vec<_>>()
    };
    rows.read(&fleet, start).await.unwrap();
    assert_eq!(reported(), [id(0), id(1)]);
    let removed = DeploymentRow {
        cluster: id(0),
        bundle: shop(),
        body: String::new(),
    };
    rows.write(&[removed], false).await.unwrap();
    rows.read(&fleet, start + Duration::from_secs(1))
        .await
        .unwrap();
    assert_eq!(reported(), [id(0), id(1)], "the removed row was missed");
    rows.read(&fleet, start + REMOVED_ROWS_KEPT).await.unwrap();
    assert_eq!(reported(), [id(1)]);
}

#[tokio::test]
async fn a_deleted_cluster_leaves_nothing_and_its_rollout_ends() {
    let mut hub = TestHub::with(3).await;
    let one_wave = json!({"rollout": {"waves": [{"name": "all", "maxUnavailable": "100%"}]}});
    hub.deploy(one_wave).await;
    for number in [0, 1] {
        hub.report_state(number, DeploymentState::Ready, 1).await;
    }
    hub.report_state(2, DeploymentState::Applying, 1).await;
    hub.pass().await;
    assert_eq!(hub.stored().await[0].1, "Running");
    hub.change(|draft| draft.delete_cluster(&id(2))).await;
    hub.pass().await;
    assert_eq!(hub.stored().await[0].1, "Done");
    assert_eq!(hub.deployment(2), None);
    let desired = hub.parts.fleet.read_now(|it| it.desired(&id(2)));
    assert_eq!(desired, None);
    let store = DeploymentStore::of(&hub.store);
    assert_eq!(numbers(&store).await, [false, false]);
}

#[tokio::test]
async fn a_deleted_bundle_leaves_its_objects_and_no_rollout() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    assert_eq!(hub.stored().await[0].1, "Running");
    hub.report_state(0, DeploymentState::Ready, 1).await;
    hub.change(|draft| draft.delete_bundle(&shop())).await;
    hub.pass().await;
    assert_eq!(hub.stored().await, []);
    assert_eq!((hub.entry(0), hub.entry(1)), (None, None));
    assert_eq!(hub.shown(0).0, DeploymentState::Orphaned);
    assert_eq!(hub.deployment(1), None, "it has never had the bundle");
    hub.report(
        0,
        DeploymentReports {
            gone: vec![shop()],
            ..DeploymentReports::default()
        },
    )
    .await;
    hub.pass().await;
    let store = DeploymentStore::of(&hub.store);
    assert_eq!(numbers(&store).await, [false; 0]);
    let bundles = hub.parts.fleet.read_now(|it| it.bundles.len());
    assert_eq!(bundles, 0);
}
