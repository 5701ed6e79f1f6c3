//! Catalogs: versions, ETags, access limited to the own cluster.

use fairlead_api::{Code, catalog::CATALOG_PATH, resources::Role};
use fairlead_seam::AgentPeer;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

use crate::rig::{Reply, Rig, admin, caller, peer};

const PATH: &str = "/v1/clusters/c-demo/catalog";

fn object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn pull(rig: &Rig, peer: &AgentPeer, query: &str, known: Option<&str>) -> Reply {
    let mut request = Request::get(format!("{CATALOG_PATH}{query}"));
    if let Some(tag) = known {
        request = request.header(header::IF_NONE_MATCH, tag);
    }
    rig.agent(peer, request.body(String::new()).unwrap()).await
}

#[tokio::test]
async fn a_catalog_changes_from_the_version_that_was_read() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let empty = rig.get(&admin(), PATH).await;
    assert_eq!(empty.good(), json!({ "version": 0, "objects": [] }));
    assert_eq!(empty.headers[header::ETAG], "\"0\"");
    let first = json!({ "version": 0, "objects": [object("a")] });
    let put = rig
        .call(&admin(), Method::PUT, PATH, first.clone())
        .await
        .good();
    assert_eq!(put["version"], 1);
    let stale = rig.call(&admin(), Method::PUT, PATH, first).await;
    assert_eq!(stale.code(), Code::Conflict);
    assert_eq!(
        rig.get(&caller(Role::Operator, None), PATH).await.good(),
        put
    );
    let viewer = rig.get(&caller(Role::Viewer, None), PATH).await;
    assert_eq!(viewer.code(), Code::NotAllowed, "it may hold Secrets");
    let nowhere = rig.get(&admin(), "/v1/clusters/c-nowhere/catalog").await;
    assert_eq!(nowhere.code(), Code::NoSuchCluster);
}

#[tokio::test]
async fn invalid_objects_are_rejected_by_index() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    for (bad, says) in [
        (json!("text"), "objects[1] has no apiVersion"),
        (json!({ "apiVersion": "v1" }), "objects[1] has no kind"),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap" }),
            "objects[1] has no metadata.name",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "", "metadata": { "name": "x" } }),
            "objects[1] has no kind",
        ),
    ] {
        let body = json!({ "version": 0, "objects": [object("a"), bad] });
        let reply = rig.call(&admin(), Method::PUT, PATH, body).await;
        assert_eq!(reply.code(), Code::Invalid);
        assert!(reply.text.contains(says), "{}", reply.text);
    }
    let unknown = json!({ "version": 0, "objects": [], "namespace": "x" });
    let reply = rig.call(&admin(), Method::PUT, PATH, unknown).await;
    assert!(
        reply.text.contains("unknown field `namespace`"),
        "{}",
        reply.text
    );
    let large = json!({ "version": 0, "objects": [object(&"x".repeat(1_000_000))] });
    rig.call(&admin(), Method::PUT, PATH, large).await.good();
    let larger = json!({ "version": 1, "objects": [object(&"x".repeat(5_000_000))] });
    let reply = rig.call(&admin(), Method::PUT, PATH, larger).await;
    assert_eq!(reply.code(), Code::BadRequest);
}

#[tokio::test]
async fn an_agent_pulls_its_own_catalog_when_changed() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    rig.cluster("other", "t-default").await;
    let (_, identity) = rig.enrolled(&join).await;
    let agent = peer(&identity);
    let body = json!({ "version": 0, "objects": [object("mine")] });
    rig.call(&admin(), Method::PUT, PATH, body).await.good();

    let reply = pull(&rig, &agent, "", None).await;
    assert_eq!(reply.good()["objects"][0]["metadata"]["name"], "mine");
    assert_eq!(reply.headers[header::ETAG], "\"1\"");
    for known in ["\"1\"", "W/\"1\"", "\"0\", \"1\"", "*"] {
        let same = pull(&rig, &agent, "", Some(known)).await;
        assert_eq!(same.status, StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(same.headers[header::ETAG], "\"1\"");
        assert!(same.text.is_empty());
    }
    for known in ["\"0\"", "1", "\"11\"", ""] {
        let changed = pull(&rig, &agent, "", Some(known)).await;
        assert_eq!(changed.status, StatusCode::OK, "{known}");
    }
    assert!(
        pull(&rig, &agent, "?cluster=c-demo", None)
            .await
            .status
            .is_success()
    );
    let as_other = pull(&rig, &agent, "?cluster=c-other", None).await;
    assert_eq!(as_other.code(), Code::ForeignCluster);
    let as_nowhere = pull(&rig, &agent, "?cluster=c-nowhere", None).await;
    assert_eq!(as_nowhere.text, as_other.text);
    let nobody = pull(&rig, &AgentPeer::Anonymous, "", None).await;
    assert_eq!(nobody.code(), Code::EnrolOnly);
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    let gone = pull(&rig, &agent, "", None).await;
    assert_eq!(gone.code(), Code::ClusterDeleted);
}
