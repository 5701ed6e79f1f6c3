//! Features beyond Lieutenant, through the real front.

use fairlead_api::resources::Role;
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn tenants_never_become_their_own_ancestors() {
    let rig = Rig::new().await;
    for id in ["t-a", "t-b"] {
        rig.tenant(id).await;
    }
    rig.patch("/tenants/t-b", &json!({ "tenantRef": "t-a" }))
        .await
        .good();
    for parent in ["t-b", "t-a"] {
        rig.patch("/tenants/t-a", &json!({ "tenantRef": parent }))
            .await
            .is(400, "tenantRef");
    }
    rig.patch("/tenants/t-a", &json!({ "tenantRef": "t-none" }))
        .await
        .is(400, "tenantRef");
}

#[tokio::test]
async fn quota_of_a_tenant_refuses_with_a_reason_on_lieutenants_paths() {
    let rig = Rig::new().await;
    rig.demo().await;
    let quotas = json!({ "quotas": { "clusters": 1, "tokens": 5 } });
    let shown = rig.patch("/tenants/t-acme", &quotas).await.good();
    assert_eq!(shown["quotas"], quotas["quotas"]);
    let second = json!({ "id": "two", "tenant": "t-acme" }).to_string();
    for (method, path) in [
        ("POST", "/clusters"),
        ("PUT", "/clusters/two"),
        ("PUT", "/clusters/two?dryRun=true"),
    ] {
        let refused = rig.call(method, path, &second).await;
        refused.is(403, "t-acme may have 1 clusters");
        assert_eq!(refused.json()["code"], "FL-4140");
    }
    // Lieutenant's clients know no quotas, so their PUT keeps them.
    let put = json!({ "gitRepo": { "type": "unmanaged" } }).to_string();
    let kept = rig.call("PUT", "/tenants/t-acme", &put).await.good();
    assert_eq!(kept["quotas"], quotas["quotas"]);
    let owner = rig.token(Role::Tenant, Some("t-acme"), None).await;
    let more = json!({ "quotas": { "clusters": 9 } }).to_string();
    let raised = rig.as_who(&owner, "PATCH", "/tenants/t-acme", &more).await;
    assert_eq!(raised.status, 403, "{raised:?}");
    rig.patch("/tenants/t-acme", &json!({ "quotas": { "pods": 1 } }))
        .await
        .is(400, "quotas");
    let gone = json!({ "quotas": { "clusters": null, "tokens": null } });
    let shown = rig.patch("/tenants/t-acme", &gone).await.good();
    assert_eq!(shown.get("quotas"), None);
    rig.call("POST", "/clusters", &second).await.good();
}

#[tokio::test]
async fn lists_are_filtered_by_facts_selectors_status_and_text() {
    let rig = Rig::new().await;
    rig.demo().await;
    let body = json!({
        "id": "two", "tenant": "t-acme", "displayName": "Second",
        "facts": { "cloud": "gcp" }, "annotations": { "syn.tools/sla": "gold" },
        "dynamicFacts": { "nodes": 3 },
    });
    rig.call("POST", "/clusters", &body.to_string())
        .await
        .good();
    for (query, found) in [
        ("fact=cloud:aws", "c-demo"),
        ("fact=nodes:3", "c-two"),
        ("fact=cloud&fact=distribution", "c-demo"),
        ("fact=cloud:azure", ""),
        ("selector=cloud%20in%20(aws,azure)", "c-demo"),
        ("selector=syn.tools/sla%3Dgold,!distribution", "c-two"),
        ("status=never&text=sec", "c-two"),
        ("status=Connected", ""),
        ("text=C-DEMO", "c-demo"),
    ] {
        let list = rig.get(&format!("/clusters?{query}")).await.good();
        let ids: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids.join(" "), found, "{query}");
    }
    rig.get("/clusters?status=x").await.is(400, "status");
    rig.get("/clusters?selector=a%20b")
        .await
        .is(400, "selector");
}

#[tokio::test]
async fn concurrent_changes_are_not_lost() {
    let rig = Rig::new().await;
    rig.demo().await;
    let read = rig.get("/clusters/c-demo").await;
    let token = rig.token(Role::Admin, None, None).await;
    let bearer = format!("Bearer {token}");
    let headers = [
        ("if-match", read.header("etag")),
        ("authorization", bearer.as_str()),
    ];
    let patch = |text: &str| json!({ "displayName": text }).to_string();
    let first = rig
        .send("PATCH", "/clusters/c-demo", &headers, &patch("one"))
        .await;
    assert_eq!(first.status, 200);
    let second = rig
        .send("PATCH", "/clusters/c-demo", &headers, &patch("two"))
        .await;
    second.is(412, "changed");
    assert_eq!(
        rig.get("/clusters/c-demo").await.good()["displayName"],
        "one"
    );
    assert_eq!(
        rig.send("DELETE", "/clusters/c-demo", &headers, "")
            .await
            .status,
        412
    );
}

#[tokio::test]
async fn a_template_fills_what_a_cluster_leaves_empty() {
    let rig = Rig::new().await;
    rig.demo().await;
    let template = json!({ "clusterTemplate": {
        "facts": { "cloud": "template", "region": "eu" }, "deleteProtection": true,
    }});
    rig.patch("/tenants/t-acme", &template).await.good();
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(shown["facts"]["cloud"], "aws");
    assert_eq!(shown["facts"]["region"], "eu");
    assert_eq!(shown["deleteProtection"], true);
    let effective = rig.get("/v1/clusters/c-demo/effective").await.good();
    assert_eq!(
        effective["facts.region"],
        json!({ "value": "eu", "from": "template" })
    );
    assert_eq!(
        effective["facts.cloud"],
        json!({ "value": "aws", "from": "cluster" })
    );
}

#[tokio::test]
async fn an_admin_moves_a_cluster_and_its_agent_enrols_anew() {
    let rig = Rig::new().await;
    rig.demo().await;
    rig.tenant("t-other").await;
    let path = "/v1/clusters/c-demo/tenant";
    let moved = rig
        .call("POST", path, r#"{"tenant":"t-other"}"#)
        .await
        .good();
    assert_eq!(
        (&moved["id"], &moved["tenant"]),
        (&json!("c-demo"), &json!("t-other"))
    );
    assert!(moved["join"].as_str().unwrap().starts_with("fl1."));
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(
        (&shown["tenant"], &shown["displayName"]),
        (&json!("t-other"), &json!("Demo"))
    );
    let own = rig.token(Role::Admin, Some("t-other"), None).await;
    let back = rig
        .as_who(&own, "POST", path, r#"{"tenant":"t-acme"}"#)
        .await;
    assert_eq!(back.status, 403, "not for an admin of one tenant");
}

#[tokio::test]
async fn changes_are_reported_since_a_revision() {
    let rig = Rig::new().await;
    rig.demo().await;
    let list = rig.get("/clusters").await;
    let since = list.header("fairlead-revision").to_owned();
    let none = rig.get(&format!("/v1/changes?since={since}")).await.good();
    assert_eq!(none["items"], json!([]));
    let path = format!("/v1/changes?since={since}&wait=20");
    let renamed = json!({ "displayName": "x" });
    let (told, _) = tokio::join!(rig.get(&path), rig.patch("/clusters/c-demo", &renamed));
    let told = told.good();
    assert_eq!(told["items"][0]["id"], "c-demo");
    assert_eq!(told["items"][0]["operation"], "updated");
    let audit = rig.get("/v1/audit?cluster=c-demo&limit=1").await.good();
    assert_eq!(audit["items"][0]["after"]["displayName"], "x");
    assert_eq!(audit["items"][0]["actor"], "a-admin");
    for never in ["99999", "9223372036854775808", "18446744073709551615"] {
        let path = format!("/v1/changes?since={never}");
        rig.get(&path).await.is(410, "has not reached");
    }
}

#[tokio::test]
async fn streams_do_not_delay_the_shutdown() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Viewer, None, None).await;
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "text/event-stream"),
    ];
    let drained = async {
        rig.until_open(2.0).await;
        rig.drain();
    };
    let polling = rig.get("/v1/changes?wait=25");
    let streaming = rig.send("GET", "/v1/changes?since=1", &headers, "");
    let (events, polled, ()) = tokio::join!(streaming, polling, drained);
    assert_eq!(events.header("content-type"), "text/event-stream");
    assert!(
        events.text.contains("event: cluster\ndata: {"),
        "{}",
        events.text
    );
    assert!(events.text.starts_with("id: "), "{}", events.text);
    assert!([200, 503].contains(&polled.status), "{polled:?}");
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let rig = Rig::new().await;
    for path in ["/v1/changes", "/v1/status"] {
        let token = rig.token(Role::Viewer, None, None).await;
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("accept", "text/event-stream"),
        ];
        let revoked = async {
            rig.until_open(1.0).await;
            let id = rig.token_id("a-viewer").await;
            let path = format!("/v1/tokens/{id}");
            assert_eq!(rig.call("DELETE", &path, "").await.status, 204);
        };
        // The sender waits for the end of the stream, not for ten minutes.
        let (stream, ()) = tokio::join!(rig.send("GET", path, &headers, ""), revoked);
        assert_eq!(stream.status, 200, "{path}");
    }
}

#[tokio::test]
async fn order_to_end_all_requests_of_its_author_gets_its_answer() {
    let rig = Rig::new().await;
    let token = rig.token(Role::Admin, None, None).await;
    let end = "/v1/requests?caller=a-admin&reason=maintenance";
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "text/event-stream"),
    ];
    let stream = rig.send("GET", "/v1/status", &headers, "");
    let order = async {
        // An open request is listed once its caller is known.
        let listed = "/v1/requests?caller=a-admin&kind=watch";
        let is_listed = async || {
            let list = rig.as_who(&token, "GET", listed, "").await.good();
            list["items"].as_array().is_some_and(|it| !it.is_empty())
        };
        while !is_listed().await {
            tokio::task::yield_now().await;
        }
        rig.as_who(&token, "DELETE", end, "").await
    };
    // The sender waits for the end of the stream.
    let (stream, order) = tokio::join!(stream, order);
    assert_eq!(order.good(), json!({ "ended": 1, "elsewhere": 0 }));
    assert_eq!(stream.status, 200, "{stream:?}");
}

#[tokio::test]
async fn a_poll_ends_when_its_token_is_revoked() {
    let rig = Rig::new().await;
    let now = rig.get("/v1/changes").await.good()["revision"].clone();
    let cursor = rig.get("/v1/status").await.good()["cursor"].clone();
    for path in [
        format!("/v1/changes?since={now}&wait=25"),
        format!("/v1/status?since={}&wait=25", cursor.as_str().unwrap()),
    ] {
        let asked = json!({ "name": "poller", "role": "viewer", "tenant": "t-default" });
        let made = rig.call("POST", "/v1/tokens", &asked.to_string()).await;
        let made = made.good();
        let revoked = async {
            rig.until_open(1.0).await;
            let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
            assert_eq!(rig.call("DELETE", &path, "").await.status, 204);
        };
        let token = made["token"].as_str().unwrap();
        let (poll, ()) = tokio::join!(rig.as_who(token, "GET", &path, ""), revoked);
        assert_eq!(poll.status, 403, "{poll:?}");
        assert!(
            poll.reason().contains("token was deleted or revoked"),
            "{poll:?}"
        );
    }
}

#[tokio::test]
async fn wrong_tokens_cost_no_shared_resource() {
    let rig = Rig::new().await;
    rig.demo().await;
    let start = (rig.writer_turns().await, rig.database_reads());
    let good = rig.bearer(Role::Viewer).await;
    let made = rig.writer_turns().await;
    assert_eq!(made, start.0 + 1.0, "the token itself");
    let mut refused = 0;
    for n in 0..1000 {
        let (path, sent) = match n % 3 {
            0 => ("/clusters".to_owned(), format!("Bearer flt_{n:043}")),
            1 => ("/clusters".to_owned(), format!("Bearer {n}.e30.e30")),
            _ => (
                format!("/install/steward.json?token=c-demo.1.{n}.x"),
                String::new(),
            ),
        };
        let headers = [("authorization", sent.as_str())];
        let sent = if sent.is_empty() { &[][..] } else { &headers };
        let wrong = rig.send("GET", &path, sent, "").await;
        refused += usize::from([401, 429].contains(&wrong.status));
        if n % 100 == 0 {
            let headers = [("authorization", good.as_str())];
            assert_eq!(rig.send("GET", "/clusters", &headers, "").await.status, 200);
        }
    }
    assert_eq!(refused, 1000);
    let end = (rig.writer_turns().await, rig.database_reads());
    assert_eq!(end, (made, start.1));
}
