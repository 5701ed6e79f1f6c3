//! Fields of others beside those of a bundle.

use super::*;

#[tokio::test]
async fn fields_beside_those_of_the_bundle_reach_the_hub() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release_with(1, &["a"], |spec| spec.drift = DriftPolicy::Correct);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    assert!(hub.report().unwrap().beside.is_empty());
    drop(agent);
    api.change(&format!("{OBJECTS}a"), |map| {
        let entry = json!({
            "manager": "injector", "operation": "Update", "apiVersion": "v1", "time": "2026-11-24T12:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:extra": {}}},
        });
        let fields = map["metadata"]["managedFields"].as_array_mut().unwrap();
        fields.push(entry);
    });
    free_lease(&api);
    let _agent = Agent::start(&api, &hub);
    until("fields beside", || {
        hub.report().is_some_and(|it| !it.beside.is_empty())
    })
    .await;
    let report = hub.report().unwrap();
    assert_eq!(report.state, DeploymentState::Ready);
    let beside = serde_json::to_value(&report.beside).unwrap();
    let expected =
        json!([{"object": "ConfigMap shop/a", "fields": [".data.extra"], "manager": "injector"}]);
    assert_eq!(beside, expected);
}
