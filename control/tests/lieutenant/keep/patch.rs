//! Effects of PATCH.

use serde_json::{Value, json};

use crate::rig::{MERGE, Rig};

async fn shown(rig: &Rig) -> Value {
    rig.get("/clusters/c-demo").await.good()
}

#[tokio::test]
async fn a_patch_is_a_merge_patch() {
    let rig = Rig::new().await;
    rig.demo().await;
    let before = shown(&rig).await;
    let bearer = rig.bearer(fairlead_api::resources::Role::Admin).await;
    for (kind, name) in [
        (MERGE, "one"),
        ("application/merge-patch+json; charset=utf-8", "two"),
    ] {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let body = json!({ "displayName": name }).to_string();
        let reply = rig.send("PATCH", "/clusters/c-demo", &headers, &body).await;
        assert_eq!(reply.good()["displayName"], name);
    }
    let after = shown(&rig).await;
    for left in ["facts", "gitRepo", "tenant", "annotations", "compileMeta"] {
        assert_eq!(after[left], before[left], "{left}");
    }
}

#[tokio::test]
async fn id_and_tenant_are_not_patched() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (path, body) in [
        ("/clusters/c-demo", json!({ "id": "c-other" })),
        ("/clusters/c-demo", json!({ "id": "c-demo" })),
        ("/clusters/c-demo", json!({ "tenant": "t-acme" })),
        ("/tenants/t-acme", json!({ "id": "t-other" })),
    ] {
        rig.patch(path, &body).await.is(400, "unknown field");
    }
}

#[tokio::test]
async fn facts_and_annotations_merge_key_by_key() {
    let rig = Rig::new().await;
    rig.demo().await;
    for patch in [
        json!({ "facts": { "region": "eu" }, "annotations": { "a": "1" } }),
        json!({ "facts": { "cloud": "gcp" }, "annotations": { "b": "2" } }),
    ] {
        rig.patch("/clusters/c-demo", &patch).await.good();
    }
    let after = shown(&rig).await;
    assert_eq!(
        after["facts"],
        json!({ "cloud": "gcp", "distribution": "openshift4", "region": "eu" })
    );
    assert_eq!(after["annotations"], json!({ "a": "1", "b": "2" }));
}

#[tokio::test]
async fn dynamic_facts_are_any_json_and_merge_at_the_first_level() {
    let rig = Rig::new().await;
    rig.demo().await;
    let first = json!({ "dynamicFacts": {
        "kubernetesVersion": { "major": "1", "minor": "33" }, "n": 1.5, "yes": true, "text": "x",
    }});
    rig.patch("/clusters/c-demo", &first).await.good();
    let second = json!({ "dynamicFacts": {
        "kubernetesVersion": { "major": "2" }, "list": [1, null, { "deep": [] }],
    }});
    let after = rig.patch("/clusters/c-demo", &second).await.good();
    let dynamic = json!({
        "kubernetesVersion": { "major": "2" }, "n": 1.5, "yes": true, "text": "x",
        "list": [1, null, { "deep": [] }],
    });
    assert_eq!(after["dynamicFacts"], dynamic);
    assert_eq!(shown(&rig).await["dynamicFacts"], dynamic);
}

#[tokio::test]
async fn compilemeta_is_replaced_whole() {
    let rig = Rig::new().await;
    rig.demo().await;
    let meta = |name: &str| json!({ "compileMeta": { "packages": { name: { "version": "1" } } } });
    rig.patch("/clusters/c-demo", &meta("one")).await.good();
    let after = rig.patch("/clusters/c-demo", &meta("two")).await.good();
    assert_eq!(after["compileMeta"], meta("two")["compileMeta"]);
    let late = json!({ "compileMeta": { "lastCompile": "2026-11-21T13:00:00.123+02:00" } });
    let after = rig.patch("/clusters/c-demo", &late).await.good();
    let in_utc = json!({ "lastCompile": "2026-11-21T11:00:00.123Z" });
    assert_eq!(after["compileMeta"], in_utc);
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
