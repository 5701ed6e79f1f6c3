//! Bootstrap tokens.

use serde_json::{Value, json};

use crate::rig::{Rig, install_path};

#[tokio::test]
async fn a_new_cluster_has_its_install_url_at_once() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    for (method, path) in [("POST", "/clusters"), ("PUT", "/clusters/c-put")] {
        let made = rig.call(method, path, r#"{"tenant":"t-acme"}"#).await;
        assert_eq!(made.status, 201, "{method}");
        let list = rig.send("GET", &install_path(&made.json()), &[], "").await;
        assert_eq!(
            list.good()["kind"],
            "List",
            "{method}: and it is good at once"
        );
    }
}

#[tokio::test]
async fn of_two_hundred_callers_with_one_token_one_wins() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let path = install_path(&made);
    let coming = (0..200).map(|_| rig.send("GET", &path, &[], ""));
    let replies = futures_util::future::join_all(coming).await;
    let won = replies.iter().filter(|it| it.status == 200).count();
    let lost = replies.iter().filter(|it| it.status == 401).count();
    assert_eq!((won, lost), (1, 199));
}

#[tokio::test]
async fn a_bootstrap_token_expires() {
    for ttl in [
        fairlead_control::BOOTSTRAP_TTL,
        std::time::Duration::from_secs(60),
    ] {
        let rig = Rig::with(|config| config.registry.bootstrap_ttl = ttl).await;
        let made = rig.demo().await;
        let shown = async || rig.get("/clusters/c-demo").await.good()["installURL"].clone();
        rig.advance(ttl - time::Duration::SECOND);
        assert_eq!(shown().await, made["installURL"]);
        rig.advance(time::Duration::SECOND);
        assert_eq!(shown().await, Value::Null);
        let late = rig.send("GET", &install_path(&made), &[], "").await;
        late.is(401, "Token already used or expired");
    }
    assert_eq!(fairlead_control::BOOTSTRAP_TTL, time::Duration::minutes(30));
}

#[tokio::test]
async fn a_bootstrap_token_can_be_renewed_and_revoked() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let again = "/v1/clusters/c-demo/bootstrap-token";
    let status = async |of: &Value| rig.send("GET", &install_path(of), &[], "").await.status;
    let second = rig.call("POST", again, "{}").await.good();
    assert_eq!(second["id"], "c-demo", "a new token, the same cluster");
    assert_eq!(status(&made).await, 401, "the older one dies");
    assert_eq!(status(&second).await, 200);
    assert_eq!(rig.get(again).await.status, 404, "it is spent");
    let third = rig.call("POST", again, "{}").await.good();
    assert_eq!(
        rig.get(again).await.good()["installURL"],
        third["installURL"]
    );
    assert_eq!(rig.call("DELETE", again, "").await.status, 204);
    assert_eq!(status(&third).await, 401);
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(
        (&shown["displayName"], shown.get("installURL")),
        (&json!("Demo"), None)
    );
}

#[tokio::test]
async fn the_token_is_accepted_in_a_header_too() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let path = install_path(&made);
    let (path, token) = path.split_once("?token=").unwrap();
    let bearer = format!("Bearer {token}");
    let list = rig
        .send("GET", path, &[("authorization", &bearer)], "")
        .await
        .good();
    assert_eq!(list["kind"], "List");
}

#[tokio::test]
async fn a_wrong_bootstrap_token_always_costs_the_same() {
    let rig = Rig::new().await;
    let path = install_path(&rig.demo().await);
    let turns = rig.writer_turns().await;
    let (says, hash) = path.rsplit_once('.').unwrap();
    let mut told = Vec::new();
    for wrong in [
        "/install/steward.json?token=nonsense".to_owned(),
        path.replace("c-demo", "c-none"),
        path.replace(".1.", ".2."),
        format!("{says}.{}", "A".repeat(hash.len())),
        format!("{path}A"),
    ] {
        for wrong in [wrong.replace("steward.json", "agent.yaml"), wrong] {
            let reply = rig.send("GET", &wrong, &[], "").await;
            assert_eq!(reply.header("fairlead-code"), "FL-2101", "{wrong}");
            told.push((wrong.contains("steward"), reply.text));
        }
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 2, "one answer at each of both paths: {told:?}");
    assert_eq!(rig.writer_turns().await, turns);
    assert_eq!(rig.send("GET", &path, &[], "").await.status, 200);
    assert_eq!(rig.writer_turns().await, turns + 1.0);
}

#[tokio::test]
async fn many_wrong_bootstrap_tokens_are_rate_limited_and_a_right_one_is_accepted() {
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
    assert_eq!(
        rig.send("GET", &install_path(&made), &[], "").await.status,
        200
    );
}
