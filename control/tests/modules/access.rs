//! Roles for a time, approved by a second person, and roles taken in an emergency.

use std::sync::Arc;

use fairlead_api::{Code, resources::Role};
use fairlead_seam::{
    Caller, ClusterScope, GrantKind, GrantScope, ScopedGrant, Subject, SubjectProof,
};
use http::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{FROM, Rig, admin, caller};

fn person(name: &str, role: Role) -> Caller {
    Caller {
        name: format!("corp.{name}"),
        subject: Some(Subject {
            issuer: "https://corp.example".into(),
            sub: name.to_owned(),
            proof: SubjectProof::Signed,
        }),
        ..caller(role, None)
    }
}

async fn world() -> Rig {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.cluster("one", "t-a").await;
    rig
}

fn wish() -> Value {
    json!({ "cluster": "c-one", "role": "operator", "durationSeconds": 7200, "reason": "ticket 17" })
}

async fn request(rig: &Rig, who: &Caller, wish: Value) -> String {
    let made = rig.post(who, "/v1/access-requests", wish).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.good();
    assert_eq!(made["state"], "pending");
    made["id"].as_str().unwrap().to_owned()
}

async fn act(rig: &Rig, who: &Caller, id: &str, act: &str) -> Result<Value, Code> {
    let path = format!("/v1/access-requests/{id}/{act}");
    let reply = rig
        .post(who, &path, json!({ "comment": "as agreed" }))
        .await;
    match reply.status.is_success() {
        true => Ok(reply.good()),
        false => Err(reply.code()),
    }
}

/// The role of a caller in the cluster now, as the re-check of a running request finds it.
async fn role_now(rig: &Rig, who: &Caller) -> String {
    let seam = rig.control.seam();
    let now = seam.authenticator.recheck(who).await.unwrap();
    let cluster = "c-one".parse().unwrap();
    match seam.authorizer.authorize(&now, &cluster).await {
        Ok(grant) => {
            let namespaces = grant.namespaces.iter();
            let namespaces = namespaces.map(|it| format!(" {}:{}", it.namespace.as_str(), it.role));
            let role = grant.role.map_or("none", Role::as_str);
            format!("{role}{}", namespaces.collect::<String>())
        }
        Err(error) => error.code().to_string(),
    }
}

async fn authenticated(rig: &Rig, token: &SecretString) -> Caller {
    let seam = rig.control.seam();
    seam.authenticator.authenticate(token, FROM).await.unwrap()
}

#[tokio::test]
async fn an_approved_role_counts_until_its_end() {
    let rig = world().await;
    let (ann, bob) = (person("ann", Role::Viewer), person("bob", Role::Admin));
    let id = request(&rig, &ann, wish()).await;
    assert_eq!(role_now(&rig, &ann).await, "viewer");
    let approved = act(&rig, &bob, &id, "approve").await.unwrap();
    assert_eq!(approved["state"], "active");
    assert_eq!(approved["approved"]["by"], "corp.bob");
    assert_eq!(role_now(&rig, &ann).await, "operator");
    // A person of the same name at another issuer gets nothing.
    let mut other = ann.clone();
    other.subject.as_mut().unwrap().issuer = "https://other.example".into();
    assert_eq!(role_now(&rig, &other).await, "viewer");
    // The role counts in clusters only.
    let seam = rig.control.seam();
    let now = seam.authenticator.recheck(&ann).await.unwrap();
    let catalog = rig.get(&now, "/v1/clusters/c-one/catalog").await;
    assert_eq!(catalog.code(), Code::NotAllowed);
    let whoami = rig.get(&now, "/v1/whoami").await.good();
    assert_eq!(whoami["grants"][0]["request"], id);

    rig.advance(Duration::seconds(7199));
    assert_eq!(role_now(&rig, &now).await, "operator");
    rig.advance(Duration::seconds(1));
    assert_eq!(role_now(&rig, &now).await, "viewer");
    let reason = seam.authorizer.end_of_access(&id).unwrap();
    assert!(reason.contains("has ended"), "{reason}");
    let listed = rig
        .get(&ann, "/v1/access-requests?state=expired")
        .await
        .good();
    assert_eq!(listed["items"][0]["id"], id);
    assert_eq!(act(&rig, &bob, &id, "approve").await, Err(Code::Conflict));
}

#[tokio::test]
async fn nobody_decides_on_the_own_request() {
    let rig = world().await;
    // The requester is an admin of another tenant's eyes: right and person are two checks.
    let ann = person("ann", Role::Admin);
    let id = request(&rig, &ann, wish()).await;
    assert_eq!(
        act(&rig, &ann, &id, "approve").await,
        Err(Code::SecondPerson)
    );
    // Another name of the same subject.
    let mut renamed = ann.clone();
    renamed.name = "corp.ann-2".to_owned();
    assert_eq!(
        act(&rig, &renamed, &id, "approve").await,
        Err(Code::SecondPerson)
    );
    // A token of the requester.
    let body = json!({ "name": "robot", "role": "admin" });
    let made = rig.post(&ann, "/v1/tokens", body).await;
    if made.status.is_success() {
        let token = made.good()["token"].as_str().unwrap().to_owned();
        let seam = rig.control.seam();
        if let Ok(robot) = seam.authenticator.authenticate(&token.into(), FROM).await {
            assert_eq!(
                act(&rig, &robot, &id, "approve").await,
                Err(Code::SecondPerson)
            );
        }
    }
    let viewer = person("eve", Role::Viewer);
    assert_eq!(
        act(&rig, &viewer, &id, "approve").await,
        Err(Code::NotFound)
    );
    let elsewhere = caller(Role::Admin, Some("t-b"));
    assert_eq!(
        act(&rig, &elsewhere, &id, "approve").await,
        Err(Code::NotFound)
    );
    let of_cluster = Caller {
        clusters: ClusterScope::One("c-one".parse().unwrap()),
        ..person("carl", Role::Admin)
    };
    assert_eq!(
        act(&rig, &of_cluster, &id, "approve").await,
        Err(Code::NotFound)
    );
    act(&rig, &caller(Role::Admin, Some("t-a")), &id, "approve")
        .await
        .unwrap();
}

#[tokio::test]
async fn the_owner_of_a_token_does_not_decide_for_it() {
    let rig = world().await;
    let owner = rig.mint("owner", Role::Admin, None, None).await;
    let owner = authenticated(&rig, &owner).await;
    let body = json!({ "name": "robot", "role": "viewer" });
    let made = rig.post(&owner, "/v1/tokens", body).await.good();
    let robot = made["token"].as_str().unwrap().to_owned().into();
    let robot = authenticated(&rig, &robot).await;
    let id = request(&rig, &robot, wish()).await;
    assert_eq!(
        act(&rig, &owner, &id, "approve").await,
        Err(Code::SecondPerson)
    );
    act(&rig, &admin(), &id, "approve").await.unwrap();
    assert_eq!(role_now(&rig, &robot).await, "operator");
    // Another token of the same name gets nothing.
    let twin = rig.mint("robot", Role::Viewer, None, None).await;
    let twin = authenticated(&rig, &twin).await;
    assert_eq!((&twin.name, twin.grants.len()), (&robot.name, 0));
}

#[tokio::test]
async fn a_revoked_role_ends_with_its_reason() {
    let rig = world().await;
    let (ann, bob) = (person("ann", Role::Viewer), person("bob", Role::Admin));
    let in_shop = json!({
        "cluster": "c-one", "role": "operator", "namespaces": ["shop"], "reason": "ticket 18",
    });
    let id = request(&rig, &ann, in_shop).await;
    act(&rig, &bob, &id, "approve").await.unwrap();
    assert_eq!(role_now(&rig, &ann).await, "viewer shop:operator");
    act(&rig, &bob, &id, "revoke").await.unwrap();
    assert_eq!(role_now(&rig, &ann).await, "viewer");
    let seam = rig.control.seam();
    let reason = seam.authorizer.end_of_access(&id).unwrap();
    assert_eq!(
        reason,
        format!("access {id} was revoked by corp.bob: as agreed")
    );
    // The holder may give a role up.
    let id = request(&rig, &ann, wish()).await;
    act(&rig, &bob, &id, "approve").await.unwrap();
    act(&rig, &ann, &id, "revoke").await.unwrap();
    assert_eq!(role_now(&rig, &ann).await, "viewer");
    let lines = rig.get(&admin(), "/v1/audit").await.good();
    let lines = lines["items"].as_array().unwrap().iter();
    let acts = lines.filter(|line| line["kind"] == "access" && line["id"] == id.as_str());
    assert_eq!(acts.count(), 3, "request, approval and end");
}

/// The permission for TCP connections now, the role at the API server, and the access requests behind both.
async fn tcp_now(rig: &Rig, who: &Caller) -> (bool, Option<Role>, Vec<String>) {
    let seam = rig.control.seam();
    let now = seam.authenticator.recheck(who).await.unwrap();
    let cluster = "c-one".parse().unwrap();
    let grant = seam.authorizer.authorize(&now, &cluster).await.unwrap();
    let access = grant.access.iter().map(ToString::to_string);
    (grant.tcp, grant.role, access.collect())
}

#[tokio::test]
async fn a_role_for_tcp_connections_counts_for_a_time_beside_the_others() {
    let rig = world().await;
    let (ann, bob) = (person("ann", Role::Viewer), person("bob", Role::Admin));
    let wish = |role: &str| json!({ "cluster": "c-one", "role": role, "durationSeconds": 7200, "reason": "ticket 19" });
    let viewer = Some(Role::Viewer);
    assert_eq!(tcp_now(&rig, &ann).await, (false, viewer, vec![]));
    let id = request(&rig, &ann, wish("tcp")).await;
    assert_eq!(act(&rig, &ann, &id, "approve").await, Err(Code::NotAllowed));
    assert_eq!(tcp_now(&rig, &ann).await, (false, viewer, vec![]));
    act(&rig, &bob, &id, "approve").await.unwrap();
    let granted = (true, viewer, vec![id.clone()]);
    assert_eq!(tcp_now(&rig, &ann).await, granted);
    rig.advance(Duration::hours(2));
    assert_eq!(tcp_now(&rig, &ann).await, (false, viewer, vec![]));
    let seam = rig.control.seam();
    let reason = seam.authorizer.end_of_access(&id).unwrap();
    assert_eq!(reason, format!("access {id} has ended"));

    // An admin for a time has it, too; both roles come from one request.
    let id = request(&rig, &ann, wish("admin")).await;
    act(&rig, &bob, &id, "approve").await.unwrap();
    let granted = (true, Some(Role::Admin), vec![id.clone()]);
    assert_eq!(tcp_now(&rig, &ann).await, granted);
    act(&rig, &bob, &id, "revoke").await.unwrap();
    assert_eq!(tcp_now(&rig, &ann).await, (false, viewer, vec![]));

    // A lasting role does not depend on the request.
    let lasting = ScopedGrant {
        role: Role::Tcp,
        scope: GrantScope::default(),
        kind: GrantKind::Standing,
    };
    let own = Caller {
        grants: Arc::from(vec![lasting]),
        ..person("own", Role::Viewer)
    };
    let id = request(&rig, &own, wish("tcp")).await;
    act(&rig, &bob, &id, "approve").await.unwrap();
    assert_eq!(tcp_now(&rig, &own).await, (true, viewer, vec![]));
}

#[tokio::test]
async fn a_role_does_not_survive_its_cluster() {
    let rig = world().await;
    let (ann, bob) = (person("ann", Role::Viewer), person("bob", Role::Admin));
    let id = request(&rig, &ann, wish()).await;
    act(&rig, &bob, &id, "approve").await.unwrap();
    assert_eq!(role_now(&rig, &ann).await, "operator");
    rig.delete(&admin(), "/clusters/c-one").await;
    rig.cluster("one", "t-a").await;
    assert_eq!(role_now(&rig, &ann).await, "viewer");
}

#[tokio::test]
async fn requests_have_limits() {
    let rig = world().await;
    let ann = person("ann", Role::Viewer);
    for (field, value) in [
        ("durationSeconds", json!(8 * 3600 + 1)),
        ("durationSeconds", json!(1)),
        ("role", json!("tenant")),
        ("role", Value::Null),
        ("reason", json!("")),
        ("reason", json!("two\nlines")),
        ("namespaces", json!(["kube-system"])),
        ("namespaces", json!(["fairlead"])),
    ] {
        let mut wish = wish();
        wish[field] = value.clone();
        let refused = rig.post(&ann, "/v1/access-requests", wish).await;
        assert_eq!(refused.code(), Code::Invalid, "{field} {value}");
    }
    let mut in_shop = wish();
    (in_shop["role"], in_shop["namespaces"]) = (json!("tcp"), json!(["shop"]));
    let refused = rig.post(&ann, "/v1/access-requests", in_shop).await;
    assert_eq!(refused.code(), Code::Invalid, "no role for a namespace");
    let hidden = person("eve", Role::Viewer);
    let hidden = Caller {
        tenant: Some("t-b".parse().unwrap()),
        ..hidden
    };
    let refused = rig.post(&hidden, "/v1/access-requests", wish()).await;
    assert_eq!(refused.code(), Code::NoSuchCluster);
    let robot = caller(Role::Compile, None);
    let refused = rig.post(&robot, "/v1/access-requests", wish()).await;
    assert_eq!(refused.code(), Code::NotAllowed);
    for _ in 0..20 {
        request(&rig, &ann, wish()).await;
    }
    let refused = rig.post(&ann, "/v1/access-requests", wish()).await;
    assert_eq!(refused.code(), Code::Conflict);
    rig.advance(Duration::hours(25));
    let listed = rig
        .get(&ann, "/v1/access-requests?state=pending")
        .await
        .good();
    assert_eq!(listed["items"], json!([]), "nobody decided in a day");
}

#[tokio::test]
async fn an_emergency_counts_at_once_and_waits_for_a_review() {
    let rig = world().await;
    let wish = || json!({ "cluster": "c-one", "reason": "all pods are down" });
    let nobody = person("eve", Role::Admin);
    let refused = rig.post(&nobody, "/v1/break-glass", wish()).await;
    assert_eq!(refused.code(), Code::NotAllowed, "nobody may by default");
    let ann = Caller {
        grants: Arc::from(vec![ScopedGrant {
            role: Role::Operator,
            scope: GrantScope::default(),
            kind: GrantKind::BreakGlass,
        }]),
        ..person("ann", Role::Viewer)
    };
    let mut too_much = wish();
    too_much["role"] = json!("admin");
    let refused = rig.post(&ann, "/v1/break-glass", too_much).await;
    assert_eq!(refused.code(), Code::NotAllowed);
    let taken = rig.post(&ann, "/v1/break-glass", wish()).await;
    assert_eq!(taken.status, 201, "{}", taken.text);
    let taken = taken.good();
    assert_eq!(
        (&taken["role"], &taken["emergency"]),
        (&json!("operator"), &json!(true))
    );
    assert_eq!(taken["durationSeconds"], 3600);
    let id = taken["id"].as_str().unwrap();
    assert_eq!(role_now(&rig, &ann).await, "operator");
    rig.advance(Duration::hours(1));
    assert_eq!(role_now(&rig, &ann).await, "viewer");
    assert_eq!(act(&rig, &ann, id, "review").await, Err(Code::NotAllowed));
    let bob = person("bob", Role::Admin);
    let reviewed = act(&rig, &bob, id, "review").await.unwrap();
    assert_eq!(reviewed["reviewed"]["by"], "corp.bob");
    assert_eq!(act(&rig, &bob, id, "review").await, Err(Code::Conflict));
    let reply = rig
        .call(&bob, Method::GET, "/v1/access-requests", Value::Null)
        .await;
    assert_eq!(reply.good()["items"].as_array().unwrap().len(), 1);
}
