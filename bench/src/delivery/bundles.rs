//! Bundles, uploaded and written through the hub's API.

use anyhow::Context as _;
use aws_lc_rs::rand;
use fairlead_api::{
    delivery::{ArtifactId, UploadedArtifact},
    hex,
};
use hyper::Method;
use serde_json::{Value, json};

use super::TENANT;
use crate::hub::{
    client::{BenchCaller, HubRequest},
    process::Hub,
};

/// Namespace of all objects.
pub(super) const NAMESPACE: &str = "bench";

pub(super) fn id(number: usize) -> String {
    format!("b-bench-{number:03}")
}

/// Plain tar of these files.
pub(super) fn tar_of(files: &[(String, String)]) -> anyhow::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, name, text.as_bytes())?;
    }
    Ok(tar.into_inner()?)
}

/// A manifest with this number of random bytes, in hexadecimal digits, which gzip packs well.
pub(super) fn random_manifest(bytes: usize) -> anyhow::Result<String> {
    let mut random = vec![0; bytes];
    rand::fill(&mut random).context("no randomness")?;
    let data = hex::encode(&random);
    Ok(format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bench}}\ndata: {{random: \"{data}\"}}\n"
    ))
}

/// Manifests of a bundle with this number of objects. Nothing runs a pod, so Deployments have no replica.
pub(super) fn manifests(bundle: usize, objects: usize) -> Vec<(String, String)> {
    let file = |object: usize| {
        let name = object_name(bundle, object);
        let rest = match object % 4 {
            0 => format!(
                "apiVersion: v1\nkind: ConfigMap\ndata: {{color: blue, text: \"{}\"}}\n",
                "some text of a setting, ".repeat(10)
            ),
            1 => format!(
                "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 0\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
                 template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n      \
                 - {{name: web, image: web, ports: [{{containerPort: 80}}], env: [{{name: COLOR, value: blue}}]}}\n"
            ),
            2 => format!(
                "apiVersion: v1\nkind: Service\nspec: {{clusterIP: None, selector: {{app: {name}}}, ports: [{{port: 80}}]}}\n"
            ),
            _ => "apiVersion: v1\nkind: ServiceAccount\n".to_owned(),
        };
        let metadata = format!("metadata: {{name: {name}, namespace: {NAMESPACE}}}\n");
        (format!("{object:02}.yaml"), format!("{rest}{metadata}"))
    };
    (0..objects).map(file).collect()
}

/// Name of an object. The first one of each bundle is a ConfigMap.
pub(super) fn object_name(bundle: usize, object: usize) -> String {
    format!("bench-{bundle:03}-{object:02}")
}

/// Uploads files; returns the content with its packed size.
pub(super) async fn upload(
    caller: &mut BenchCaller,
    hub: &Hub,
    files: &[(String, String)],
) -> anyhow::Result<UploadedArtifact> {
    let request = HubRequest {
        method: Method::POST,
        path: format!("/v1/artifacts?tenant={TENANT}"),
        body: Some(("application/x-tar", tar_of(files)?.into())),
    };
    let answer = caller.good(&request, &hub.token).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Document of a bundle for all clusters, in one wave.
pub(super) fn document(artifact: &ArtifactId) -> Value {
    json!({
        "tenant": TENANT,
        "artifact": artifact,
        "namespace": NAMESPACE,
        "targets": [{"name": "all", "selector": "env=bench"}],
        "rollout": {"waves": [{"name": "all", "maxUnavailable": "100%"}]},
    })
}

/// Writes a bundle.
pub(super) async fn put(
    caller: &mut BenchCaller,
    hub: &Hub,
    bundle: &str,
    document: &Value,
) -> anyhow::Result<()> {
    let request = HubRequest::put(format!("/v1/bundles/{bundle}"), document);
    caller.good(&request, &hub.token).await?;
    Ok(())
}
