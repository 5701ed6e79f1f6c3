//! History of facts by time and cluster, and `/inventory` over it.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Reply, Rig, admin, caller};

const INVENTORY: &str = "/inventory";

async fn store(rig: &Rig, cluster: &str, facts: Value) -> Reply {
    let body = json!({ "cluster": cluster, "inventory": facts });
    rig.call(&admin(), Method::POST, INVENTORY, body).await
}

/// Response to an InfluxQL query, first statement.
async fn asked(rig: &Rig, tenant: Option<&str>, query: &str) -> Value {
    let query = fairlead_api::percent::encode(query);
    let path = format!("{INVENTORY}?q={query}");
    let reply = rig.get(&caller(Role::Viewer, tenant), &path).await;
    if reply.status != StatusCode::OK {
        return reply.json()["reason"].clone();
    }
    reply.good()["inventory"]["results"][0]["series"].clone()
}

/// Two clusters of two tenants; one changes after an hour.
async fn rig() -> Rig {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("one", "t-default").await;
    rig.cluster("two", "t-acme").await;
    for (cluster, count) in [("c-one", 3), ("c-two", 5)] {
        let facts = json!({ "nodes": { "count": count }, "site": "Berlin" });
        let stored = store(&rig, cluster, facts).await;
        assert_eq!(
            (stored.status, stored.text.as_str()),
            (StatusCode::CREATED, "")
        );
    }
    rig.advance(Duration::hours(1));
    let change = json!({ "nodes": { "count": 4 }, "site": null });
    assert_eq!(
        store(&rig, "c-one", change).await.status,
        StatusCode::CREATED
    );
    rig
}

#[tokio::test]
async fn the_history_of_a_cluster_answers_by_time_and_range() {
    let rig = rig().await;
    let history = async |query: &str| {
        let path = format!("/v1/clusters/c-one/facts/history{query}");
        let items = rig.get(&admin(), &path).await.good()["items"].clone();
        let items = items.as_array().unwrap().iter();
        items
            .map(|it| json!([it["name"], it["value"], it["at"]]))
            .collect::<Vec<_>>()
    };
    let (then, later) = ("2026-11-21T12:00:00.25Z", "2026-11-21T13:00:00.25Z");
    let first = [
        json!(["nodes", { "count": 3 }, then]),
        json!(["site", "Berlin", then]),
    ];
    let second = [
        json!(["nodes", { "count": 4 }, later]),
        json!(["site", null, later]),
    ];
    assert_eq!(history("?at=2026-11-21T12:30:00Z").await, first);
    assert_eq!(
        history("?at=2026-11-21T13:30:00Z").await,
        [second[0].clone()]
    );
    assert_eq!(history("").await.len(), 4);
    assert_eq!(history(&format!("?from={later}")).await, second);
    assert_eq!(
        history(&format!("?to={then}&fact=site")).await,
        [first[1].clone()]
    );
    assert_eq!(history("?limit=1").await.len(), 1);
    for bad in [
        "?at=yesterday",
        "?colour=red",
        "?at=2026-11-21T12:30:00Z&from=2026-11-21T12:30:00Z",
    ] {
        let reply = rig
            .get(&admin(), &format!("/v1/clusters/c-one/facts/history{bad}"))
            .await;
        assert_eq!(reply.code(), Code::Invalid, "{bad}");
    }
}

#[tokio::test]
async fn changes_of_a_fact_are_limited_to_visible_clusters() {
    let rig = rig().await;
    let changed = async |tenant: Option<&str>, query: &str| {
        let path = format!("/v1/facts/nodes/changes{query}");
        let items = rig.get(&caller(Role::Viewer, tenant), &path).await.good()["items"].clone();
        let items = items.as_array().unwrap().iter();
        items
            .map(|it| it["cluster"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = changed(None, "").await;
    assert_eq!(
        (all.len(), all[0].as_str()),
        (3, "c-one"),
        "the latest first"
    );
    assert_eq!(changed(Some("t-acme"), "").await, ["c-two"]);
    assert_eq!(changed(None, "?from=2026-11-21T12:30:00Z").await, ["c-one"]);
    let hidden = rig
        .get(
            &caller(Role::Viewer, Some("t-acme")),
            "/v1/clusters/c-one/facts/history",
        )
        .await;
    assert_eq!(hidden.code(), Code::NoSuchCluster);
}

#[tokio::test]
async fn inventory_is_queried_within_the_callers_rights() {
    let rig = rig().await;
    let (then, later) = ("2026-11-21T12:00:00.25Z", "2026-11-21T13:00:00.25Z");
    assert_eq!(
        asked(&rig, None, "SELECT LAST(count) FROM nodes GROUP BY cluster").await,
        json!([
            { "name": "nodes", "tags": { "cluster": "c-one" }, "columns": ["time", "last"], "values": [[later, 4]] },
            { "name": "nodes", "tags": { "cluster": "c-two" }, "columns": ["time", "last"], "values": [[then, 5]] },
        ])
    );
    let of_one = "SELECT count, source FROM nodes WHERE cluster = 'c-one' AND time < now() - 30m";
    assert_eq!(
        asked(&rig, None, of_one).await,
        json!([{ "name": "nodes", "columns": ["time", "count", "source"], "values": [[then, 3, "inventory"]] }])
    );
    assert_eq!(asked(&rig, Some("t-acme"), of_one).await, Value::Null);
    assert_eq!(
        asked(&rig, Some("t-acme"), "SELECT value FROM site, nodes").await,
        json!([{ "name": "site", "columns": ["time", "value"], "values": [[then, "Berlin"]] }])
    );
    let refused = asked(&rig, None, "SELECT MEAN(count) FROM nodes").await;
    assert_eq!(
        refused,
        "a value is not allowed: q: at character 8, \"MEAN\": FIRST, LAST or COUNT of a field"
    );
    let refused = asked(&rig, None, "").await;
    assert!(refused.as_str().unwrap().contains("SELECT"), "{refused}");
}

#[tokio::test]
async fn posted_inventory_becomes_facts_with_permission() {
    let rig = rig().await;
    let viewer = caller(Role::Viewer, None);
    let body = json!({ "cluster": "c-one", "inventory": { "a": 1 } });
    let refused = rig
        .call(&viewer, Method::POST, INVENTORY, body.clone())
        .await;
    assert_eq!(refused.code(), Code::NotAllowed);
    let foreign = caller(Role::Admin, Some("t-acme"));
    let hidden = rig.call(&foreign, Method::POST, INVENTORY, body).await;
    assert_eq!(hidden.code(), Code::NoSuchCluster);
    for (facts, says) in [
        (json!({ "a b": 1 }), "a fact's name"),
        (
            json!({ "long": "x".repeat(70_000) }),
            "long is more than 8 levels deep, or longer than 65536 bytes",
        ),
        (json!([]), "invalid type"),
    ] {
        let reply = store(&rig, "c-one", facts).await;
        assert_eq!(reply.code(), Code::Invalid);
        assert!(reply.text.contains(says), "{reply:?}");
    }
    assert_eq!(
        store(&rig, "c-none", json!({})).await.code(),
        Code::NoSuchCluster
    );
    assert_eq!(store(&rig, "", json!({})).await.code(), Code::NoSuchCluster);
}
