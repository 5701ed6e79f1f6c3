//! Resources of other tenants: they answer like missing ones, no list has them, and no token of theirs can be made.

use std::collections::BTreeMap;

use fairlead_api::{Code, resources::Role};
use fairlead_seam::Caller;
use http::Method;
use serde_json::json;

use crate::{
    metrics::Metrics,
    rig::{Rig, admin, caller},
    rights::{TABLE, body, of_role, world},
};

/// Roles in a tenant.
const ROLES: [Role; 6] = [
    Role::Admin,
    Role::Operator,
    Role::Viewer,
    Role::Tenant,
    Role::Compile,
    Role::Tcp,
];

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
    for role in ROLES {
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
    for role in ROLES {
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
            None if role.opens_tcp() => {
                let grant = grant.unwrap();
                assert!(grant.tcp && !grant.reaches_api(), "{role}: {grant:?}");
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
        (
            json!({ "name": "x", "role": "tcp", "tenant": "t-a", "cluster": "c-of-a" }),
            Some(Code::Invalid),
        ),
        (
            json!({ "name": "x", "role": "tcp", "cluster": "c-of-b" }),
            Some(Code::NotFound),
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
