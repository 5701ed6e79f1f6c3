//! Parameters of lists.

use serde_json::json;

use crate::rig::Rig;

/// Three clusters of two tenants, two of them with the same name.
async fn world() -> Rig {
    let rig = Rig::new().await;
    rig.tenant("t-a").await;
    rig.tenant("t-b").await;
    for (id, tenant, name) in [
        ("c-1", "t-b", "x"),
        ("c-2", "t-a", "y"),
        ("c-3", "t-a", "x"),
    ] {
        let body = json!({ "id": id, "tenant": tenant, "displayName": name });
        rig.call("POST", "/clusters", &body.to_string())
            .await
            .good();
    }
    rig
}

/// The numbers of the listed clusters, in order.
async fn listed(rig: &Rig, query: &str) -> String {
    let list = rig.get(&format!("/clusters{query}")).await.good();
    let ids = list.as_array().unwrap().iter();
    ids.map(|it| it["id"].as_str().unwrap()[2..].to_owned())
        .collect()
}

#[tokio::test]
async fn lists_have_the_requested_order() {
    let rig = world().await;
    for (query, numbers) in [
        ("", "123"),
        ("?sort_by=id", "123"),
        ("?sort_by=tenant", "231"),
        ("?sort_by=displayName", "132"),
        ("?tenant=t-a&sort_by=displayName", "32"),
    ] {
        assert_eq!(listed(&rig, query).await, numbers, "{query}");
    }
}

#[tokio::test]
async fn invalid_parameters_of_lists_are_400_and_unknown_ones_are_ignored() {
    let rig = world().await;
    assert_eq!(listed(&rig, "?unknown=1&unknown=2").await, "123");
    assert_eq!(listed(&rig, "?tenant=t-none").await, "");
    assert_eq!(listed(&rig, "?tenant=nonsense").await, "");
    for bad in [
        "/clusters?sort_by=",
        "/clusters?sort_by=name",
        "/clusters?sort_by=id&sort_by=id",
        "/clusters?tenant=",
        "/tenants?sort_by=",
        "/tenants?sort_by=name",
        "/tenants?sort_by=id&sort_by=id",
    ] {
        rig.get(bad).await.is(400, "");
    }
}
