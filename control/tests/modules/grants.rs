//! Several roles of one caller, per tenant, cluster and namespace: on the hub's own routes and in clusters.

use std::sync::Arc;

use fairlead_api::{Code, resources::Role};
use fairlead_seam::{Caller, ClusterScope, GrantKind, GrantScope, ScopedGrant};
use http::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, caller};

fn grant(
    role: Role,
    tenant: Option<&str>,
    cluster: Option<&str>,
    namespaces: &[&str],
) -> ScopedGrant {
    ScopedGrant {
        role,
        scope: GrantScope {
            tenant: tenant.map(|it| it.parse().unwrap()),
            clusters: cluster.map(|it| it.parse().unwrap()).into(),
            namespaces: namespaces.iter().map(|it| it.parse().unwrap()).collect(),
        },
        kind: GrantKind::Standing,
    }
}

fn selected(selector: &str) -> ClusterScope {
    ClusterScope::Selected(Arc::new(selector.parse().unwrap()))
}

fn with(own: Caller, grants: Vec<ScopedGrant>) -> Caller {
    Caller {
        grants: Arc::from(grants),
        ..own
    }
}

async fn world() -> Rig {
    let rig = Rig::new().await;
    for (tenant, clusters) in [("a", ["a1", "a2"]), ("b", ["b1", "b2"])] {
        rig.tenant(tenant).await;
        for cluster in clusters {
            rig.cluster(cluster, &format!("t-{tenant}")).await;
        }
    }
    rig
}

/// Role in a whole cluster and roles in namespaces, in one text.
async fn in_cluster(rig: &Rig, who: &Caller, cluster: &str) -> String {
    let authorizer = rig.control.seam().authorizer;
    match authorizer.authorize(who, &cluster.parse().unwrap()).await {
        Ok(grant) => {
            let namespaces = grant.namespaces.iter();
            let namespaces = namespaces.map(|it| format!(" {}:{}", it.namespace.as_str(), it.role));
            let role = grant.role.map_or("none", Role::as_str);
            format!("{role}{}", namespaces.collect::<String>())
        }
        Err(error) => error.code().to_string(),
    }
}

#[tokio::test]
async fn the_strongest_role_of_a_cluster_counts_there() {
    let rig = world().await;
    let ann = with(
        caller(Role::Viewer, None),
        vec![
            grant(Role::Admin, Some("t-a"), None, &[]),
            grant(Role::Operator, None, Some("c-b1"), &[]),
            grant(Role::Operator, None, Some("c-b2"), &["shop", "web"]),
            grant(Role::Viewer, None, Some("c-b2"), &["blog"]),
        ],
    );
    assert_eq!(in_cluster(&rig, &ann, "c-a1").await, "admin");
    assert_eq!(in_cluster(&rig, &ann, "c-b1").await, "operator");
    let b2 = "viewer shop:operator web:operator";
    assert_eq!(in_cluster(&rig, &ann, "c-b2").await, b2);

    let narrow = Caller {
        namespaces: vec!["shop".parse().unwrap()],
        clusters: ClusterScope::One("c-b2".parse().unwrap()),
        ..caller(Role::Operator, None)
    };
    assert_eq!(
        in_cluster(&rig, &narrow, "c-b2").await,
        "none shop:operator"
    );
    assert_eq!(in_cluster(&rig, &narrow, "c-b1").await, "FL-1301");

    // A role for a cluster in a tenant ends when the cluster moves out of it.
    let moving = with(
        caller(Role::Viewer, None),
        vec![grant(Role::Operator, Some("t-b"), Some("c-b1"), &[])],
    );
    assert_eq!(in_cluster(&rig, &moving, "c-b1").await, "operator");
    let to = json!({ "tenant": "t-a" });
    let admin = crate::rig::admin();
    let moved = rig.post(&admin, "/v1/clusters/c-b1/tenant", to).await;
    assert!(moved.status.is_success(), "{}", moved.text);
    assert_eq!(in_cluster(&rig, &moving, "c-b1").await, "viewer");
}

#[tokio::test]
async fn an_emergency_role_has_no_effect() {
    let rig = world().await;
    let glass = ScopedGrant {
        kind: GrantKind::BreakGlass,
        ..grant(Role::Admin, None, None, &[])
    };
    let ann = with(caller(Role::Viewer, Some("t-a")), vec![glass]);
    assert_eq!(in_cluster(&rig, &ann, "c-a1").await, "viewer");
    assert_eq!(in_cluster(&rig, &ann, "c-b1").await, "FL-1301");
    let changed = json!({ "displayName": "x" });
    let refused = rig
        .call(&ann, Method::PATCH, "/clusters/c-a1", changed)
        .await;
    assert_eq!(refused.code(), Code::NotAllowed);
}

#[tokio::test]
async fn hub_routes_take_the_role_of_the_thing() {
    let rig = world().await;
    let renamed = || json!({ "displayName": "x" });
    let patch = async |who: &Caller, path: &str| {
        let reply = rig.call(who, Method::PATCH, path, renamed()).await;
        reply.status.as_u16()
    };
    // Either role may be the own one: neither reaches into the other's tenant.
    let viewer_first = with(
        caller(Role::Viewer, None),
        vec![grant(Role::Admin, Some("t-a"), None, &[])],
    );
    let admin_first = with(
        caller(Role::Admin, Some("t-a")),
        vec![grant(Role::Viewer, Some("t-b"), None, &[])],
    );
    for ann in [&viewer_first, &admin_first] {
        assert_eq!(patch(ann, "/clusters/c-a1").await, 200);
        assert_eq!(patch(ann, "/clusters/c-b1").await, 403);
        assert_eq!(patch(ann, "/tenants/t-a").await, 200);
        assert_eq!(patch(ann, "/tenants/t-b").await, 403);
        assert_eq!(rig.get(ann, "/clusters/c-b1").await.status, 200);
        let made = |tenant: &str| json!({ "tenant": tenant });
        let of_a = rig.post(ann, "/clusters", made("t-a")).await;
        assert_eq!(of_a.status, 201, "{}", of_a.text);
        let of_b = rig.post(ann, "/clusters", made("t-b")).await;
        assert_eq!(of_b.code(), Code::NotAllowed);
        for (path, at_a, at_b) in [("bootstrap-token", 200, 403), ("catalog", 200, 403)] {
            let at = async |id: &str| {
                let reply = rig.get(ann, &format!("/v1/clusters/{id}/{path}")).await;
                reply.status.as_u16()
            };
            assert_eq!((at("c-a1").await, at("c-b1").await), (at_a, at_b), "{path}");
        }
        let seen = rig.get(ann, "/clusters").await.good();
        let seen = seen.as_array().unwrap().iter();
        let of_b = seen.filter(|it| it["tenant"] == "t-b").count();
        assert_eq!(of_b, 2);
    }
    // Locks of an admin of one tenant reach its own things only.
    let locked = async |id: &str| {
        let reason = json!({ "reason": "x" });
        let path = format!("/v1/locks/cluster/{id}");
        rig.call(&viewer_first, Method::PUT, &path, reason).await
    };
    assert_eq!(locked("c-b1").await.code(), Code::NoSuchCluster);
    assert_eq!(locked("c-a1").await.status, 200);
}

#[tokio::test]
async fn roles_of_one_cluster_or_namespace_manage_nothing() {
    let rig = world().await;
    let of_cluster = Caller {
        clusters: ClusterScope::One("c-a1".parse().unwrap()),
        ..caller(Role::Admin, None)
    };
    let of_namespace = Caller {
        namespaces: vec!["shop".parse().unwrap()],
        ..caller(Role::Operator, Some("t-a"))
    };
    let of_selector = Caller {
        clusters: selected("env!=prod"),
        ..caller(Role::Admin, None)
    };
    for ann in [of_cluster, of_namespace, of_selector] {
        assert_eq!(rig.get(&ann, "/clusters/c-a1").await.status, 200);
        for (method, path) in [
            (Method::GET, "/v1/tokens"),
            (Method::GET, "/v1/locks"),
            (Method::GET, "/v1/audit"),
            (Method::DELETE, "/v1/requests/x"),
            (Method::DELETE, "/clusters/c-a1"),
            (Method::GET, "/v1/clusters/c-a1/bootstrap-token"),
            (Method::DELETE, "/v1/clusters/c-a1/identity"),
        ] {
            let refused = rig.call(&ann, method, path, Value::Null).await;
            assert_eq!(refused.code(), Code::NotAllowed, "{path}");
        }
    }
}

#[tokio::test]
async fn whoami_shows_each_role() {
    let rig = world().await;
    let ann = with(
        caller(Role::Viewer, None),
        vec![grant(Role::Operator, Some("t-a"), Some("c-a1"), &["shop"])],
    );
    let who = rig.get(&ann, "/v1/whoami").await.good();
    let expected = json!([{
        "role": "operator", "kind": "standing", "tenant": "t-a", "cluster": "c-a1", "namespaces": ["shop"],
    }]);
    assert_eq!(who["grants"], expected);
    assert_eq!(
        (&who["role"], &who["tenant"]),
        (&json!("viewer"), &Value::Null)
    );
}

async fn label(rig: &Rig, path: &str, patch: Value) {
    let labelled = rig
        .call(&crate::rig::admin(), Method::PATCH, path, patch)
        .await;
    assert_eq!(labelled.status, 200, "{}", labelled.text);
}

/// A world in which the clusters `c-a1` and `c-b1` have `env=prod`, and an operator of these.
async fn labelled_world() -> (Rig, Caller) {
    let rig = world().await;
    let prod = || json!({ "env": "prod" });
    // Annotations count before facts.
    let other = json!({ "facts": prod(), "annotations": { "env": "test" } });
    label(&rig, "/clusters/c-a1", json!({ "annotations": prod() })).await;
    label(&rig, "/clusters/c-b1", json!({ "facts": prod() })).await;
    label(&rig, "/clusters/c-b2", other).await;
    let own = Caller {
        clusters: selected("env=prod"),
        ..caller(Role::Operator, None)
    };
    (rig, own)
}

#[tokio::test]
async fn roles_by_labels_follow_the_labels_of_now() {
    let (rig, own) = labelled_world().await;
    let in_tenant = with(
        caller(Role::Viewer, Some("t-b")),
        vec![ScopedGrant {
            scope: GrantScope {
                clusters: selected("env in (prod, test)"),
                ..grant(Role::Operator, Some("t-a"), None, &["shop"]).scope
            },
            ..grant(Role::Operator, None, None, &[])
        }],
    );
    for (who, cluster, role) in [
        (&own, "c-a1", "operator"),
        (&own, "c-b1", "operator"),
        (&own, "c-b2", "FL-1301"),
        (&own, "c-a2", "FL-1301"),
        (&in_tenant, "c-a1", "none shop:operator"),
        (&in_tenant, "c-a2", "FL-1301"),
        (&in_tenant, "c-b1", "viewer"),
    ] {
        assert_eq!(in_cluster(&rig, who, cluster).await, role, "{cluster}");
    }
    let removed = json!({ "annotations": { "env": null } });
    label(&rig, "/clusters/c-a1", removed).await;
    assert_eq!(in_cluster(&rig, &own, "c-a1").await, "FL-1301");
    let template = json!({ "clusterTemplate": { "annotations": { "env": "prod" } } });
    label(&rig, "/tenants/t-a", template).await;
    assert_eq!(in_cluster(&rig, &own, "c-a1").await, "operator");
    assert_eq!(in_cluster(&rig, &own, "c-a2").await, "operator");
}

#[tokio::test]
async fn roles_by_labels_show_nothing_but_their_clusters() {
    let (rig, own) = labelled_world().await;
    let seen = async |who: &Caller, query: &str| {
        let list = rig.get(who, &format!("/clusters{query}")).await.good();
        let ids = list
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].to_string());
        ids.collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!(seen(&own, "").await, "c-a1 c-b1");
    let filtered = seen(&crate::rig::admin(), "?selector=env%3Dprod").await;
    assert_eq!(filtered, "c-a1 c-b1");
    assert_eq!(seen(&own, "?tenant=t-a").await, "c-a1");
    for path in [
        "/clusters/c-b2",
        "/clusters/c-a2",
        "/tenants/t-a",
        "/v1/clusters/c-b2/status",
    ] {
        let hidden = rig.get(&own, path).await;
        assert_eq!(hidden.status, 404, "{path}: {}", hidden.text);
    }
    let changes = rig.get(&own, "/v1/changes?since=1").await.good();
    let lines = changes["items"].as_array().unwrap();
    let is_own = |it: &Value| it["id"] == "c-a1" || it["id"] == "c-b1";
    assert!(!lines.is_empty() && lines.iter().all(is_own), "{changes}");
    let who = rig.get(&own, "/v1/whoami").await.good();
    assert_eq!(
        (&who["selector"], &who["cluster"]),
        (&json!("env=prod"), &Value::Null)
    );
}
