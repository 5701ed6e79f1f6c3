//! Permissions on every route.

mod declared;

use fairlead_api::resources::Role;
use fairlead_seam::{Caller, ClusterScope};
use http::Method;
use serde_json::{Value, json};

use crate::{
    archives::uploaded,
    rig::{Rig, admin, caller},
};

/// Every route of the modules with a valid body, and the result per role: admin, operator, viewer,
/// tenant, cluster, compile, tcp. `+` is allowed, `-` is forbidden for the role, `?` finds nothing.
pub(crate) const TABLE: [(&str, &str, &str, &str); 137] = [
    ("GET", "/v1/adoptions", "", "+------"),
    (
        "POST",
        "/v1/adoptions/find",
        r#"{"code":"7KQX-M2VP"}"#,
        "?--?---",
    ),
    (
        "POST",
        "/v1/adoptions/approve",
        r#"{"code":"7KQX-M2VP","cluster":"c-of-a"}"#,
        "?--?---",
    ),
    (
        "POST",
        "/v1/adoptions/refuse",
        r#"{"code":"7KQX-M2VP"}"#,
        "?--?---",
    ),
    ("GET", "/v1/agent-upgrades", "", "+++++++"),
    (
        "POST",
        "/v1/agent-upgrades",
        r#"{"version":"0.1.0","clusters":["c-of-a"]}"#,
        "+--+---",
    ),
    ("GET", "/v1/agent-upgrades/x", "", "???????"),
    ("POST", "/v1/agent-upgrades/x/pause", "", "???????"),
    ("POST", "/v1/agent-upgrades/x/resume", "", "???????"),
    ("POST", "/v1/agent-upgrades/x/cancel", "", "???????"),
    ("GET", "/v1/access-requests", "", "+++++++"),
    (
        "POST",
        "/v1/access-requests",
        r#"{"cluster":"c-of-a","role":"viewer","reason":"x"}"#,
        "++++---",
    ),
    (
        "GET",
        "/v1/access-requests/ar-0000000000000000",
        "",
        "???????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/approve",
        "{}",
        "???????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/deny",
        "{}",
        "???????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/revoke",
        "{}",
        "???????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/review",
        "{}",
        "???????",
    ),
    (
        "POST",
        "/v1/break-glass",
        r#"{"cluster":"c-of-a","reason":"x"}"#,
        "-------",
    ),
    ("GET", "/v1/bundles", "", "+++++++"),
    ("GET", "/v1/bundles/b-a", "", "++++?++"),
    ("POST", "/v1/bundles/b-a/plan", "", "+--+?--"),
    ("POST", "/v1/bundles/b-a/rollback", "{}", "?--??--"),
    ("POST", "/v1/bundles/b-a/suspend", "", "+--+?--"),
    ("POST", "/v1/bundles/b-a/resume", "", "+--+?--"),
    ("DELETE", "/v1/bundles/b-a?mode=remove", "", "+--+?--"),
    ("GET", "/v1/groups", "", "+++++++"),
    ("GET", "/v1/groups/g-a", "", "++++?++"),
    (
        "PUT",
        "/v1/groups/g-a",
        r#"{"tenant":"t-a","selector":"a=b"}"#,
        "+--+?--",
    ),
    ("DELETE", "/v1/groups/g-a", "", "+--+?--"),
    ("GET", "/v1/bundles/b-a/deployments", "", "++++?++"),
    ("GET", "/v1/clusters/c-of-a/deployments", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/deployments/b-a", "", "???????"),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/suspend",
        "",
        "?--?---",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/resume",
        "",
        "?--?---",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/remove",
        "",
        "?--?---",
    ),
    ("GET", "/v1/clusters/c-of-a/purge", "", "+++++++"),
    ("POST", "/v1/clusters/c-of-a/purge", "", "+--+---"),
    ("DELETE", "/v1/clusters/c-of-a/purge", "", "+--+---"),
    ("GET", "/v1/deployments/status", "", "+++++++"),
    ("GET", "/v1/rollouts", "", "+++++++"),
    ("GET", "/v1/rollouts/x", "", "???????"),
    ("POST", "/v1/rollouts/x/pause", "", "???????"),
    ("POST", "/v1/rollouts/x/resume", "", "???????"),
    ("POST", "/v1/rollouts/x/abort", "", "???????"),
    ("POST", "/v1/rollouts/x/promote", "", "???????"),
    ("POST", "/v1/rollouts/x/retry", "", "???????"),
    ("GET", "/v1/sources", "", "+++++++"),
    ("GET", "/v1/sources/s-a", "", "++++?++"),
    (
        "PUT",
        "/v1/sources/s-a",
        r#"{"tenant":"t-a","git":{"url":"https://git.example/a","ref":"main","paths":["a"]}}"#,
        "+--+?--",
    ),
    ("POST", "/v1/sources/s-a/sync", "", "+--+?--"),
    ("DELETE", "/v1/sources/s-a", "", "+--+?--"),
    ("GET", "/v1/runs", "", "+++++++"),
    (
        "POST",
        "/v1/runs",
        r#"{"cluster":"c-of-a","bundle":"b-none","kind":"sync"}"#,
        "?--?---",
    ),
    ("GET", "/v1/runs/x", "", "???????"),
    ("POST", "/v1/runs/x/cancel", "", "???????"),
    ("GET", "/v1/runs/x/log", "", "???????"),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/x/sync",
        "",
        "?--?---",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/x/confirm",
        "",
        "?--?---",
    ),
    (
        "POST",
        "/v1/bundles/x/diff",
        r#"{"clusters":["c-of-a"]}"#,
        "?--?---",
    ),
    ("GET", "/v1/hub", "", "+++++++"),
    ("GET", "/v1/whoami", "", "+++++++"),
    ("GET", "/tenants", "", "+++++++"),
    (
        "POST",
        "/tenants",
        r#"{"gitRepo":{"type":"unmanaged"}}"#,
        "+------",
    ),
    ("GET", "/tenants/t-a", "", "++++?++"),
    (
        "PUT",
        "/tenants/t-a",
        r#"{"gitRepo":{"type":"unmanaged"}}"#,
        "+--+---",
    ),
    ("PATCH", "/tenants/t-a", r#"{"displayName":"A"}"#, "+--+?--"),
    ("PATCH", "/tenants/t-a", r#"{"tenantRef":"t-b"}"#, "+---?--"),
    (
        "PATCH",
        "/tenants/t-a",
        r#"{"quotas":{"clusters":9}}"#,
        "+---?--",
    ),
    ("DELETE", "/tenants/t-a?cascade=true", "", "+---?--"),
    ("GET", "/clusters", "", "+++++++"),
    ("POST", "/clusters", r#"{"tenant":"t-a"}"#, "+--+---"),
    ("GET", "/clusters/c-of-a", "", "+++++++"),
    ("PUT", "/clusters/c-of-a", r#"{"tenant":"t-a"}"#, "+--+---"),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"displayName":"A"}"#,
        "+--+---",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"facts":{"cloud":"x"}}"#,
        "+--++--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"dynamicFacts":{"x":1}}"#,
        "+--++--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"gitRepo":{"deployKey":"ssh-rsa AAAA"}}"#,
        "+--++--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"gitRepo":{"url":"ssh://g@e/a/b"}}"#,
        "+--+---",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"deleteProtection":false}"#,
        "+--+---",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"compileMeta":{}}"#,
        "+--+---",
    ),
    ("DELETE", "/clusters/c-of-a", "", "+--+---"),
    ("POST", "/clusters/c-of-a/compileMeta", "{}", "+--+-+-"),
    ("GET", "/v1/compile-meta", "", "+++++++"),
    ("GET", "/v1/activity", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/status", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/sessions", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/effective", "", "+++++++"),
    (
        "POST",
        "/v1/clusters/c-of-a/tenant",
        r#"{"tenant":"t-b"}"#,
        "+------",
    ),
    ("GET", "/v1/clusters/c-of-a/bootstrap-token", "", "+--+---"),
    (
        "POST",
        "/v1/clusters/c-of-a/bootstrap-token",
        "{}",
        "+--+---",
    ),
    (
        "DELETE",
        "/v1/clusters/c-of-a/bootstrap-token",
        "",
        "+--+---",
    ),
    ("GET", "/v1/bootstrap-tokens", "", "+--+---"),
    ("GET", "/v1/clusters/c-of-a/catalog", "", "++-+---"),
    (
        "PUT",
        "/v1/clusters/c-of-a/catalog",
        r#"{"version":0,"objects":[]}"#,
        "+------",
    ),
    ("GET", "/v1/tenants/t-a/merge-requests", "", "++++?++"),
    (
        "POST",
        "/v1/tenants/t-a/merge-requests/x/merge",
        r#"{"head":"x"}"#,
        "??-??--",
    ),
    ("GET", "/v1/tenants/t-a/git-credentials", "", "+---?--"),
    (
        "PUT",
        "/v1/tenants/t-a/git-credentials/x",
        r#"{"token":"x"}"#,
        "+---?--",
    ),
    ("DELETE", "/v1/tenants/t-a/git-credentials/x", "", "+---?--"),
    ("GET", "/v1/git-credentials", "", "+------"),
    (
        "PUT",
        "/v1/git-credentials/x",
        r#"{"token":"x"}"#,
        "+------",
    ),
    ("DELETE", "/v1/git-credentials/x", "", "+------"),
    ("GET", "/v1/tokens", "", "+------"),
    (
        "POST",
        "/v1/tokens",
        r#"{"name":"x","role":"viewer","tenant":"t-a"}"#,
        "+------",
    ),
    ("DELETE", "/v1/tokens/k-none", "", "?------"),
    ("GET", "/v1/clusters/c-of-a/facts", "", "+++++++"),
    (
        "POST",
        "/v1/clusters/c-of-a/facts/imported",
        r#"{"facts":{"x":1}}"#,
        "+--+---",
    ),
    (
        "POST",
        "/inventory",
        r#"{"cluster":"c-of-a","inventory":{"x":1}}"#,
        "++-++--",
    ),
    ("GET", "/v1/find?service=x", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/facts/history", "", "+++++++"),
    ("GET", "/v1/facts/x/changes", "", "+++++++"),
    ("GET", "/v1/agents", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/config", "", "+++++++"),
    ("GET", "/v1/clusters/c-of-a/agent", "", "+++++++"),
    ("PUT", "/v1/clusters/c-of-a/agent", "{}", "+--+---"),
    (
        "GET",
        "/inventory?q=SELECT%20x%20FROM%20%22c-of-a%22",
        "",
        "+++++++",
    ),
    ("GET", "/v1/changes?since=1", "", "+++++++"),
    ("GET", "/v1/status", "", "+++++++"),
    ("GET", "/v1/audit", "", "+------"),
    ("GET", "/v1/audit/requests", "", "+------"),
    ("GET", "/v1/requests", "", "+++++++"),
    ("DELETE", "/v1/requests?kind=exec", "", "+------"),
    ("DELETE", "/v1/requests/0123456789abcdef", "", "?------"),
    ("GET", "/v1/services", "", "+++++++"),
    ("GET", "/v1/services/x", "", "+++++++"),
    (
        "PUT",
        "/v1/services/x",
        r#"{"cluster":"c-of-a","target":"db.shop:5432","protocol":"tcp","port":20000,"from":["10.0.0.0/8"]}"#,
        "+------",
    ),
    ("DELETE", "/v1/services/x", "", "+------"),
    ("GET", "/v1/locks", "", "+------"),
    (
        "PUT",
        "/v1/locks/user/bob",
        r#"{"reason":"laptop stolen"}"#,
        "+------",
    ),
    ("DELETE", "/v1/locks/user/bob", "", "+------"),
    (
        "PUT",
        "/v1/locks/cluster/c-of-a",
        r#"{"reason":"forensics"}"#,
        "+------",
    ),
    ("DELETE", "/v1/locks/cluster/c-of-a", "", "+------"),
    ("GET", "/", "", "+++++++"),
    ("GET", "/healthz", "", "+++++++"),
    ("GET", "/install/agent.yaml", "", "???????"),
    ("GET", "/install/agent-values.yaml", "", "???????"),
    ("GET", "/install/adoption.yaml", "", "-------"),
];

pub(crate) fn of_role(role: Role) -> Caller {
    let mut who = caller(role, None);
    match role {
        Role::Tenant => who.tenant = Some("t-a".parse().unwrap()),
        Role::Cluster => who.clusters = ClusterScope::One("c-of-a".parse().unwrap()),
        _ => {}
    }
    who
}

pub(crate) async fn world(rig: &Rig) {
    for tenant in ["t-a", "t-b"] {
        let body = json!({ "gitRepo": { "type": "unmanaged" }, "tenantRef": null });
        let path = format!("/tenants/{tenant}");
        rig.call(&admin(), Method::PUT, &path, body).await.good();
    }
    for (cluster, tenant) in [("of-a", "t-a"), ("of-b", "t-b")] {
        let path = format!("/clusters/c-{cluster}");
        rig.delete(&admin(), &path).await;
        let repo = json!({ "type": "unmanaged", "url": "file:///x" });
        let body = json!({ "tenant": tenant, "gitRepo": repo });
        rig.call(&admin(), Method::PUT, &path, body).await.good();
    }
    let group = json!({ "tenant": "t-a", "selector": "a=b" });
    rig.call(&admin(), Method::PUT, "/v1/groups/g-a", group)
        .await
        .good();
    let service = json!({
        "cluster": "c-of-a", "target": "db.shop:5432", "protocol": "tcp",
        "port": 20000, "from": ["10.0.0.0/8"],
    });
    rig.call(&admin(), Method::PUT, "/v1/services/x", service)
        .await
        .good();
    let git = json!({ "url": "https://git.example/a", "ref": "main", "paths": ["a"] });
    let source = json!({ "tenant": "t-a", "git": git });
    rig.call(&admin(), Method::PUT, "/v1/sources/s-a", source)
        .await
        .good();
    let files = [("a.yaml", "a: 1\n")];
    let artifact = uploaded(rig, "t-a", &files).await;
    let bundle = json!({ "tenant": "t-a", "artifact": artifact });
    rig.call(&admin(), Method::PUT, "/v1/bundles/b-a", bundle)
        .await
        .good();
}

pub(crate) fn body(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(text).unwrap()
    }
}

fn is_open(path: &str) -> bool {
    ["/", "/healthz"].contains(&path) || path.starts_with("/install/")
}

#[tokio::test]
async fn anonymous_callers_reach_public_routes_only() {
    let rig = Rig::new().await;
    world(&rig).await;
    for (method, path, text, _) in TABLE {
        if !is_open(path) {
            let method: Method = method.parse().unwrap();
            let reply = rig.nobody(method.clone(), path, text).await;
            assert!(!reply.status.is_success(), "{method} {path}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn every_role_may_call_its_routes_and_no_others() {
    let rig = Rig::new().await;
    for (at, role) in Role::ALL.into_iter().enumerate() {
        let who = of_role(role);
        for (method, path, text, who_may) in TABLE {
            world(&rig).await;
            let method: Method = method.parse().unwrap();
            let reply = if is_open(path) {
                rig.open(path).await
            } else {
                rig.call(&who, method.clone(), path, body(text)).await
            };
            let expected = who_may.as_bytes()[at];
            let found = match reply.status.as_u16() {
                200..=299 => b'+',
                403 => b'-',
                401 | 404 => b'?',
                other => panic!("{role}: {method} {path} {text}: {other} {}", reply.text),
            };
            let (expected, found) = (char::from(expected), char::from(found));
            assert_eq!(
                found, expected,
                "{role}: {method} {path} {text}: {}",
                reply.text
            );
        }
    }
}
