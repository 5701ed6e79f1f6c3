//! Bundles, uploaded and written through the hub's API.

use anyhow::Context as _;
use aws_lc_rs::rand;
use fairlead_api::{
    BundleId,
    delivery::{ArtifactId, UploadedArtifact},
    hex,
};
use hyper::Method;
use serde_json::json;

use super::TENANT;
use crate::registry::{
    client::{BenchCaller, RegistryRequest},
    hub::Hub,
};

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

/// Uploads files; returns the content with its packed size.
pub(super) async fn upload(
    caller: &mut BenchCaller,
    hub: &Hub,
    files: &[(String, String)],
) -> anyhow::Result<UploadedArtifact> {
    let request = RegistryRequest {
        method: Method::POST,
        path: format!("/v1/artifacts?tenant={TENANT}"),
        body: Some(("application/x-tar", tar_of(files)?.into())),
    };
    let answer = caller.good(&request, &hub.token).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Writes a bundle for all clusters, in one wave.
pub(super) async fn put(
    caller: &mut BenchCaller,
    hub: &Hub,
    bundle: &BundleId,
    artifact: &ArtifactId,
) -> anyhow::Result<()> {
    let body = json!({
        "tenant": TENANT,
        "artifact": artifact,
        "namespace": "bench",
        "targets": [{"name": "all", "selector": "env=bench"}],
        "rollout": {"waves": [{"name": "all", "maxUnavailable": "100%"}]},
    });
    let request = RegistryRequest::put(format!("/v1/bundles/{bundle}"), &body);
    caller.good(&request, &hub.token).await?;
    Ok(())
}
