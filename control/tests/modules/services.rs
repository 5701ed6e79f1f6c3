//! Named services: their checks, their visibility, and their end with the cluster.

use fairlead_api::resources::Role;
use http::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, admin, caller};

fn by_port(cluster: &str, port: u16) -> Value {
    json!({
        "cluster": cluster, "target": "db.shop:5432", "protocol": "tcp",
        "port": port, "from": ["10.0.0.0/8"],
    })
}

fn by_host(protocol: &str, host: &str) -> Value {
    json!({
        "cluster": "c-demo", "target": "web.shop:80", "protocol": protocol,
        "host": host, "from": ["0.0.0.0/0", "::/0"],
    })
}

async fn put(rig: &Rig, name: &str, body: Value) -> (u16, String) {
    let path = format!("/v1/services/{name}");
    let reply = rig.call(&admin(), Method::PUT, &path, body).await;
    (reply.status.as_u16(), reply.text)
}

#[tokio::test]
async fn port_and_host_belong_to_one_service() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    assert_eq!(put(&rig, "db", by_port("c-demo", 20_000)).await.0, 201);
    assert_eq!(put(&rig, "db", by_port("c-demo", 20_000)).await.0, 200);
    let (status, text) = put(&rig, "other", by_port("c-demo", 20_000)).await;
    assert!(status == 409 && text.contains("FL-1426"), "{text}");
    assert_eq!(put(&rig, "other", by_port("c-demo", 20_001)).await.0, 201);
    let host = "shop.apps.example";
    assert_eq!(put(&rig, "web", by_host("http", host)).await.0, 201);
    let (status, text) = put(&rig, "tls", by_host("https", host)).await;
    assert!(status == 409 && text.contains("FL-1426"), "{text}");
}

#[tokio::test]
async fn invalid_services_are_refused_with_the_field() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let changed = |field: &str, value: Value| {
        let mut body = by_port("c-demo", 20_000);
        body[field] = value;
        body
    };
    for (body, status, part) in [
        (changed("target", json!("DB.shop:5432")), 400, "target"),
        (changed("target", json!("db.shop")), 400, "target"),
        (changed("from", json!([])), 400, "from"),
        (changed("from", json!(["everyone"])), 400, "from"),
        (changed("callers", json!(true)), 400, "callers"),
        (changed("host", json!("a.apps.example")), 400, "port"),
        (changed("port", json!(80)), 409, "FL-1425"),
        (changed("cluster", json!("c-none")), 404, "FL-1301"),
        (by_host("http", "shop.example"), 400, "below apps.example"),
        (by_host("http", "apps.example"), 400, "below apps.example"),
        (by_host("https", "hub.example"), 400, "the hub itself"),
        (
            by_host("https", "c-demo.clusters.hub.example"),
            400,
            "the hub itself",
        ),
    ] {
        let (answered, text) = put(&rig, "db", body.clone()).await;
        assert!(answered == status && text.contains(part), "{body}: {text}");
    }
}

#[tokio::test]
async fn services_are_visible_with_their_cluster_and_deleted_with_it() {
    let rig = Rig::new().await;
    for tenant in ["acme", "other"] {
        rig.tenant(tenant).await;
    }
    rig.cluster("demo", "acme").await;
    assert_eq!(put(&rig, "db", by_port("c-demo", 20_000)).await.0, 201);
    let names = async |tenant: &str| {
        let who = caller(Role::Viewer, Some(tenant));
        let list = rig.get(&who, "/v1/services").await;
        let one = rig.get(&who, "/v1/services/db").await;
        (list.text.contains("\"db\""), one.status.as_u16())
    };
    assert_eq!(names("t-acme").await, (true, 200));
    assert_eq!(names("t-other").await, (false, 404));
    // An admin of another tenant learns nothing about it, and cannot take its name.
    let other = caller(Role::Admin, Some("t-other"));
    let deleted = rig.delete(&other, "/v1/services/db").await;
    assert_eq!(deleted.status, 404);
    rig.cluster("theirs", "other").await;
    let body = by_port("c-theirs", 20_001);
    let taken = rig.call(&other, Method::PUT, "/v1/services/db", body).await;
    assert_eq!(taken.status, 409);

    let seam = rig.control.seam();
    let services = seam.modules.iter().find_map(|it| it.named_services());
    let services = services.unwrap();
    assert_eq!(services.list().len(), 1);
    let deleted = rig.delete(&admin(), "/clusters/c-demo").await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    assert_eq!(names("t-acme").await, (false, 404));
    assert!(services.list().is_empty());
}
