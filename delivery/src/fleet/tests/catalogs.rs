//! Catalogs of clusters as bundles.

use fairlead_api::delivery::DesiredBundle;
use fairlead_store::Draft;
use serde_json::{Value, json};

use super::hub::{TestHub, id};
use crate::catalogs;

fn object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn store_catalog(hub: &mut TestHub, number: usize, name: &'static str) {
    let put = move |draft: &mut Draft| draft.put_catalog(&id(number), vec![object(name)]).map(drop);
    hub.change(put).await;
}

async fn deliver(hub: &mut TestHub, number: usize, on: bool) {
    hub.change(move |draft| {
        let mut cluster = draft.cluster(&id(number)).unwrap().value.clone();
        cluster.deliver_catalog = Some(on);
        draft.put_cluster(cluster)
    })
    .await;
}

async fn pass(hub: &mut TestHub) {
    catalogs::pass(&hub.parts).await;
    hub.pass().await;
}

fn delivered(hub: &TestHub, number: usize) -> Vec<(String, u64)> {
    let entry = |it: DesiredBundle| (it.bundle.to_string(), it.generation);
    hub.desired(number).bundles.into_iter().map(entry).collect()
}

fn of(number: usize, generation: u64) -> Vec<(String, u64)> {
    vec![(format!("b-catalog-{}", id(number)), generation)]
}

#[tokio::test]
async fn a_catalog_is_delivered_to_its_cluster_where_that_is_enabled() {
    let mut hub = TestHub::with(3).await;
    store_catalog(&mut hub, 0, "a").await;
    store_catalog(&mut hub, 1, "a").await;
    deliver(&mut hub, 0, true).await;
    deliver(&mut hub, 2, true).await;
    pass(&mut hub).await;
    assert_eq!(delivered(&hub, 0), of(0, 1));
    assert_eq!(delivered(&hub, 1), [], "not enabled");
    assert_eq!(delivered(&hub, 2), [], "no catalog");

    let revision = hub.store.view().revision();
    pass(&mut hub).await;
    assert_eq!(hub.store.view().revision(), revision, "nothing is due");

    store_catalog(&mut hub, 0, "b").await;
    pass(&mut hub).await;
    assert_eq!(delivered(&hub, 0), of(0, 2));
}

#[tokio::test]
async fn an_ended_delivery_keeps_the_objects_and_its_numbers() {
    let mut hub = TestHub::with(1).await;
    store_catalog(&mut hub, 0, "a").await;
    deliver(&mut hub, 0, true).await;
    pass(&mut hub).await;
    deliver(&mut hub, 0, false).await;
    pass(&mut hub).await;
    assert_eq!(delivered(&hub, 0), [], "no tombstone");
    deliver(&mut hub, 0, true).await;
    pass(&mut hub).await;
    assert_eq!(delivered(&hub, 0), of(0, 2));

    hub.change(|draft| draft.delete_cluster(&id(0))).await;
    pass(&mut hub).await;
    assert_eq!(hub.store.view().bundles().count(), 0);
}

#[tokio::test]
async fn the_bundle_follows_its_cluster_to_another_tenant() {
    let mut hub = TestHub::with(1).await;
    store_catalog(&mut hub, 0, "a").await;
    deliver(&mut hub, 0, true).await;
    pass(&mut hub).await;
    hub.change(|draft| {
        let mut cluster = draft.cluster(&id(0)).unwrap().value.clone();
        cluster.tenant = "t-b".parse().unwrap();
        draft.put_cluster(cluster)
    })
    .await;
    pass(&mut hub).await;
    let view = hub.store.view();
    let bundle = &view.bundles().next().unwrap().value;
    assert_eq!(bundle.tenant.as_str(), "t-b");
    assert_eq!(delivered(&hub, 0), of(0, 2));
}
