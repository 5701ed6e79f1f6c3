//! Journals that somebody deleted.

use super::*;

#[tokio::test]
async fn lost_journal_is_no_first_delivery_and_deletes_nothing() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let names = ["a", "b", "c", "d", "e"];
    hub.release(1, &names);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    until("lock gone", || api.get(LOCK).is_none()).await;
    drop(agent);
    api.delete(JOURNAL);
    // A controller has copied the label, as into an EndpointSlice: this object is not of the bundle.
    let copied = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "copied", "namespace": "shop", "labels": {"fairlead/bundle": "b-shop"}},
    });
    api.put(&format!("{OBJECTS}copied"), copied);
    free_lease(&api);

    // The new content has no `e` any more.
    hub.release(12, &names[..4]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 12).await;
    assert_eq!(api.paths(OBJECTS).len(), 6, "{:?}", api.paths(OBJECTS));
    assert_eq!(hub.report().unwrap().objects.total, 5);

    // The next run deletes it by the usual rules.
    hub.release_value(113, &names[..4], "again", |_| {});
    agent.nudge(&hub);
    until_ready(&hub, 113).await;
    let left = ["a", "b", "c", "copied", "d"].map(|it| format!("{OBJECTS}{it}"));
    assert_eq!(api.paths(OBJECTS), left);
}

#[tokio::test]
async fn first_delivery_lists_no_kinds() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    api.take_requests();
    let _agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    let requests = api.take_requests();
    // Nothing else reads Services here.
    let is_list = |it: &String| it == "GET /api/v1/services";
    assert!(!requests.iter().any(is_list), "{requests:?}");
}
