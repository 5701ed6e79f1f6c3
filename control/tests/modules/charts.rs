//! Charts of repositories that uploaded folders name.

use fairlead_api::Code;
use http::Method;
use serde_json::json;

use crate::{
    archives::{tar, upload},
    rig::{Rig, admin},
    rights::world,
};

/// A program in the place of helm, which notes its arguments and packs a chart.
const HELM: &str = r#"#!/bin/sh
echo "$@" > "${0%/*}/arguments"
cd "$3" && mkdir web && printf 'apiVersion: v2\nname: web\nversion: 1.2.3\n' > web/Chart.yaml && tar -czf web-1.2.3.tgz web
"#;

#[tokio::test]
async fn chart_that_an_uploaded_folder_names_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let helm = dir.path().join("helm");
    let script = dir.path().join("script");
    std::fs::write(&script, HELM).unwrap();
    // Copied by another process: a program that this one has open for writing cannot be started.
    let mut install = std::process::Command::new("install");
    let installed = install.args(["-m", "755"]).arg(&script).arg(&helm).status();
    assert!(installed.unwrap().success());
    let rig = Rig::with(|config| config.helm = Some(helm)).await;
    world(&rig).await;
    let options =
        "kind: helm\nchart: {repository: https://charts.test, name: web, version: 1.2.3}\n";
    let folder = [("fairlead.yaml", options), ("README.md", "of the folder")];
    let stored = upload(&rig, &admin(), "t-a", tar(&folder)).await.good();
    assert_eq!(
        (&stored["chart"], &stored["files"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(stored["fields"]["kind"], "helm");
    assert!(stored["fields"].get("chart").is_none(), "{stored}");
    let arguments = std::fs::read_to_string(dir.path().join("arguments")).unwrap();
    assert!(
        arguments.ends_with(" --version=1.2.3 --repo=https://charts.test -- web\n"),
        "{arguments}"
    );
    let bundle = json!({ "tenant": "t-a", "artifact": stored["id"], "targets": [{ "selector": "site=edge" }] });
    let bundle = rig
        .call(&admin(), Method::PUT, "/v1/bundles/b-shop", bundle)
        .await;
    assert_eq!(bundle.good()["generation"], 1);
}

#[tokio::test]
async fn chart_that_cannot_be_fetched_is_named_with_its_cause() {
    let rig = Rig::new().await;
    world(&rig).await;
    let options = "chart: {oci: 'oci://registry.test/web', version: 1.2.3}\n";
    let reply = upload(&rig, &admin(), "t-a", tar(&[("fairlead.yaml", options)])).await;
    assert_eq!(reply.code(), Code::ChartNotFetched, "{}", reply.text);
    assert!(
        reply
            .text
            .contains("chart oci://registry.test/web 1.2.3: the hub was started without --helm"),
        "{}",
        reply.text
    );
}
