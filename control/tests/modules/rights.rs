//! Who may do what, and that what one may not see looks like what is not there.

use fairlead_api::{Code, resources::Role};
use http::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, admin, caller};

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn tenants_are_kept_apart() {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.tenant("b").await;
    rig.cluster("of-a", "a").await;
    rig.cluster("of-b", "b").await;
    let token = |tenant: &str| json!({ "name": "x", "role": "viewer", "tenant": tenant });
    let of_b = rig
        .post(&admin(), "/api/v1/tokens", token("t-b"))
        .await
        .good();
    let of_b = format!("/api/v1/tokens/{}", of_b["id"].as_str().unwrap());
    let catalog = json!({ "version": 0, "objects": [] });
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    for role in [Role::Viewer, Role::Operator, Role::Admin] {
        let who = caller(role, Some("t-a"));
        let of = |code_of_admin| {
            if role == Role::Admin {
                code_of_admin
            } else {
                Code::NotAllowed
            }
        };
        let table = [
            (
                &get,
                "/api/v1/clusters/c-of-b",
                Value::Null,
                Code::NoSuchCluster,
            ),
            (
                &delete,
                "/api/v1/clusters/c-of-b",
                Value::Null,
                Code::NoSuchCluster,
            ),
            (
                &post,
                "/api/v1/clusters/c-of-b/join-token",
                Value::Null,
                Code::NoSuchCluster,
            ),
            (
                &get,
                "/api/v1/clusters/c-of-b/join-token",
                Value::Null,
                Code::NoSuchCluster,
            ),
            (
                &get,
                "/api/v1/clusters/c-of-b/catalog",
                Value::Null,
                Code::NoSuchCluster,
            ),
            (
                &put,
                "/api/v1/clusters/c-of-b/catalog",
                catalog.clone(),
                Code::NoSuchCluster,
            ),
            (
                &post,
                "/api/v1/clusters",
                json!({ "tenant": "b" }),
                of(Code::NotFound),
            ),
            (&get, "/api/v1/tenants/t-b", Value::Null, Code::NotFound),
            (
                &delete,
                "/api/v1/tenants/t-b",
                Value::Null,
                Code::NotAllowed,
            ),
            (&post, "/api/v1/tenants", json!({}), Code::NotAllowed),
            (&post, "/api/v1/tokens", token("t-b"), of(Code::NotFound)),
            (
                &post,
                "/api/v1/tokens",
                json!({ "name": "x", "role": "viewer" }),
                Code::NotAllowed,
            ),
            (&delete, of_b.as_str(), Value::Null, of(Code::NotFound)),
        ];
        for (method, path, body, code) in table {
            let reply = rig.call(&who, method.clone(), path, body.clone()).await;
            assert_eq!(reply.code(), code, "{role}: {method} {path}");
            // What is not seen and what is not there must not be told apart, to the byte.
            let nowhere = path.replace("of-b", "nowhere").replace("t-b", "t-nowhere");
            let body = body
                .to_string()
                .replace("t-b", "t-nowhere")
                .replace("\"b\"", "\"nowhere\"");
            let body = if body == "null" {
                Value::Null
            } else {
                body.parse().unwrap()
            };
            let missing = rig.call(&who, method.clone(), &nowhere, body).await;
            assert_eq!(missing.text, reply.text, "{role}: {method} {path}");
        }
        for (path, own) in [("/api/v1/clusters", "c-of-a"), ("/api/v1/tenants", "t-a")] {
            let list = rig.get(&who, path).await.good();
            assert_eq!(list["items"].as_array().unwrap().len(), 1, "{role} {path}");
            assert_eq!(list["items"][0]["id"], own, "{role} {path}");
        }
        let seam = rig.control.seam();
        let ask = async |id: &str| seam.authorizer.authorize(&who, &id.parse().unwrap()).await;
        let (other, nowhere) = (
            ask("c-of-b").await.unwrap_err(),
            ask("c-nowhere").await.unwrap_err(),
        );
        assert_eq!((other.code, &other), (Code::NoSuchCluster, &nowhere));
        let grant = ask("c-of-a").await.unwrap();
        assert_eq!((grant.role, grant.tenant.as_str()), (role, "t-a"));
    }
    let own = caller(Role::Admin, Some("t-a"));
    rig.post(&own, "/api/v1/tokens", token("t-a")).await.good();
    assert_eq!(
        rig.get(&own, "/api/v1/tokens").await.good()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    rig.delete(&own, "/api/v1/clusters/c-of-a").await.good();
    assert!(
        rig.get(&admin(), "/api/v1/clusters/c-of-b")
            .await
            .status
            .is_success()
    );
}

#[tokio::test]
async fn operators_and_viewers_read_and_change_nothing() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    for who in [caller(Role::Operator, None), caller(Role::Viewer, None)] {
        rig.get(&who, "/api/v1/clusters/c-demo").await.good();
        for (method, path, body) in [
            (Method::POST, "/api/v1/clusters", json!({})),
            (Method::DELETE, "/api/v1/clusters/c-demo", Value::Null),
            (
                Method::POST,
                "/api/v1/clusters/c-demo/join-token",
                Value::Null,
            ),
            (
                Method::PUT,
                "/api/v1/clusters/c-demo/catalog",
                json!({ "version": 0, "objects": [] }),
            ),
            (Method::POST, "/api/v1/tenants", json!({})),
            (Method::GET, "/api/v1/tokens", Value::Null),
            (
                Method::POST,
                "/api/v1/tokens",
                json!({ "name": "x", "role": "viewer" }),
            ),
            (Method::DELETE, "/api/v1/tokens/k-1", Value::Null),
        ] {
            let reply = rig.call(&who, method.clone(), path, body).await;
            assert_eq!(
                reply.code(),
                Code::NotAllowed,
                "{}: {method} {path}",
                who.name
            );
        }
    }
}
