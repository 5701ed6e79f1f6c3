//! From the registration of a cluster to the manifests of its agent.

use fairlead_api::resources::Role;
use fairlead_runtime::proxies::Proxies;
use serde_json::{Value, json};

use crate::rig::{Rig, install_path};

#[tokio::test]
async fn the_install_url_is_shown_while_its_token_is_valid() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let url = &made["installURL"];
    let start = "https://hub.example/install/steward.json?token=";
    assert!(url.as_str().unwrap().starts_with(start), "{url}");
    let everywhere = async |token: &str| {
        let [one, list] =
            ["/clusters/c-demo", "/clusters"].map(|path| rig.as_who(token, "GET", path, ""));
        [
            one.await.good()["installURL"].clone(),
            list.await.good()[0]["installURL"].clone(),
        ]
    };
    let patched = rig.patch("/clusters/c-demo", &json!({ "facts": {} })).await;
    assert_eq!(patched.good()["installURL"], *url);
    let tokens = [
        (rig.token(Role::Admin, None, None).await, url),
        (rig.token(Role::Tenant, Some("t-acme"), None).await, url),
        (rig.token(Role::Viewer, None, None).await, &Value::Null),
        (rig.token(Role::Compile, None, None).await, &Value::Null),
        (
            rig.token(Role::Cluster, None, Some("c-demo")).await,
            &Value::Null,
        ),
    ];
    for (token, seen) in &tokens {
        let told = everywhere(token).await;
        assert!(told.iter().all(|it| it == *seen), "{told:?}, not {seen}");
    }
    rig.advance(time::Duration::minutes(30));
    let (admin, _) = &tokens[0];
    assert_eq!(everywhere(admin).await, [Value::Null, Value::Null]);
}

#[tokio::test]
async fn a_bootstrap_token_is_in_no_database() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let again = rig.get("/v1/clusters/c-demo/bootstrap-token").await.good();
    assert_eq!(again["installURL"], made["installURL"]);
    let path = install_path(&made);
    let (_, hash) = path.rsplit_once('.').unwrap();
    assert!(hash.len() > 30, "{hash}");
    rig.control.close().await;
    let (mut files, mut folders) = (0, vec![rig.data()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(path).unwrap();
            let kept = bytes.windows(hash.len()).any(|it| it == hash.as_bytes());
            assert!(!kept);
            files += 1;
        }
    }
    assert!(files > 2, "{files}");
}

#[tokio::test]
async fn a_bootstrap_token_is_refused_with_lieutenants_error_texts() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let path = install_path(&made);
    for none in ["/install/steward.json", "/install/steward.json?token="] {
        assert_eq!(rig.send("GET", none, &[], "").await.status, 400);
    }
    let says = async |path: &str| {
        let reply = rig.send("GET", path, &[], "").await;
        (reply.status, reply.reason())
    };
    let invalid = (401, "Invalid token".to_owned());
    assert_eq!(says("/install/steward.json?token=nonsense").await, invalid);
    assert_eq!(says(&path.replace("c-demo", "c-none")).await, invalid);
    assert_eq!(rig.send("GET", &path, &[], "").await.status, 200);
    let used = (401, "Token already used or expired".to_owned());
    assert_eq!(says(&path).await, used);
    let again = "/v1/clusters/c-demo/bootstrap-token";
    let renewed = rig.call("POST", again, "{}").await.good();
    rig.advance(time::Duration::minutes(30));
    assert_eq!(says(&install_path(&renewed)).await, used);
}

#[tokio::test]
async fn the_manifests_are_six_in_their_order() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let list = rig.send("GET", &install_path(&made), &[], "").await;
    assert_eq!(list.header("cache-control"), "no-store");
    let list = list.good();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("v1"), &json!("List"))
    );
    let items = list["items"].as_array().unwrap();
    let names = items.iter().map(|it| {
        let name = it["metadata"]["name"].as_str().unwrap();
        format!("{} {name}", it["kind"].as_str().unwrap())
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "Namespace syn",
            "ClusterRole syn-admin",
            "ClusterRoleBinding syn-steward",
            "ServiceAccount steward",
            "Deployment steward",
            "Secret steward",
        ]
    );
}

#[tokio::test]
async fn stewards_environment_is_in_its_order() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let list = rig.send("GET", &install_path(&made), &[], "").await.good();
    let container = &list["items"][4]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "steward:1");
    let of_secret = json!({ "secretKeyRef": { "name": "steward", "key": "token" } });
    let of_pod = json!({ "fieldRef": { "fieldPath": "metadata.namespace" } });
    assert_eq!(
        container["env"],
        json!([
            { "name": "STEWARD_API", "value": "https://hub.example" },
            { "name": "STEWARD_CLUSTER_ID", "value": "c-demo" },
            { "name": "STEWARD_TOKEN", "valueFrom": of_secret },
            { "name": "STEWARD_NAMESPACE", "valueFrom": of_pod },
        ])
    );
    assert!(list["items"][5]["stringData"]["token"].is_string());
}

#[tokio::test]
async fn only_a_trusted_proxy_determines_the_api_url() {
    for (proxies, told) in [
        (&["127.0.0.0/8"][..], "https://syn.example"),
        (&["192.0.2.0/24"], "https://hub.example"),
        (&[], "https://hub.example"),
    ] {
        let proxies = Proxies {
            trusted: proxies.iter().map(|it| it.parse().unwrap()).collect(),
            proxy_protocol: false,
        };
        let rig = Rig::behind(proxies, |_| {}).await;
        let made = rig.demo().await;
        let headers = [("host", "syn.example"), ("x-forwarded-proto", "https")];
        let list = rig.send("GET", &install_path(&made), &headers, "").await;
        let list = list.good();
        let env = &list["items"][4]["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(env[0]["value"], told);
    }
}
