//! Permissions on every route. Hidden resources are indistinguishable from missing ones.

use std::collections::BTreeMap;

use fairlead_api::{Code, resources::Role};
use fairlead_seam::{Caller, ClusterScope};
use http::Method;
use serde_json::{Value, json};

use crate::{
    archives::uploaded,
    metrics::Metrics,
    rig::{Rig, admin, caller},
};

/// Every route of the modules with a valid body, and the result per role: admin, operator, viewer,
/// tenant, cluster, compile. `+` is allowed, `-` is forbidden for the role, `?` finds nothing.
pub(crate) const TABLE: [(&str, &str, &str, &str); 133] = [
    ("GET", "/v1/adoptions", "", "+-----"),
    (
        "POST",
        "/v1/adoptions/find",
        r#"{"code":"7KQX-M2VP"}"#,
        "?--?--",
    ),
    (
        "POST",
        "/v1/adoptions/approve",
        r#"{"code":"7KQX-M2VP","cluster":"c-of-a"}"#,
        "?--?--",
    ),
    (
        "POST",
        "/v1/adoptions/refuse",
        r#"{"code":"7KQX-M2VP"}"#,
        "?--?--",
    ),
    ("GET", "/v1/agent-upgrades", "", "++++++"),
    (
        "POST",
        "/v1/agent-upgrades",
        r#"{"version":"0.1.0","clusters":["c-of-a"]}"#,
        "+--+--",
    ),
    ("GET", "/v1/agent-upgrades/x", "", "??????"),
    ("POST", "/v1/agent-upgrades/x/pause", "", "??????"),
    ("POST", "/v1/agent-upgrades/x/resume", "", "??????"),
    ("POST", "/v1/agent-upgrades/x/cancel", "", "??????"),
    ("GET", "/v1/access-requests", "", "++++++"),
    (
        "POST",
        "/v1/access-requests",
        r#"{"cluster":"c-of-a","role":"viewer","reason":"x"}"#,
        "++++--",
    ),
    (
        "GET",
        "/v1/access-requests/ar-0000000000000000",
        "",
        "??????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/approve",
        "{}",
        "??????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/deny",
        "{}",
        "??????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/revoke",
        "{}",
        "??????",
    ),
    (
        "POST",
        "/v1/access-requests/ar-0000000000000000/review",
        "{}",
        "??????",
    ),
    (
        "POST",
        "/v1/break-glass",
        r#"{"cluster":"c-of-a","reason":"x"}"#,
        "------",
    ),
    ("GET", "/v1/bundles", "", "++++++"),
    ("GET", "/v1/bundles/b-a", "", "++++?+"),
    ("POST", "/v1/bundles/b-a/plan", "", "+--+?-"),
    ("POST", "/v1/bundles/b-a/rollback", "{}", "?--??-"),
    ("POST", "/v1/bundles/b-a/suspend", "", "+--+?-"),
    ("POST", "/v1/bundles/b-a/resume", "", "+--+?-"),
    ("DELETE", "/v1/bundles/b-a?mode=remove", "", "+--+?-"),
    ("GET", "/v1/groups", "", "++++++"),
    ("GET", "/v1/groups/g-a", "", "++++?+"),
    (
        "PUT",
        "/v1/groups/g-a",
        r#"{"tenant":"t-a","selector":"a=b"}"#,
        "+--+?-",
    ),
    ("DELETE", "/v1/groups/g-a", "", "+--+?-"),
    ("GET", "/v1/bundles/b-a/deployments", "", "++++?+"),
    ("GET", "/v1/clusters/c-of-a/deployments", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/deployments/b-a", "", "??????"),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/suspend",
        "",
        "?--?--",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/resume",
        "",
        "?--?--",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/b-a/remove",
        "",
        "?--?--",
    ),
    ("GET", "/v1/clusters/c-of-a/purge", "", "++++++"),
    ("POST", "/v1/clusters/c-of-a/purge", "", "+--+--"),
    ("DELETE", "/v1/clusters/c-of-a/purge", "", "+--+--"),
    ("GET", "/v1/deployments/status", "", "++++++"),
    ("GET", "/v1/rollouts", "", "++++++"),
    ("GET", "/v1/rollouts/x", "", "??????"),
    ("POST", "/v1/rollouts/x/pause", "", "??????"),
    ("POST", "/v1/rollouts/x/resume", "", "??????"),
    ("POST", "/v1/rollouts/x/abort", "", "??????"),
    ("POST", "/v1/rollouts/x/promote", "", "??????"),
    ("POST", "/v1/rollouts/x/retry", "", "??????"),
    ("GET", "/v1/sources", "", "++++++"),
    ("GET", "/v1/sources/s-a", "", "++++?+"),
    (
        "PUT",
        "/v1/sources/s-a",
        r#"{"tenant":"t-a","git":{"url":"https://git.example/a","ref":"main","paths":["a"]}}"#,
        "+--+?-",
    ),
    ("POST", "/v1/sources/s-a/sync", "", "+--+?-"),
    ("DELETE", "/v1/sources/s-a", "", "+--+?-"),
    ("GET", "/v1/runs", "", "++++++"),
    (
        "POST",
        "/v1/runs",
        r#"{"cluster":"c-of-a","bundle":"b-none","kind":"sync"}"#,
        "?--?--",
    ),
    ("GET", "/v1/runs/x", "", "??????"),
    ("POST", "/v1/runs/x/cancel", "", "??????"),
    ("GET", "/v1/runs/x/log", "", "??????"),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/x/sync",
        "",
        "?--?--",
    ),
    (
        "POST",
        "/v1/clusters/c-of-a/deployments/x/confirm",
        "",
        "?--?--",
    ),
    (
        "POST",
        "/v1/bundles/x/diff",
        r#"{"clusters":["c-of-a"]}"#,
        "?--?--",
    ),
    ("GET", "/v1/hub", "", "++++++"),
    ("GET", "/v1/whoami", "", "++++++"),
    ("GET", "/tenants", "", "++++++"),
    (
        "POST",
        "/tenants",
        r#"{"gitRepo":{"type":"unmanaged"}}"#,
        "+-----",
    ),
    ("GET", "/tenants/t-a", "", "++++?+"),
    (
        "PUT",
        "/tenants/t-a",
        r#"{"gitRepo":{"type":"unmanaged"}}"#,
        "+--+--",
    ),
    ("PATCH", "/tenants/t-a", r#"{"displayName":"A"}"#, "+--+?-"),
    ("PATCH", "/tenants/t-a", r#"{"tenantRef":"t-b"}"#, "+---?-"),
    (
        "PATCH",
        "/tenants/t-a",
        r#"{"quotas":{"clusters":9}}"#,
        "+---?-",
    ),
    ("DELETE", "/tenants/t-a?cascade=true", "", "+---?-"),
    ("GET", "/clusters", "", "++++++"),
    ("POST", "/clusters", r#"{"tenant":"t-a"}"#, "+--+--"),
    ("GET", "/clusters/c-of-a", "", "++++++"),
    ("PUT", "/clusters/c-of-a", r#"{"tenant":"t-a"}"#, "+--+--"),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"displayName":"A"}"#,
        "+--+--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"facts":{"cloud":"x"}}"#,
        "+--++-",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"dynamicFacts":{"x":1}}"#,
        "+--++-",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"gitRepo":{"deployKey":"ssh-rsa AAAA"}}"#,
        "+--++-",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"gitRepo":{"url":"ssh://g@e/a/b"}}"#,
        "+--+--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"deleteProtection":false}"#,
        "+--+--",
    ),
    (
        "PATCH",
        "/clusters/c-of-a",
        r#"{"compileMeta":{}}"#,
        "+--+--",
    ),
    ("DELETE", "/clusters/c-of-a", "", "+--+--"),
    ("POST", "/clusters/c-of-a/compileMeta", "{}", "+--+-+"),
    ("GET", "/v1/compile-meta", "", "++++++"),
    ("GET", "/v1/activity", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/status", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/sessions", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/effective", "", "++++++"),
    (
        "POST",
        "/v1/clusters/c-of-a/tenant",
        r#"{"tenant":"t-b"}"#,
        "+-----",
    ),
    ("GET", "/v1/clusters/c-of-a/bootstrap-token", "", "+--+--"),
    (
        "POST",
        "/v1/clusters/c-of-a/bootstrap-token",
        "{}",
        "+--+--",
    ),
    (
        "DELETE",
        "/v1/clusters/c-of-a/bootstrap-token",
        "",
        "+--+--",
    ),
    ("GET", "/v1/bootstrap-tokens", "", "+--+--"),
    ("GET", "/v1/clusters/c-of-a/catalog", "", "++-+--"),
    (
        "PUT",
        "/v1/clusters/c-of-a/catalog",
        r#"{"version":0,"objects":[]}"#,
        "+-----",
    ),
    ("GET", "/v1/tenants/t-a/merge-requests", "", "++++?+"),
    (
        "POST",
        "/v1/tenants/t-a/merge-requests/x/merge",
        r#"{"head":"x"}"#,
        "??-??-",
    ),
    ("GET", "/v1/tenants/t-a/git-credentials", "", "+---?-"),
    (
        "PUT",
        "/v1/tenants/t-a/git-credentials/x",
        r#"{"token":"x"}"#,
        "+---?-",
    ),
    ("DELETE", "/v1/tenants/t-a/git-credentials/x", "", "+---?-"),
    ("GET", "/v1/git-credentials", "", "+-----"),
    ("PUT", "/v1/git-credentials/x", r#"{"token":"x"}"#, "+-----"),
    ("DELETE", "/v1/git-credentials/x", "", "+-----"),
    ("GET", "/v1/tokens", "", "+-----"),
    (
        "POST",
        "/v1/tokens",
        r#"{"name":"x","role":"viewer","tenant":"t-a"}"#,
        "+-----",
    ),
    ("DELETE", "/v1/tokens/k-none", "", "?-----"),
    ("GET", "/v1/clusters/c-of-a/facts", "", "++++++"),
    (
        "POST",
        "/v1/clusters/c-of-a/facts/imported",
        r#"{"facts":{"x":1}}"#,
        "+--+--",
    ),
    (
        "POST",
        "/inventory",
        r#"{"cluster":"c-of-a","inventory":{"x":1}}"#,
        "++-++-",
    ),
    ("GET", "/v1/find?service=x", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/facts/history", "", "++++++"),
    ("GET", "/v1/facts/x/changes", "", "++++++"),
    ("GET", "/v1/agents", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/config", "", "++++++"),
    ("GET", "/v1/clusters/c-of-a/agent", "", "++++++"),
    ("PUT", "/v1/clusters/c-of-a/agent", "{}", "+--+--"),
    (
        "GET",
        "/inventory?q=SELECT%20x%20FROM%20%22c-of-a%22",
        "",
        "++++++",
    ),
    ("GET", "/v1/changes?since=1", "", "++++++"),
    ("GET", "/v1/status", "", "++++++"),
    ("GET", "/v1/audit", "", "+-----"),
    ("GET", "/v1/audit/requests", "", "+-----"),
    ("GET", "/v1/requests", "", "++++++"),
    ("DELETE", "/v1/requests?kind=exec", "", "+-----"),
    ("DELETE", "/v1/requests/0123456789abcdef", "", "?-----"),
    ("GET", "/v1/locks", "", "+-----"),
    (
        "PUT",
        "/v1/locks/user/bob",
        r#"{"reason":"laptop stolen"}"#,
        "+-----",
    ),
    ("DELETE", "/v1/locks/user/bob", "", "+-----"),
    (
        "PUT",
        "/v1/locks/cluster/c-of-a",
        r#"{"reason":"forensics"}"#,
        "+-----",
    ),
    ("DELETE", "/v1/locks/cluster/c-of-a", "", "+-----"),
    ("GET", "/", "", "++++++"),
    ("GET", "/healthz", "", "++++++"),
    ("GET", "/install/agent.yaml", "", "??????"),
    ("GET", "/install/agent-values.yaml", "", "??????"),
    ("GET", "/install/adoption.yaml", "", "------"),
];

fn of_role(role: Role) -> Caller {
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

/// Increase of each row.
fn more(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let rows = after.iter();
    let rows = rows.map(|(row, count)| (row.clone(), count - before[row]));
    rows.filter(|(_, more)| *more > 0.0).collect()
}

#[tokio::test]
async fn hidden_resources_answer_like_missing_ones_at_equal_cost() {
    let rig = Rig::new().await;
    let metrics = Metrics::of(&rig).await;
    for role in [
        Role::Admin,
        Role::Operator,
        Role::Viewer,
        Role::Tenant,
        Role::Compile,
    ] {
        let who = caller(role, Some("t-a"));
        for (method, path, text, _) in TABLE {
            let theirs = (path.replace("of-a", "of-b"), text.replace("t-a", "t-b"));
            let theirs = (theirs.0.replace("t-a", "t-b"), theirs.1);
            if theirs == (path.to_owned(), text.to_owned()) {
                continue;
            }
            world(&rig).await;
            let method: Method = method.parse().unwrap();
            let start = metrics.work();
            let reply = rig
                .call(&who, method.clone(), &theirs.0, body(&theirs.1))
                .await;
            let between = metrics.work();
            // A query over all visible clusters succeeds without the hidden one.
            let asks = theirs.0.starts_with("/inventory?");
            assert!(
                asks || !reply.status.is_success(),
                "{role}: {method} {theirs:?}: {}",
                reply.text
            );
            let none = |text: &str| text.replace("c-of-b", "c-none").replace("t-b", "t-none");
            let (path, text) = (none(&theirs.0), none(&theirs.1));
            let missing = rig.call(&who, method.clone(), &path, body(&text)).await;
            assert_eq!(missing.text, reply.text, "{role}: {method} {theirs:?}");
            // Equal load on database and writer: timing reveals nothing.
            assert_eq!(
                more(&start, &between),
                more(&between, &metrics.work()),
                "{role}: {method} {theirs:?}"
            );
        }
        let seam = rig.control.seam();
        let ask = async |id: &str| seam.authorizer.authorize(&who, &id.parse().unwrap()).await;
        let (other, nowhere) = (
            ask("c-of-b").await.unwrap_err(),
            ask("c-none").await.unwrap_err(),
        );
        assert_eq!((other.code(), &other), (Code::NoSuchCluster, &nowhere));
    }
}

#[tokio::test]
async fn lists_show_what_the_caller_may_see() {
    let rig = Rig::new().await;
    world(&rig).await;
    let child = json!({ "id": "child", "tenantRef": "t-a", "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", child).await.good();
    rig.cluster("of-child", "t-child").await;
    let ids = async |who: &Caller, path: &str| {
        let list = rig.get(who, path).await.good();
        let list = list.as_array().unwrap().clone();
        let ids = list.iter().map(|it| it["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>().join(" ")
    };
    for role in [
        Role::Admin,
        Role::Operator,
        Role::Viewer,
        Role::Tenant,
        Role::Compile,
    ] {
        let who = caller(role, Some("t-a"));
        assert_eq!(ids(&who, "/clusters").await, "c-of-a c-of-child", "{role}");
        assert_eq!(ids(&who, "/tenants").await, "t-a t-child", "{role}");
        let below = caller(role, Some("t-child"));
        assert_eq!(ids(&below, "/clusters").await, "c-of-child", "{role}");
        assert_eq!(ids(&below, "/tenants").await, "t-child", "{role}");
        let seam = rig.control.seam();
        let grant = seam
            .authorizer
            .authorize(&who, &"c-of-child".parse().unwrap())
            .await;
        match role.in_clusters() {
            Some(group) => {
                let grant = grant.unwrap();
                assert_eq!(
                    (grant.role, grant.tenant.as_str()),
                    (Some(group), "t-child")
                );
            }
            None => assert_eq!(grant.unwrap_err().code(), Code::NotAllowed, "{role}"),
        }
    }
    let own = of_role(Role::Cluster);
    assert_eq!(ids(&own, "/clusters").await, "c-of-a");
    assert_eq!(ids(&own, "/tenants").await, "");
    assert_eq!(
        rig.get(&own, "/clusters/c-of-b").await.code(),
        Code::NoSuchCluster
    );
}

#[tokio::test]
async fn a_tenants_admin_manages_its_own_tokens_only() {
    let rig = Rig::new().await;
    world(&rig).await;
    let own = caller(Role::Admin, Some("t-a"));
    for (asked, code) in [
        (
            json!({ "name": "x", "role": "viewer", "tenant": "t-a" }),
            None,
        ),
        (
            json!({ "name": "x", "role": "cluster", "cluster": "c-of-a" }),
            None,
        ),
        (
            json!({ "name": "x", "role": "viewer" }),
            Some(Code::NotAllowed),
        ),
        (
            json!({ "name": "x", "role": "viewer", "tenant": "t-b" }),
            Some(Code::NotFound),
        ),
        (
            json!({ "name": "x", "role": "viewer", "tenant": "t-none" }),
            Some(Code::NotFound),
        ),
        (
            json!({ "name": "x", "role": "cluster", "cluster": "c-of-b" }),
            Some(Code::NotFound),
        ),
        (
            json!({ "name": "x", "role": "cluster" }),
            Some(Code::Invalid),
        ),
        (
            json!({ "name": "x", "role": "tenant" }),
            Some(Code::Invalid),
        ),
        (
            json!({ "name": "x", "role": "viewer", "cluster": "c-of-a" }),
            Some(Code::Invalid),
        ),
    ] {
        let reply = rig.post(&own, "/v1/tokens", asked.clone()).await;
        match code {
            None => drop(reply.good()),
            Some(code) => assert_eq!(reply.code(), code, "{asked}"),
        }
    }
    let count = async |who: &Caller| {
        let list = rig.get(who, "/v1/tokens").await.good();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(count(&own).await, 2);
    assert_eq!(count(&caller(Role::Admin, Some("t-b"))).await, 0);
    assert_eq!(count(&admin()).await, 2);
}

/// Path with values in the place of its parameters.
fn real(path: &str) -> String {
    let value = |segment: &str| match segment {
        "{clusterId}" => "c-of-a".to_owned(),
        "{tenantId}" => "t-a".to_owned(),
        "{tokenId}" => "k-none".to_owned(),
        "{accessRequestId}" => "ar-0000000000000000".to_owned(),
        "{groupId}" => "g-a".to_owned(),
        "{sourceId}" => "s-a".to_owned(),
        "{bundleId}" => "b-a".to_owned(),
        segment if segment.starts_with('{') => "x".to_owned(),
        segment => segment.to_owned(),
    };
    path.split('/').map(value).collect::<Vec<_>>().join("/")
}

/// A route outside of the table is called with the example of its description.
#[tokio::test]
async fn every_route_requires_its_declared_rights() {
    let rig = Rig::new().await;
    for route in rig.control.routes().iter().filter(|it| !it.is_open()) {
        let path = real(route.path());
        let method: Method = route.method().to_uppercase().parse().unwrap();
        let of_route = |row: &&(&str, &str, &str, &str)| {
            method.as_str() == row.0 && path == row.1.split('?').next().unwrap()
        };
        let rows: Vec<_> = TABLE.iter().filter(of_route).collect();
        let example = route.example_body().cloned();
        let has_request = !rows.is_empty() || !route.has_body() || example.is_some();
        assert!(has_request, "{method} {path} has neither row nor example");
        for (at, role) in Role::ALL.into_iter().enumerate() {
            let who = of_role(role);
            let is_allowed = route.rights().iter().any(|right| right.allows(&who));
            let found: String = if rows.is_empty() {
                world(&rig).await;
                let body = example.clone().unwrap_or_default();
                let reply = rig.call(&who, method.clone(), &path, body).await;
                if reply.status == 403 { "-" } else { "+" }.to_owned()
            } else {
                rows.iter()
                    .map(|row| char::from(row.3.as_bytes()[at]))
                    .collect()
            };
            // A hidden resource shows no rights.
            if found.contains('+') || !found.contains('?') {
                assert_eq!(found.contains('+'), is_allowed, "{role}: {method} {path}");
            }
        }
    }
}
