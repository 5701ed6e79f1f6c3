//! From a cluster's registration to the manifests of its agent.

use serde_json::{Value, json};

use crate::rig::Rig;

fn path(cluster: &Value) -> String {
    let url = cluster["installURL"].as_str().unwrap();
    url.strip_prefix("https://hub.example").unwrap().to_owned()
}

#[tokio::test]
async fn the_install_url_is_there_at_once_and_while_the_token_is_valid() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let url = made["installURL"].as_str().unwrap();
    assert!(
        url.starts_with("https://hub.example/install/steward.json?token="),
        "{url}"
    );
    assert_eq!(rig.get("/clusters/c-demo").await.good()["installURL"], url);
    assert_eq!(rig.get("/clusters").await.good()[0]["installURL"], url);
    let patched = rig
        .patch("/clusters/c-demo", &json!({ "facts": {} }))
        .await
        .good();
    assert_eq!(patched["installURL"], url);
    rig.advance(time::Duration::minutes(30));
    assert!(
        rig.get("/clusters/c-demo")
            .await
            .good()
            .get("installURL")
            .is_none()
    );
}

#[tokio::test]
async fn the_manifests_are_six_in_their_order() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let list = rig.send("GET", &path(&made), &[], "").await;
    assert_eq!(list.header("cache-control"), "no-store");
    let list = list.good();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("v1"), &json!("List"))
    );
    let items = list["items"].as_array().unwrap();
    let names = items.iter().map(|it| {
        let name = it["metadata"]["name"].as_str().unwrap();
        format!("{} {name}", it["kind"].as_str().unwrap())
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "Namespace syn",
            "ClusterRole syn-admin",
            "ClusterRoleBinding syn-steward",
            "ServiceAccount steward",
            "Deployment steward",
            "Secret steward",
        ]
    );
    let container = &items[4]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "steward:1");
    let env = container["env"].as_array().unwrap();
    let names: Vec<_> = env.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "STEWARD_API",
            "STEWARD_CLUSTER_ID",
            "STEWARD_TOKEN",
            "STEWARD_NAMESPACE"
        ]
    );
    assert_eq!(env[0]["value"], "https://hub.example");
    assert_eq!(env[1]["value"], "c-demo");
    assert_eq!(
        env[2]["valueFrom"]["secretKeyRef"],
        json!({ "name": "steward", "key": "token" })
    );
}

#[tokio::test]
async fn stewards_token_is_good_for_its_cluster_and_nothing_else() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let list = rig.send("GET", &path(&made), &[], "").await.good();
    let token = list["items"][5]["stringData"]["token"].as_str().unwrap();
    let own = rig
        .as_who(
            token,
            "PATCH",
            "/clusters/c-demo",
            r#"{"facts":{"cloud":"x"}}"#,
        )
        .await;
    assert_eq!(own.good()["facts"]["cloud"], "x");
    rig.call("POST", "/clusters", r#"{"id":"other","tenant":"t-acme"}"#)
        .await
        .good();
    for (method, path, body, status) in [
        (
            "PATCH",
            "/clusters/c-other",
            r#"{"facts":{"cloud":"x"}}"#,
            404,
        ),
        ("GET", "/clusters/c-other", "", 404),
        (
            "PATCH",
            "/clusters/c-demo",
            r#"{"gitRepo":{"url":"ssh://g@e/a/b"}}"#,
            403,
        ),
        ("PATCH", "/clusters/c-demo", r#"{"displayName":"x"}"#, 403),
        ("DELETE", "/clusters/c-demo", "", 403),
        ("POST", "/clusters/c-demo/compileMeta", "{}", 403),
        ("GET", "/k8s/clusters/c-demo/api", "", 403),
        ("GET", "/k8s/clusters/c-other/api", "", 404),
    ] {
        let reply = rig.as_who(token, method, path, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
    }
    let mine = rig.as_who(token, "GET", "/clusters", "").await.good();
    assert_eq!(mine.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_bootstrap_token_is_refused_in_lieutenants_words() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    for none in ["/install/steward.json", "/install/steward.json?token="] {
        assert_eq!(rig.send("GET", none, &[], "").await.status, 400);
    }
    let says = async |path: &str| {
        let reply = rig.send("GET", path, &[], "").await;
        (reply.status, reply.reason())
    };
    let invalid = (401, "Invalid token".to_owned());
    assert_eq!(says("/install/steward.json?token=nonsense").await, invalid);
    let forged = path(&made).replace("c-demo", "c-none");
    assert_eq!(says(&forged).await, invalid);
    assert_eq!(rig.send("GET", &path(&made), &[], "").await.status, 200);
    let used = (401, "Token already used or expired".to_owned());
    assert_eq!(says(&path(&made)).await, used);
    assert!(
        rig.get("/clusters/c-demo")
            .await
            .good()
            .get("installURL")
            .is_none()
    );
    let again = "/v1/clusters/c-demo/bootstrap-token";
    let renewed = rig.call("POST", again, "{}").await.good();
    assert_eq!(renewed["id"], "c-demo", "a new token, the same cluster");
    assert_eq!(says(&path(&made)).await, invalid);
    rig.advance(time::Duration::minutes(30));
    assert_eq!(says(&path(&renewed)).await, used);
    let taken_back = rig.call("POST", again, "{}").await.good();
    assert_eq!(rig.call("DELETE", again, "").await.status, 204);
    assert_eq!(says(&path(&taken_back)).await, used);
}

#[tokio::test]
async fn of_two_hundred_who_come_with_one_token_one_wins() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let path = path(&made);
    let coming = (0..200).map(|_| rig.send("GET", &path, &[], ""));
    let replies = futures_util::future::join_all(coming).await;
    let won = replies.iter().filter(|it| it.status == 200).count();
    let lost = replies.iter().filter(|it| it.status == 401).count();
    assert_eq!((won, lost), (1, 199));
}

#[tokio::test]
async fn the_token_is_accepted_in_a_header_too() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let path = path(&made);
    let (path, token) = path.split_once("?token=").unwrap();
    let bearer = format!("Bearer {token}");
    let list = rig
        .send("GET", path, &[("authorization", &bearer)], "")
        .await
        .good();
    assert_eq!(list["kind"], "List");
}

#[tokio::test]
async fn a_trusted_proxy_says_where_the_api_is() {
    let rig = Rig::with(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let rig = rig.await;
    let made = rig.demo().await;
    let headers = [("host", "syn.example"), ("x-forwarded-proto", "https")];
    let list = rig.send("GET", &path(&made), &headers, "").await.good();
    let env = &list["items"][4]["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0]["value"], "https://syn.example");
}

#[tokio::test]
async fn nobody_else_says_where_the_api_is() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let headers = [("host", "evil.example"), ("x-forwarded-proto", "http")];
    let list = rig.send("GET", &path(&made), &headers, "").await.good();
    let env = &list["items"][4]["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0]["value"], "https://hub.example");
}

#[tokio::test]
async fn many_wrong_bootstrap_tokens_are_slowed_down_and_a_right_one_is_let_in() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let mut last = 0;
    for _ in 0..50 {
        last = rig
            .send("GET", "/install/steward.json?token=x", &[], "")
            .await
            .status;
    }
    assert_eq!(last, 429);
    assert_eq!(rig.send("GET", &path(&made), &[], "").await.status, 200);
}
