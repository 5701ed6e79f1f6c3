//! PATCH, as Steward and people send it.

use fairlead_api::resources::Role;
use serde_json::{Value, json};

use crate::rig::Rig;

const KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAACAQ==";

async fn shown(rig: &Rig) -> Value {
    rig.get("/clusters/c-demo").await.good()
}

#[tokio::test]
async fn facts_and_annotations_merge_key_by_key_and_dynamic_facts_no_deeper() {
    let rig = Rig::new().await;
    rig.demo().await;
    let patch = json!({
        "facts": { "region": "eu" }, "annotations": { "a": "1" },
        "dynamicFacts": { "kubernetesVersion": { "major": "1", "minor": "33" }, "n": 1 },
    });
    rig.patch("/clusters/c-demo", &patch).await.good();
    let patch = json!({
        "annotations": { "b": "2" },
        "dynamicFacts": { "kubernetesVersion": { "major": "2" }, "list": [1, null] },
    });
    let after = rig.patch("/clusters/c-demo", &patch).await.good();
    assert_eq!(
        after["facts"],
        json!({ "cloud": "aws", "distribution": "openshift4", "region": "eu" })
    );
    assert_eq!(after["annotations"], json!({ "a": "1", "b": "2" }));
    let dynamic = json!({ "kubernetesVersion": { "major": "2" }, "n": 1, "list": [1, null] });
    assert_eq!(after["dynamicFacts"], dynamic);
    assert_eq!(shown(&rig).await["dynamicFacts"], dynamic);
}

#[tokio::test]
async fn compile_meta_is_replaced_whole() {
    let rig = Rig::new().await;
    rig.demo().await;
    let meta = |name: &str| json!({ "compileMeta": { "packages": { name: { "version": "1" } } } });
    rig.patch("/clusters/c-demo", &meta("one")).await.good();
    let after = rig.patch("/clusters/c-demo", &meta("two")).await.good();
    assert_eq!(after["compileMeta"], meta("two")["compileMeta"]);
}

#[tokio::test]
async fn the_type_of_a_repository_is_not_patched() {
    let rig = Rig::new().await;
    rig.demo().await;
    let patch = json!({ "gitRepo": { "type": "auto", "hostKeys": "h" } });
    let after = rig.patch("/clusters/c-demo", &patch).await.good();
    assert_eq!(after["gitRepo"]["type"], "unmanaged");
    assert_eq!(after["gitRepo"]["hostKeys"], "h");
    assert_eq!(
        after["gitRepo"]["url"],
        "ssh://git@git.example/syn/demo.git"
    );
}

#[tokio::test]
async fn one_bad_value_changes_nothing() {
    let rig = Rig::new().await;
    rig.demo().await;
    let before = shown(&rig).await;
    for bad in [
        json!({ "displayName": "x", "facts": { "cloud": "gcp", "n": 1 } }),
        json!({ "displayName": "x", "gitRepo": { "deployKey": "nonsense" } }),
        json!({ "displayName": "x", "compileMeta": { "lastCompile": "yesterday" } }),
        json!({ "displayName": "x", "y": 1 }),
    ] {
        rig.patch("/clusters/c-demo", &bad).await.is(400, "");
        assert_eq!(shown(&rig).await, before, "{bad}");
    }
}

#[tokio::test]
async fn a_deploy_key_is_a_type_and_base64_and_needs_a_repository() {
    let rig = Rig::new().await;
    rig.demo().await;
    let key = |key: &str| json!({ "gitRepo": { "deployKey": key } });
    for good in [KEY.to_owned(), format!("{KEY}\n")] {
        let after = rig.patch("/clusters/c-demo", &key(&good)).await.good();
        assert_eq!(after["gitRepo"]["deployKey"], good, "echoed as it came");
    }
    for bad in [
        "x",
        "ssh-rsa",
        "ssh-rsa ",
        "ssh-rsa AAAA me@here",
        "ssh-rsa !!!!",
        " ssh-rsa AAAA",
        "ssh-rsa AAAA\n\n",
    ] {
        let reply = rig.patch("/clusters/c-demo", &key(bad)).await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (400, "Illegal deploy key format"),
            "{bad:?}"
        );
    }
    let bare = r#"{"id":"bare","tenant":"t-acme"}"#;
    rig.call("POST", "/clusters", bare).await.good();
    let reply = rig.patch("/clusters/c-bare", &key(KEY)).await;
    assert_eq!(reply.status, 400);
    assert_eq!(
        reply.reason(),
        "Cannot set deploy key for unmanaged git repo"
    );
}

#[tokio::test]
async fn the_url_of_a_managed_repository_has_group_and_name() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (url, status) in [
        ("ssh://git@git.example/group/name.git", 201),
        ("git@git.example:group/name.git", 201),
        ("https://git.example/a/b/c", 201),
        ("ssh://git@git.example/name.git", 400),
        ("ssh://git@git.example", 400),
        ("name", 400),
    ] {
        let body = json!({ "tenant": "t-acme", "gitRepo": { "url": url, "type": "auto" } });
        let reply = rig.call("POST", "/clusters", &body.to_string()).await;
        assert_eq!(reply.status, status, "{url}");
        if status == 201 {
            assert_eq!(
                reply.json()["gitRepo"]["url"],
                url,
                "a managed one keeps its URL"
            );
        }
    }
    let file = json!({ "tenant": "t-acme", "gitRepo": { "url": "/srv/x", "type": "unmanaged" } });
    assert_eq!(
        rig.call("POST", "/clusters", &file.to_string())
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn steward_reports_once_a_minute_and_reads_its_repository() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Cluster, None, Some("c-demo")).await;
    let body = json!({
        "gitRepo": { "deployKey": format!("{KEY}\n") },
        "facts": { "cloud": "aws", "region": "eu-1", "distribution": "openshift4" },
        "dynamicFacts": {
            "kubernetesVersion": { "major": "1", "minor": "33", "gitVersion": "v1.33.1" },
            "extra": "text",
        },
    });
    let mut versions = Vec::new();
    for _ in 0..3 {
        let reply = rig
            .as_who(&token, "PATCH", "/clusters/c-demo", &body.to_string())
            .await;
        let shown = reply.good();
        assert_eq!(
            shown["gitRepo"]["url"],
            "ssh://git@git.example/syn/demo.git"
        );
        assert_eq!(shown["facts"]["region"], "eu-1");
        versions.push(shown["version"].as_u64().unwrap());
        rig.advance(time::Duration::minutes(1));
    }
    assert_eq!(
        versions[0], versions[2],
        "what is the same is not written again"
    );
}

#[tokio::test]
async fn null_removes_a_field_a_fact_and_an_annotation() {
    let rig = Rig::new().await;
    rig.demo().await;
    let fill = json!({
        "annotations": { "a": "1", "b": "2" }, "dynamicFacts": { "x": 1, "y": 2 },
        "gitRepo": { "deployKey": KEY, "hostKeys": "h" }, "tenantGitRepoRevision": "v1",
        "compileMeta": { "packages": { "p": { "version": "1" } } },
    });
    rig.patch("/clusters/c-demo", &fill).await.good();
    let empty = json!({
        "displayName": null, "annotations": { "a": null }, "facts": { "cloud": null },
        "dynamicFacts": { "x": null }, "gitRepo": { "deployKey": null, "hostKeys": null },
        "tenantGitRepoRevision": null, "compileMeta": null,
    });
    let after = rig.patch("/clusters/c-demo", &empty).await.good();
    assert_eq!(after["displayName"], "c-demo");
    assert_eq!(after["annotations"], json!({ "b": "2" }));
    assert_eq!(after["facts"], json!({ "distribution": "openshift4" }));
    assert_eq!(after["dynamicFacts"], json!({ "y": 2 }));
    assert!(after["gitRepo"].get("deployKey").is_none(), "{after}");
    assert!(after["gitRepo"].get("hostKeys").is_none());
    assert!(after.get("tenantGitRepoRevision").is_none());
    assert_eq!(after["compileMeta"], json!({}));
    let whole = json!({ "annotations": null, "facts": null });
    let after = rig.patch("/clusters/c-demo", &whole).await.good();
    assert_eq!(
        (&after["annotations"], &after["facts"]),
        (&json!({}), &json!({}))
    );
}

#[tokio::test]
async fn a_value_that_is_no_string_is_refused_with_the_name_of_its_key() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (field, key) in [("facts", "cloud"), ("annotations", "a.example/b")] {
        for value in [json!(1), json!(true), json!({}), json!([])] {
            let body = json!({ field: { key: value } });
            rig.patch("/clusters/c-demo", &body).await.is(400, key);
            let body = json!({ "tenant": "t-acme", field: { key: value } });
            rig.call("POST", "/clusters", &body.to_string())
                .await
                .is(400, key);
        }
    }
}
