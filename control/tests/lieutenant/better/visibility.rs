//! Visibility and permissions.

use fairlead_api::resources::Role;
use serde_json::{Value, json};

use crate::rig::{Rig, install_path};

fn ids(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|it| it["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_inventory_works() {
    let rig = Rig::new().await;
    rig.demo().await;
    let found =
        json!({ "cluster": "c-demo", "inventory": { "nodes": { "count": 3 }, "site": "Berlin" } });
    let stored = rig.call("POST", "/inventory", &found.to_string()).await;
    assert_eq!((stored.status, stored.text.as_str()), (201, ""));
    let query =
        "/inventory?q=SELECT%20LAST(count)%20FROM%20nodes%20WHERE%20cluster%20%3D%20'c-demo'";
    let answer = rig.get(query).await.good();
    assert_eq!(answer["cluster"], "c-demo");
    let series = &answer["inventory"]["results"][0]["series"][0];
    assert_eq!(
        (&series["name"], &series["values"][0][1]),
        (&json!("nodes"), &json!(3))
    );
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(shown["dynamicFacts"]["site"], "Berlin");
    rig.get("/inventory?q=DROP%20x").await.is(400, "DROP");
}

#[tokio::test]
async fn facts_have_a_time_a_source_and_a_history() {
    let rig = Rig::new().await;
    rig.demo().await;
    let said = async |cloud: &str| {
        let patch = json!({ "facts": { "cloud": cloud } });
        rig.patch("/clusters/c-demo", &patch).await.good();
    };
    rig.advance(time::Duration::hours(1));
    said("gcp").await;
    let facts = rig.get("/v1/clusters/c-demo/facts").await.good();
    let facts = facts["items"].as_array().unwrap();
    let cloud = facts.iter().find(|it| it["name"] == "cloud").unwrap();
    assert_eq!(cloud["value"], "gcp");
    assert_eq!(cloud["source"], "people");
    assert_eq!(cloud["received"], "2026-11-21T13:00:00Z");
    let history = rig
        .get("/v1/clusters/c-demo/facts/history?fact=cloud")
        .await;
    let history = history.good();
    let was = history["items"].as_array().unwrap().iter();
    let was: Vec<_> = was
        .map(|it| json!([it["value"], it["at"], it["source"]]))
        .collect();
    assert_eq!(
        was,
        [
            json!(["aws", "2026-11-21T12:00:00Z", "people"]),
            json!(["gcp", "2026-11-21T13:00:00Z", "people"]),
        ]
    );
}

#[tokio::test]
async fn lists_show_visible_things_only() {
    let rig = Rig::new().await;
    rig.demo().await;
    rig.tenant("t-other").await;
    let theirs = r#"{"id":"theirs","tenant":"t-other"}"#;
    rig.call("POST", "/clusters", theirs).await.good();
    for (role, tenant, cluster, clusters, tenants) in [
        (
            Role::Tenant,
            Some("t-acme"),
            None,
            &["c-demo"][..],
            &["t-acme"][..],
        ),
        (
            Role::Viewer,
            Some("t-other"),
            None,
            &["c-theirs"],
            &["t-other"],
        ),
        (Role::Cluster, None, Some("c-demo"), &["c-demo"], &[]),
        (
            Role::Compile,
            None,
            None,
            &["c-demo", "c-theirs"],
            &["t-acme", "t-default", "t-other"],
        ),
    ] {
        let token = rig.token(role, tenant, cluster).await;
        let list = async |path: &str| rig.as_who(&token, "GET", path, "").await.good();
        assert_eq!(ids(&list("/clusters").await), clusters, "{role}");
        assert_eq!(ids(&list("/tenants").await), tenants, "{role}");
    }
}

#[tokio::test]
async fn lists_have_pages() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    for n in 0..5 {
        let body = json!({ "id": format!("n{n}"), "tenant": "t-acme" }).to_string();
        rig.call("POST", "/clusters", &body).await.good();
    }
    let mut next = Some("/clusters?limit=2&sort_by=displayName".to_owned());
    let mut pages = Vec::new();
    while let Some(path) = next {
        let reply = rig.get(&path).await;
        let page = reply.good();
        pages.push(ids(&page).join(" "));
        let link = reply.header("link").strip_prefix('<');
        let link = link.map(|it| it.strip_suffix(">; rel=\"next\"").unwrap());
        next = link.map(str::to_owned);
    }
    assert_eq!(pages, ["c-n0 c-n1", "c-n2 c-n3", "c-n4"]);
    let all = rig.get("/clusters").await;
    assert_eq!(
        all.header("link"),
        "",
        "a request without a page returns all"
    );
    assert_eq!(ids(&all.good()).len(), 5);
}

#[tokio::test]
async fn an_unchanged_list_is_not_sent_again() {
    let rig = Rig::new().await;
    rig.demo().await;
    let bearer = rig.bearer(Role::Admin).await;
    for path in ["/clusters", "/tenants"] {
        let tag = rig.get(path).await.header("etag").to_owned();
        let headers = [("if-none-match", tag.as_str()), ("authorization", &bearer)];
        let same = rig.send("GET", path, &headers, "").await;
        assert_eq!((same.status, same.text.as_str()), (304, ""), "{path}");
        let rename = json!({ "displayName": "another" });
        for changed in ["/clusters/c-demo", "/tenants/t-acme"] {
            rig.patch(changed, &rename).await.good();
        }
        let other = rig.send("GET", path, &headers, "").await;
        assert_eq!(other.status, 200, "{path}");
        let back = json!({ "displayName": null });
        for changed in ["/clusters/c-demo", "/tenants/t-acme"] {
            rig.patch(changed, &back).await.good();
        }
    }
}

#[tokio::test]
async fn an_agent_changes_its_facts_its_deploy_key_and_nothing_else() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let list = rig.send("GET", &install_path(&made), &[], "").await.good();
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
    let key = r#"{"gitRepo":{"deployKey":"ssh-rsa AAAA"}}"#;
    let own = rig.as_who(token, "PATCH", "/clusters/c-demo", key).await;
    assert_eq!(own.good()["gitRepo"]["deployKey"], "ssh-rsa AAAA");
    rig.tenant("t-other").await;
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
        ("PATCH", "/clusters/c-demo", r#"{"tenant":"t-other"}"#, 400),
        ("PUT", "/clusters/c-demo", r#"{"tenant":"t-other"}"#, 403),
        (
            "POST",
            "/v1/clusters/c-demo/tenant",
            r#"{"tenant":"t-other"}"#,
            403,
        ),
        ("PATCH", "/tenants/t-acme", r#"{"displayName":"x"}"#, 404),
        ("DELETE", "/clusters/c-demo", "", 403),
        ("POST", "/clusters/c-demo/compileMeta", "{}", 403),
        ("GET", "/k8s/clusters/c-demo/api", "", 403),
        ("GET", "/k8s/clusters/c-other/api", "", 404),
    ] {
        let reply = rig.as_who(token, method, path, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
    }
    let mine = rig.as_who(token, "GET", "/clusters", "").await.good();
    assert_eq!(ids(&mine), ["c-demo"]);
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(shown["tenant"], "t-acme");
    assert_eq!(shown["gitRepo"]["url"], made["gitRepo"]["url"]);
}
