//! What is better here than there.

use fairlead_api::resources::Role;
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn a_wrong_method_is_405_with_the_right_ones() {
    let rig = Rig::new().await;
    for (method, path, allow) in [
        ("DELETE", "/clusters", "GET,HEAD,POST"),
        ("POST", "/clusters/c-x", "GET,HEAD,PUT,PATCH,DELETE"),
        ("GET", "/clusters/c-x/compileMeta", "POST"),
        ("POST", "/install/steward.json", "GET,HEAD"),
        ("POST", "/", "GET,HEAD"),
    ] {
        let reply = rig.call(method, path, "").await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, allow),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn nothing_that_is_sent_gives_500() {
    let rig = Rig::new().await;
    rig.demo().await;
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    let odd = [
        "",
        "null",
        "0",
        "\"\"",
        "[]",
        "{}",
        "[{}]",
        "{\"facts\":null}",
        "{\"facts\":{\"\":\"\"}}",
        "{\"displayName\":\"\\u0000\"}",
        "{\"displayName\":\"\\ud800\"}",
        "{\"gitRepo\":{\"url\":\"\\u202e\"}}",
        "{\"compileMeta\":{\"lastCompile\":\"9999-99-99\"}}",
        "{\"tenantRef\":\"../..\"}",
        "{\"id\":{},\"tenant\":[]}",
        "{\"dynamicFacts\":{\"x\":1e400}}",
        "{\"clusterTemplate\":{\"gitRepo\":7}}",
        &deep,
    ];
    for path in [
        "/clusters",
        "/clusters/c-demo",
        "/tenants",
        "/tenants/t-acme",
        "/clusters/c-demo/compileMeta",
        "/clusters/%00",
        "/tenants/%c3%28",
    ] {
        for method in ["POST", "PUT", "PATCH"] {
            for body in odd {
                let reply = rig.call(method, path, body).await;
                assert!(reply.status < 500, "{method} {path} {body:.80}: {reply:?}");
            }
        }
        for query in [
            "?%ff",
            "?tenant=%00",
            "?sort_by=%",
            "?limit=-1",
            "?cursor=%2f",
            "?selector=((",
            "?fact=",
            "?text=%e2",
            "?text=%00",
        ] {
            let reply = rig.get(&format!("{path}{query}")).await;
            assert!(reply.status < 500, "{path}{query}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn an_install_url_in_a_body_is_ignored() {
    let rig = Rig::new().await;
    rig.demo().await;
    let body = json!({ "tenant": "t-acme", "installURL": "https://evil.example" }).to_string();
    let put = rig.call("PUT", "/clusters/c-demo", &body).await;
    assert!(
        put.good()["installURL"]
            .as_str()
            .unwrap()
            .starts_with("https://hub.example/")
    );
    let patch = rig
        .patch("/clusters/c-demo", &json!({ "installURL": "x" }))
        .await;
    assert_eq!(patch.status, 200);
}

#[tokio::test]
async fn a_409_has_written_nothing() {
    let rig = Rig::new().await;
    rig.demo().await;
    let before = [
        rig.get("/clusters").await.text,
        rig.get("/tenants").await.text,
    ];
    let cluster =
        json!({ "id": "demo", "tenant": "t-acme", "displayName": "x", "facts": { "cloud": "x" } });
    let tenant = json!({ "id": "acme", "displayName": "x", "gitRepo": { "url": "ssh://g@e/a/b" } });
    for (method, path, body) in [
        ("POST", "/clusters", cluster.to_string()),
        ("POST", "/tenants", tenant.to_string()),
        ("DELETE", "/tenants/t-acme", String::new()),
    ] {
        assert_eq!(rig.call(method, path, &body).await.status, 409, "{path}");
    }
    let after = [
        rig.get("/clusters").await.text,
        rig.get("/tenants").await.text,
    ];
    assert_eq!(before, after);
}

#[tokio::test]
async fn an_unknown_tenant_is_refused() {
    let rig = Rig::new().await;
    for (method, path) in [("POST", "/clusters"), ("PUT", "/clusters/c-x")] {
        let reply = rig.call(method, path, r#"{"tenant":"t-none"}"#).await;
        reply.is(404, "tenant");
    }
    assert_eq!(rig.get("/clusters").await.good(), json!([]));
}

#[tokio::test]
async fn a_tenant_with_clusters_is_deleted_only_where_all_of_it_is_meant() {
    let rig = Rig::new().await;
    rig.demo().await;
    let child = r#"{"id":"child","tenantRef":"t-acme","gitRepo":{"url":"ssh://g@e/a/b"}}"#;
    rig.call("POST", "/tenants", child).await.good();
    rig.call("POST", "/clusters", r#"{"id":"below","tenant":"t-child"}"#)
        .await
        .good();
    assert_eq!(rig.call("DELETE", "/tenants/t-acme", "").await.status, 409);
    assert_eq!(
        rig.get("/clusters").await.good().as_array().unwrap().len(),
        2
    );
    rig.patch("/clusters/c-below", &json!({ "deleteProtection": true }))
        .await
        .good();
    let protected = rig.call("DELETE", "/tenants/t-acme?cascade=true", "").await;
    assert_eq!(protected.status, 409, "one that is protected protects all");
    assert_eq!(
        rig.call("DELETE", "/clusters/c-below", "").await.status,
        409
    );
    rig.patch("/clusters/c-below", &json!({ "deleteProtection": null }))
        .await
        .good();
    assert_eq!(
        rig.call("DELETE", "/tenants/t-acme?cascade=true", "")
            .await
            .status,
        204
    );
    assert_eq!(rig.get("/clusters").await.good(), json!([]));
    assert_eq!(rig.get("/tenants/t-child").await.status, 404);
}

#[tokio::test]
async fn tenants_are_never_above_themselves() {
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
async fn lists_are_told_in_pages_and_not_twice() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    for n in 0..5 {
        let body = json!({ "id": format!("n{n}"), "tenant": "t-acme" }).to_string();
        rig.call("POST", "/clusters", &body).await.good();
    }
    let mut path = "/clusters?limit=2&sort_by=displayName".to_owned();
    let mut ids = Vec::new();
    loop {
        let reply = rig.get(&path).await;
        let page = reply.good();
        assert!(page.as_array().unwrap().len() <= 2);
        ids.extend(page.as_array().unwrap().iter().map(|it| it["id"].clone()));
        let link = reply.header("link");
        if link.is_empty() {
            break;
        }
        let link = link.strip_prefix('<').unwrap();
        path = link.strip_suffix(">; rel=\"next\"").unwrap().to_owned();
    }
    assert_eq!(ids, ["c-n0", "c-n1", "c-n2", "c-n3", "c-n4"]);
    let all = rig.get("/clusters").await;
    assert_eq!(all.header("link"), "", "who asks for no page gets all");
    let known = [("if-none-match", all.header("etag"))];
    let token = rig.token(Role::Admin, None, None).await;
    let bearer = format!("Bearer {token}");
    let headers = [known[0], ("authorization", &bearer)];
    let same = rig.send("GET", "/clusters", &headers, "").await;
    assert_eq!((same.status, same.text.as_str()), (304, ""));
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
async fn a_change_is_not_lost_between_two_who_change() {
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
async fn changes_are_told_from_a_revision_on() {
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
        rig.get(&path).await.is(410, "no longer kept");
    }
}

#[tokio::test]
async fn who_watches_changes_does_not_keep_the_hub_from_ending() {
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
