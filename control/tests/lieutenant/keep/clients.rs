//! Requests of Steward and Commodore, and public endpoints.

use fairlead_api::resources::Role;
use serde_json::json;

use crate::rig::{MERGE, Rig};

#[tokio::test]
async fn steward_reports_once_a_minute_and_reads_its_repository() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Cluster, None, Some("c-demo")).await;
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", MERGE),
        ("accept-encoding", "gzip"),
    ];
    // As long as a 4096-bit key.
    let key = format!("ssh-rsa {}\n", "A".repeat(716));
    let body = json!({
        "gitRepo": { "deployKey": key },
        "facts": { "cloud": "aws", "region": "eu-1", "distribution": "openshift4" },
        "dynamicFacts": {
            "kubernetesVersion": {
                "major": "1", "minor": "33", "gitVersion": "v1.33.1", "gitCommit": "8adc0f041b8e",
                "gitTreeState": "clean", "buildDate": "2026-05-15T08:19:08Z",
                "goVersion": "go1.24.2", "compiler": "gc", "platform": "linux/amd64",
            },
            "extra": "text",
        },
    });
    let body = body.to_string();
    assert!(body.len() > 1000, "{}", body.len());
    let mut versions = Vec::new();
    for _ in 0..3 {
        let reply = rig.send("PATCH", "/clusters/c-demo", &headers, &body).await;
        assert_eq!(reply.header("content-encoding"), "", "and gzip is no must");
        let shown = reply.good();
        assert_eq!(
            shown["gitRepo"]["url"],
            "ssh://git@git.example/syn/demo.git"
        );
        assert_eq!(shown["gitRepo"]["deployKey"], key);
        assert_eq!(shown["facts"]["region"], "eu-1");
        assert_eq!(shown["dynamicFacts"]["extra"], "text");
        versions.push(shown["version"].as_u64().unwrap());
        rig.advance(time::Duration::minutes(1));
    }
    assert_eq!(
        versions[0], versions[2],
        "an unchanged value is not written again"
    );
}

#[tokio::test]
async fn a_refused_steward_gets_a_reason() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Cluster, None, Some("c-demo")).await;
    let report = async |body: &str| rig.as_who(&token, "PATCH", "/clusters/c-demo", body).await;
    let forbidden = report(r#"{"displayName":"x"}"#).await;
    assert_eq!(
        (forbidden.status, forbidden.reason().is_empty()),
        (403, false)
    );
    report("{").await.is(400, "invalid character");
    assert_eq!(report(r#"{"facts":{"cloud":"x"}}"#).await.status, 200);
    // An unused token has no entry in the cache of verified tokens.
    let unused = rig.token(Role::Cluster, None, Some("c-demo")).await;
    assert_eq!(rig.call("DELETE", "/clusters/c-demo", "").await.status, 204);
    let gone = rig.as_who(&unused, "PATCH", "/clusters/c-demo", "{}").await;
    assert_eq!((gone.status, gone.reason().is_empty()), (401, false));
}

#[tokio::test]
async fn commodore_lists_and_reads_clusters_and_tenants() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Compile, None, None).await;
    let read = async |path: &str| rig.as_who(&token, "GET", path, "").await.good();
    for list in ["/clusters/", "/clusters/?sort_by=tenant&tenant=t-acme"] {
        assert_eq!(read(list).await[0]["displayName"], "Demo", "{list}");
    }
    let cluster = read("/clusters/c-demo").await;
    assert_eq!(
        cluster["facts"],
        json!({ "cloud": "aws", "distribution": "openshift4" })
    );
    assert_eq!(
        cluster["gitRepo"]["url"],
        "ssh://git@git.example/syn/demo.git"
    );
    let tenant = read("/tenants/t-acme").await;
    assert_eq!(
        tenant["gitRepo"]["url"],
        "ssh://git@git.example/syn/tenant.git"
    );
    assert_eq!(
        tenant["globalGitRepoURL"],
        "ssh://git@git.example/syn/global.git"
    );
}

#[tokio::test]
async fn commodore_reports_compilations_and_gets_an_empty_response() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Compile, None, None).await;
    let meta = json!({
        "commodoreBuildInfo": { "gitVersion": "1", "version": "v1.20.0" },
        "global": { "gitSha": "a", "url": "u", "version": "master" },
        "tenant": { "gitSha": "b", "url": "u", "version": "master" },
        "instances": { "argocd": { "component": "argocd", "gitSha": "c", "path": "/", "url": "u", "version": "v1.0.0" } },
        "packages": {},
        "lastCompile": "2026-11-21T13:00:00.123+02:00",
    });
    let path = "/clusters/c-demo/compileMeta";
    let stored = rig.as_who(&token, "POST", path, &meta.to_string()).await;
    assert_eq!((stored.status, stored.text.as_str()), (204, ""));
    let shown = rig
        .as_who(&token, "GET", "/clusters/c-demo", "")
        .await
        .good();
    let shown = &shown["compileMeta"];
    assert_eq!(shown["lastCompile"], "2026-11-21T11:00:00.123Z");
    for part in ["commodoreBuildInfo", "global", "tenant", "instances"] {
        assert_eq!(shown[part], meta[part], "{part}");
    }
}

#[tokio::test]
async fn commodore_without_a_token_is_refused() {
    let rig = Rig::new().await;
    for (sent, status) in [("Bearer None", 401), ("Bearer ", 400), ("Bearer", 400)] {
        let headers = [("authorization", sent)];
        for path in ["/clusters/", "/clusters/c-demo", "/tenants/t-acme"] {
            let reply = rig.send("GET", path, &headers, "").await;
            assert_eq!(reply.status, status, "{sent:?} {path}");
            assert!(!reply.reason().is_empty());
        }
    }
}

#[tokio::test]
async fn the_root_names_the_login_services() {
    let rig = Rig::with(|config| {
        config.registry.discovery.oidc =
            Some(("https://id.example/x".to_owned(), "syn".to_owned()));
        config.registry.discovery.vault =
            Some(("https://vault.example".to_owned(), Some("oidc".to_owned())));
    })
    .await;
    let root = rig.send("GET", "/", &[], "").await.good();
    assert_eq!(
        root["oidc"],
        json!({ "discoveryUrl": "https://id.example/x", "clientId": "syn" })
    );
    assert_eq!(
        root["vault"],
        json!({ "addr": "https://vault.example", "loginMethod": "oidc" })
    );
    assert!(root["apiVersion"].is_string());
}

#[tokio::test]
async fn api_description_and_health_are_public() {
    let rig = Rig::new().await;
    for (path, kind, says) in [
        ("/healthz", "text/plain", "ok"),
        ("/openapi.json", "application/json", "\"openapi\":\"3.1.0\""),
        ("/docs", "text/html", "<html"),
    ] {
        for headers in [&[][..], &[("authorization", "Bearer wrong")]] {
            let reply = rig.send("GET", path, headers, "").await;
            assert_eq!(reply.status, 200, "{path}");
            assert!(reply.header("content-type").starts_with(kind), "{path}");
            assert!(reply.text.contains(says), "{path}");
        }
    }
}
