//! Clusters, from registration to deletion.

use fairlead_api::{
    ClusterId, Code,
    resources::{ClusterState, ClusterStatus, JoinInfo, LastError, Role},
};
use http::{Method, StatusCode, header};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use time::Duration;

use fairlead_seam::Caller;

use crate::rig::{FROM, Rig, admin, caller};

#[tokio::test]
async fn a_cluster_is_registered_with_one_command_for_its_site() {
    let rig = Rig::new().await;
    let body = json!({ "id": "demo", "displayName": "Demo", "tenant": "t-default" });
    let made = rig.post(&admin(), "/clusters", body.clone()).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(made.headers[header::CACHE_CONTROL], "no-store");
    let info = made.good();
    assert_eq!(
        (&info["id"], &info["tenant"]),
        (&json!("c-demo"), &json!("t-default"))
    );
    assert_eq!(info["expires"], "2026-11-21T12:30:00Z");
    let url = info["installURL"].as_str().unwrap();
    assert!(
        url.starts_with("https://hub.example:8443/install/steward.json?token=c-demo.")
            && url.contains(".1."),
        "{url}"
    );
    assert!(info["join"].as_str().unwrap().starts_with("fl1."));
    let twice = rig.post(&admin(), "/clusters", body).await;
    assert_eq!(twice.code(), Code::Conflict);

    let shown = rig.get(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(
        shown["installURL"], info["installURL"],
        "it can be shown again"
    );
    assert_eq!(shown["displayName"], "Demo");
    let status = json!({ "state": "Never", "since": "2026-11-21T12:00:00.25Z", "lastError": null });
    assert_eq!(shown["status"], status);
    let again = rig
        .get(&admin(), "/v1/clusters/c-demo/bootstrap-token")
        .await
        .good();
    assert_eq!(again["join"], info["join"]);
    for reader in [
        caller(Role::Operator, None),
        caller(Role::Viewer, Some("t-default")),
    ] {
        let shown = rig.get(&reader, "/clusters/c-demo").await.good();
        assert!(
            shown.get("installURL").is_none(),
            "{} may not install",
            reader.name
        );
        let refused = rig
            .get(&reader, "/v1/clusters/c-demo/bootstrap-token")
            .await;
        assert_eq!(refused.code(), Code::NotAllowed);
    }
    rig.advance(Duration::minutes(30));
    let late = rig.get(&admin(), "/clusters/c-demo").await.good();
    assert!(late.get("installURL").is_none());
    let late = rig
        .get(&admin(), "/v1/clusters/c-demo/bootstrap-token")
        .await;
    assert_eq!(late.code(), Code::NotFound);
    let fresh = rig
        .post(&admin(), "/v1/clusters/c-demo/bootstrap-token", Value::Null)
        .await
        .good();
    assert!(fresh["installURL"].as_str().unwrap().contains(".2."));
}

#[tokio::test]
async fn a_cluster_without_name_gets_a_generated_one() {
    let rig = Rig::new().await;
    let info = rig
        .post(&admin(), "/clusters", json!({ "tenant": "t-default" }))
        .await
        .good();
    let id: ClusterId = info["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(id.as_str().split('-').count(), 4);
    assert_eq!(info["displayName"], id.as_str());
}

#[tokio::test]
async fn ambiguous_unique_names_are_rejected() {
    let rig = Rig::new().await;
    let named = |name: &str, id: Option<&str>| {
        let mut body = json!({ "displayName": name, "tenant": "t-default" });
        if let Some(id) = id {
            body["id"] = id.into();
        }
        body
    };
    let unique = "/clusters?uniqueName=true";
    let made = rig
        .post(&admin(), unique, named("demo", Some("c-one")))
        .await;
    assert_eq!(made.status, StatusCode::CREATED);
    for (name, id, cause) in [
        ("demo", None, "with the name \"demo\""),
        ("demo", Some("c-two"), "with the name \"demo\""),
        ("c-one", None, "is the id of another cluster"),
    ] {
        let refused = rig.post(&admin(), unique, named(name, id)).await;
        assert_eq!(refused.code(), Code::Conflict, "{name} {id:?}");
        let told = refused.json();
        let reason = told["reason"].as_str().unwrap();
        assert!(reason.contains("c-one") && reason.contains(cause), "{told}");
        assert!(
            told["next"]
                .as_str()
                .unwrap()
                .contains("--allow-duplicate-name"),
            "{told}"
        );
    }
    let all = rig.get(&admin(), "/clusters").await.good();
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    // Lieutenant's clients may create two clusters with one name, and so may two tenants.
    let twice = rig.post(&admin(), "/clusters", named("demo", None)).await;
    assert_eq!(twice.status, StatusCode::CREATED);
    let tenant = json!({ "id": "t-b", "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", tenant).await.good();
    let elsewhere = json!({ "displayName": "demo", "tenant": "t-b" });
    let made = rig.post(&admin(), unique, elsewhere).await;
    assert_eq!(made.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_deleted_cluster_is_announced_and_its_identity_invalid() {
    let rig = Rig::new().await;
    let directory = rig.control.seam().directory;
    let mut deleted = directory.revocations();
    let join: JoinInfo = rig.cluster("demo", "t-default").await;
    let (_, identity) = rig.enrolled(&join).await;
    directory.admit(&identity).await.unwrap();
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(deleted.try_recv().unwrap(), join.id);
    let gone = directory.admit(&identity).await.unwrap_err();
    assert_eq!(gone.code(), Code::ClusterDeleted);
    assert_eq!(directory.last_status(&join.id).await.unwrap(), None);

    // Registered again within the same second: the old identity stays invalid, a new one is valid
    // at once.
    let join = rig.cluster("demo", "t-default").await;
    let old = directory.admit(&identity).await.unwrap_err();
    assert_eq!(old.code(), Code::IdentityRevoked);
    let (_, renewed) = rig.enrolled(&join).await;
    directory.admit(&renewed).await.unwrap();
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let moved = directory.admit(&renewed).await.unwrap_err();
    assert_eq!(moved.code(), Code::IdentityRevoked);
}

#[tokio::test]
async fn a_restart_keeps_everything_but_the_sessions() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    let token = rig.token(Role::Viewer).await;
    let (ca, trust_domain) = (
        rig.control.ca_pem().to_owned(),
        rig.control.trust_domain().to_owned(),
    );
    let directory = rig.control.seam().directory;
    let connected = ClusterStatus {
        state: ClusterState::Connected,
        since: rig.now(),
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    directory.report(&join.id, connected.clone()).await.unwrap();
    assert_eq!(
        directory.last_status(&join.id).await.unwrap(),
        Some(connected)
    );
    drop(directory);
    rig.advance(Duration::minutes(5));
    let rig = rig.restart().await;
    assert_eq!(rig.control.ca_pem(), ca);
    assert_eq!(rig.control.trust_domain(), trust_domain);
    let seam = rig.control.seam();
    seam.authenticator.authenticate(&token, FROM).await.unwrap();
    let lost = ClusterStatus {
        state: ClusterState::Lost,
        since: rig.now(),
        last_error: Some(LastError {
            code: Code::Lost,
            cause: "the hub was restarted".to_owned(),
        }),
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    assert_eq!(
        seam.directory.last_status(&join.id).await.unwrap(),
        Some(lost)
    );
    let shown = rig.get(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(
        shown["installURL"],
        join.install_url.expose_secret(),
        "the invitation is still good"
    );
    let key = fairlead_certs::AgentKey::generate().unwrap();
    rig.enroll(&crate::rig::bootstrap(&join), &key.csr().unwrap())
        .await
        .good();
}

#[tokio::test]
async fn repository_locations_come_from_templates_without_secrets() {
    let rig = Rig::new().await;
    let template =
        json!({ "clusterTemplate": { "gitRepo": { "path": "customers", "repoName": "x" } } });
    let tenant = "/tenants/t-default";
    rig.call(&admin(), Method::PATCH, tenant, template)
        .await
        .good();
    let secret = json!({ "name": "git-api", "namespace": "git" });
    let repo = json!({ "type": "unmanaged", "repoName": "demo", "apiSecretRef": secret });
    let body = json!({ "tenant": "t-default", "gitRepo": repo });
    let cluster = "/clusters/c-demo";
    let made = rig.call(&admin(), Method::PUT, cluster, body).await.good();
    let repo = &made["gitRepo"];
    assert_eq!(
        (&repo["path"], &repo["repoName"], &repo["apiSecretRef"]),
        (&json!("customers"), &json!("demo"), &secret)
    );
    let effective = rig.get(&admin(), "/v1/clusters/c-demo/effective").await;
    let effective = effective.good();
    assert_eq!(effective["gitRepo.path"]["from"], "template");
    assert_eq!(effective["gitRepo.repoName"]["from"], "cluster");
    let patch = json!({ "gitRepo": { "repoName": null, "apiSecretRef": null } });
    let patched = rig.call(&admin(), Method::PATCH, cluster, patch).await;
    let patched = patched.good();
    assert_eq!(patched["gitRepo"]["repoName"], "x");
    assert_eq!(patched["gitRepo"]["apiSecretRef"], Value::Null);
    for wrong in [
        json!({ "token": "s3cret" }),
        json!({ "name": "a", "value": "s3cret" }),
    ] {
        let patch = json!({ "gitRepo": { "apiSecretRef": wrong } });
        let refused = rig.call(&admin(), Method::PATCH, cluster, patch).await;
        assert_eq!(refused.code(), Code::Invalid);
    }
}

#[tokio::test]
async fn activity_has_visible_clusters_only() {
    let rig = Rig::new().await;
    for (tenant, cluster) in [("acme", "demo"), ("other", "hidden")] {
        rig.tenant(tenant).await;
        rig.cluster(cluster, tenant).await;
    }
    let ids = async |who: &Caller, query: &str| {
        let path = format!("/v1/activity{query}");
        let found = rig.get(who, &path).await.good();
        let clusters = found["clusters"].as_array().unwrap().clone();
        let ids = clusters.iter().map(|it| it["id"].as_str().unwrap());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    let viewer = caller(Role::Viewer, Some("t-acme"));
    assert_eq!(ids(&viewer, "").await, ["c-demo"]);
    assert_eq!(ids(&viewer, "?tenant=t-other").await, [""; 0]);
    assert_eq!(ids(&admin(), "").await, ["c-demo", "c-hidden"]);
    assert_eq!(ids(&admin(), "?tenant=t-other").await, ["c-hidden"]);
    assert_eq!(ids(&admin(), "?text=DEM").await, ["c-demo"]);
    let found = rig.get(&viewer, "/v1/activity").await.good();
    let cluster = &found["clusters"][0];
    assert_eq!(cluster["state"], "Never");
    assert!(cluster.get("sessions").is_none(), "{cluster}");
}
