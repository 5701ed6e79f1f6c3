//! Network settings of sites: of tenants and clusters, in manifests and join strings.

use fairlead_api::{
    Code, JoinString,
    resources::{JoinInfo, Role},
};
use http::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::rig::{Rig, admin, caller};

/// A certificate authority in PEM.
fn authority() -> String {
    let folder = tempfile::tempdir().unwrap();
    let authority = fairlead_certs::Authority::open_or_create(folder.path()).unwrap();
    authority.certificate_pem().to_owned()
}

async fn patch(rig: &Rig, path: &str, body: Value) -> crate::rig::Reply {
    rig.call(&admin(), Method::PATCH, path, body).await
}

/// Objects of the cluster's install manifest, and the hubs of its join string.
async fn installed(rig: &Rig, cluster: &str) -> (Vec<Value>, Vec<String>) {
    let path = format!("/v1/clusters/{cluster}/bootstrap-token");
    let join = rig.get(&admin(), &path).await.good();
    let join: JoinInfo = serde_json::from_value(join).unwrap();
    let url = join.agent_install_url.expose_secret();
    let path = url.strip_prefix("https://hub.example:8443").unwrap();
    let manifest = rig.open(path).await;
    assert_eq!(manifest.status, StatusCode::OK, "{}", manifest.text);
    let objects = serde_saphyr::from_multiple(&manifest.text).unwrap();
    let string: JoinString = join.join.expose_secret().parse().unwrap();
    let hubs = string.hubs.iter().map(ToString::to_string);
    (objects, hubs.collect())
}

fn variable(objects: &[Value], name: &str) -> Value {
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
    let agent = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0];
    let variables = agent["env"].as_array().unwrap();
    let found = variables.iter().find(|it| it["name"] == name);
    found.cloned().unwrap_or_default()
}

#[tokio::test]
async fn settings_of_a_tenant_reach_the_manifest_and_the_cluster_wins() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let (objects, hubs) = installed(&rig, "c-demo").await;
    assert_eq!(variable(&objects, "HTTPS_PROXY"), Value::Null);
    assert_eq!(hubs, ["https://hub.example:8443"]);

    let authority = authority();
    let site = json!({
        "proxy": { "secret": "proxy", "noProxy": "10.0.0.0/8" },
        "ca": authority,
        "hubs": ["https://two.example"],
    });
    let template = json!({ "clusterTemplate": { "site": site } });
    let tenant = patch(&rig, "/tenants/t-acme", template).await.good();
    assert_eq!(tenant["clusterTemplate"]["site"], site);
    let (objects, hubs) = installed(&rig, "c-demo").await;
    let reference = &variable(&objects, "HTTPS_PROXY")["valueFrom"]["secretKeyRef"];
    assert_eq!(*reference, json!({ "name": "proxy", "key": "HTTPS_PROXY" }));
    assert_eq!(variable(&objects, "NO_PROXY")["value"], "10.0.0.0/8");
    let file = variable(&objects, "FAIRLEAD_CA_FILE");
    assert_eq!(file["value"], "/etc/fairlead/site-ca/ca.crt");
    let mounted = objects.iter().find(|it| it["kind"] == "ConfigMap");
    assert_eq!(mounted.unwrap()["data"]["ca.crt"], authority);
    assert_eq!(hubs, ["https://hub.example:8443", "https://two.example"]);

    let own = json!({ "site": { "proxy": { "url": "http://proxy:3128" } } });
    let shown = patch(&rig, "/clusters/c-demo", own.clone()).await.good();
    assert_eq!(
        shown["site"], own["site"],
        "values of the tenant are its own"
    );
    let (objects, hubs) = installed(&rig, "c-demo").await;
    assert_eq!(
        variable(&objects, "HTTPS_PROXY")["value"],
        "http://proxy:3128"
    );
    assert_eq!(variable(&objects, "NO_PROXY")["value"], "10.0.0.0/8");
    assert_eq!(hubs.len(), 2);
    let effective = rig.get(&admin(), "/v1/clusters/c-demo/effective").await;
    let effective = effective.good();
    assert_eq!(effective["site.proxy.url"]["from"], "cluster");
    assert_eq!(effective["site.proxy.noProxy"]["from"], "template");
    assert_eq!(effective["site.proxy.secret"], Value::Null);

    let direct = json!({ "site": { "proxy": { "url": "none" } } });
    patch(&rig, "/clusters/c-demo", direct).await.good();
    let (objects, _) = installed(&rig, "c-demo").await;
    assert_eq!(variable(&objects, "HTTPS_PROXY"), Value::Null);
    assert_eq!(variable(&objects, "NO_PROXY"), Value::Null);
}

#[tokio::test]
async fn put_keeps_settings_that_it_does_not_name() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let site = json!({ "hubs": ["https://two.example"] });
    patch(&rig, "/clusters/c-demo", json!({ "site": site }))
        .await
        .good();
    let put = async |body: Value| {
        rig.call(&admin(), Method::PUT, "/clusters/c-demo", body)
            .await
            .good()
    };
    let kept = put(json!({ "tenant": "t-default" })).await;
    assert_eq!(kept["site"], site);
    let gone = put(json!({ "tenant": "t-default", "site": null })).await;
    assert_eq!(gone["site"], Value::Null);
}

#[tokio::test]
async fn invalid_settings_and_callers_without_the_right_are_refused() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let secret = json!({ "proxy": { "url": "http://user:password@proxy:3128" } });
    for (path, body) in [
        ("/clusters/c-demo", json!({ "site": secret })),
        (
            "/tenants/t-default",
            json!({ "clusterTemplate": { "site": secret } }),
        ),
        ("/clusters/c-demo", json!({ "site": { "ca": "KEY" } })),
    ] {
        let refused = patch(&rig, path, body).await;
        assert_eq!(refused.code(), Code::BadSite, "{path}");
        assert!(!refused.text.contains("password@"), "{}", refused.text);
    }
    let site = json!({ "site": { "hubs": ["https://other.example"] } });
    for role in [Role::Operator, Role::Viewer] {
        let refused = rig
            .call(
                &caller(role, None),
                Method::PATCH,
                "/clusters/c-demo",
                site.clone(),
            )
            .await;
        assert_eq!(refused.code(), Code::NotAllowed, "{role}");
    }
}
