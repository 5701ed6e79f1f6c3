//! Uploads of content: canonical names, limits, `fairlead.yaml`, and visibility.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode};
use serde_json::json;
use time::Duration;

use crate::{
    archives::{tar, upload, uploaded},
    rig::{Rig, admin, caller},
    rights::world,
};

#[tokio::test]
async fn equal_folders_have_one_name_and_are_described() {
    let rig = Rig::new().await;
    world(&rig).await;
    let one = [
        ("b/x.yaml", "x: ${vars.x}\n"),
        ("fairlead.yaml", "namespace: shop\n"),
    ];
    let other = [one[1], one[0]];
    let reply = upload(&rig, &admin(), "t-a", tar(&one)).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let first = reply.good();
    assert_eq!(
        (&first["files"], &first["chart"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(first["unpackedBytes"], 13 + 16);
    assert_eq!(first["fields"]["namespace"], "shop");
    let second = upload(&rig, &admin(), "t-a", tar(&other)).await.good();
    assert_eq!(first["id"], second["id"]);
    let chart = [("Chart.yaml", "name: x\n")];
    let chart = upload(&rig, &admin(), "t-a", tar(&chart)).await.good();
    assert_eq!(chart["chart"], true);
    assert!(chart.get("fields").is_none());
}

#[tokio::test]
async fn archives_that_are_not_accepted_have_codes() {
    let rig = Rig::new().await;
    world(&rig).await;
    let who = admin();
    let archive = tar(&[("a", "1")]);
    let cut = archive[..600].to_vec();
    for (archive, code) in [
        (b"no archive".to_vec(), Code::ArchiveRefused),
        (Vec::new(), Code::ArchiveRefused),
        (cut, Code::ArchiveRefused),
        (tar(&[("../a", "1")]), Code::ArchiveRefused),
        (tar(&[("a", "1"), ("A", "2")]), Code::ArchiveRefused),
        (
            tar(&[("fairlead.yaml", "nmespace: x\n")]),
            Code::BadBundleFile,
        ),
        (tar(&[("fairlead.yaml", "a: [\n")]), Code::BadBundleFile),
    ] {
        let reply = upload(&rig, &who, "t-a", archive).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text);
        assert_eq!(reply.code(), code, "{}", reply.text);
    }
    let many: String = (0..10_001).map(|it| format!("${{vars.x{it}}}\n")).collect();
    let reply = upload(&rig, &who, "t-a", tar(&[("a.yaml", &many)])).await;
    assert_eq!(reply.code(), Code::ArchiveRefused);
    let json = rig.post(&who, "/v1/artifacts?tenant=t-a", json!({})).await;
    assert_eq!(json.code(), Code::WrongContentType);
    let odd = upload(&rig, &who, "nobody", tar(&[("a", "1")])).await;
    assert_eq!(odd.code(), Code::Invalid);
}

#[tokio::test]
async fn contents_of_other_tenants_look_absent() {
    let rig = Rig::new().await;
    world(&rig).await;
    let (of_a, of_b) = (
        caller(Role::Tenant, Some("t-a")),
        caller(Role::Tenant, Some("t-b")),
    );
    let archive = || tar(&[("secret.yaml", "a: 1\n")]);
    for tenant in ["t-b", "t-none"] {
        let reply = upload(&rig, &of_a, tenant, archive()).await;
        assert_eq!(reply.code(), Code::NotFound, "{tenant}");
    }
    let viewer = caller(Role::Viewer, Some("t-a"));
    let refused = upload(&rig, &viewer, "t-a", archive()).await;
    assert_eq!(refused.code(), Code::NotAllowed);

    let id = upload(&rig, &of_a, "t-a", archive()).await.good()["id"].clone();
    let all = admin();
    let put = async |who, tenant: &str, bundle: &str, artifact: &serde_json::Value| {
        let body = json!({ "tenant": tenant, "artifact": artifact });
        let path = format!("/v1/bundles/{bundle}");
        rig.call(who, Method::PUT, &path, body).await
    };
    let none = json!(format!("sha256:{}", "5".repeat(64)));
    let (hidden, missing) = (
        put(&of_b, "t-b", "b-b", &id).await,
        put(&of_b, "t-b", "b-b", &none).await,
    );
    assert_eq!(hidden.code(), Code::NoSuchArtifact);
    let (hidden, missing) = (hidden.text, missing.text);
    let id_text = id.as_str().unwrap();
    assert_eq!(hidden.replace(id_text, none.as_str().unwrap()), missing);
    // An admin of all tenants names a tenant too: the upload was not for this one.
    assert_eq!(
        put(&all, "t-b", "b-b", &id).await.code(),
        Code::NoSuchArtifact
    );

    put(&of_a, "t-a", "b-own", &id).await.good();
    rig.advance(Duration::hours(2));
    // A visible bundle names it now.
    put(&of_a, "t-a", "b-copy", &id).await.good();
    assert_eq!(
        put(&of_b, "t-b", "b-b", &id).await.code(),
        Code::NoSuchArtifact
    );
    assert_eq!(
        upload(&rig, &of_b, "t-b", archive()).await.good()["id"],
        id,
        "equal content has one name in all tenants"
    );
    put(&of_b, "t-b", "b-b", &id).await.good();
}

#[tokio::test]
async fn a_sub_tenant_may_use_uploads_for_its_tenant() {
    let rig = Rig::new().await;
    world(&rig).await;
    let child = json!({ "id": "child", "tenantRef": "t-a", "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", child).await.good();
    let id = uploaded(&rig, "t-a", &[("shared.yaml", "a: 2\n")]).await;
    let body = json!({ "tenant": "t-child", "artifact": id });
    let of_child = caller(Role::Tenant, Some("t-child"));
    let path = "/v1/bundles/b-child";
    let hidden = rig.call(&of_child, Method::PUT, path, body.clone()).await;
    assert_eq!(
        hidden.code(),
        Code::NoSuchArtifact,
        "its people do not see t-a"
    );
    let of_a = caller(Role::Tenant, Some("t-a"));
    rig.call(&of_a, Method::PUT, path, body).await.good();
}
