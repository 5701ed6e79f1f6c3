//! Objects of an installation of Argo CD against its real definitions, on a real API server.

use anyhow::ensure;
use fairlead_api::gitops::{DesiredTool, GitOpsTool, ToolInstallation};
use fairlead_e2e::Cluster;
use fairlead_gitops_install::{Installation, ToolManifest, render};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_argocd_accept_the_catalog() -> anyhow::Result<()> {
    let desired = DesiredTool {
        tool: GitOpsTool::Argocd,
        adopt: false,
        installation: ToolInstallation::default(),
        verify: None,
    };
    let installation = Installation {
        desired: &desired,
        url: "ssh://git@git.example/acme/catalog.git",
        with_controllers: true,
    };
    let objects = render(&installation, &ToolManifest::embedded(GitOpsTool::Argocd)?)?;
    let cluster = Cluster::start_lite().await?;
    let is_first = |it: &&Value| {
        let kinds = ["Namespace", "CustomResourceDefinition"].map(Value::from);
        kinds.contains(&it["kind"])
    };
    let (first, second): (Vec<_>, Vec<_>) = objects.iter().partition(is_first);
    apply(&cluster, &first).await?;
    cluster.until_defined().await?;
    apply(&cluster, &second).await?;
    // The same again is no change: no field is dropped or set by a default.
    let again = apply(&cluster, &second).await?;
    ensure!(!again.contains("created"), "{again}");
    Ok(())
}

/// Applies objects with strict validation: unknown fields are errors.
async fn apply(cluster: &Cluster, objects: &[&Value]) -> anyhow::Result<String> {
    let documents: String = objects.iter().map(|it| format!("---\n{it}\n")).collect();
    let words = ["apply", "--server-side", "--validate=strict", "-f", "-"];
    let apply = cluster.kubectl().args(words).stdin(documents);
    apply.run().await?.success()
}
