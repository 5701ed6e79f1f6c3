//! The registry from outside: the import from Lieutenant.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Output, eventually};
use serde_json::{Value, json};

const TENANT_COUNT: usize = 20;
const CLUSTER_COUNT: usize = 200;
const STEP_DEADLINE: std::time::Duration = std::time::Duration::from_secs(60);

/// CRDs of the operator's API group, as far as an API server needs them. The operator's own definitions are
/// not published in a package registry.
fn definitions() -> String {
    let mut yaml = String::new();
    for (plural, kind) in [
        ("tenants", "Tenant"),
        ("tenanttemplates", "TenantTemplate"),
        ("clusters", "Cluster"),
        ("gitrepos", "GitRepo"),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.syn.tools") },
            "spec": {
                "group": "syn.tools",
                "scope": "Namespaced",
                "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
                "versions": [{
                    "name": "v1alpha1",
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                        },
                    } },
                }],
            },
        });
        let _ = writeln!(yaml, "---\n{definition}");
    }
    yaml
}

fn object(kind: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "syn.tools/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "lieutenant",
            "annotations": { "monitoring.syn.tools/sla": "24/7" },
        },
        "spec": spec,
        "status": status,
    })
}

/// Objects of a Lieutenant of some size, with every field.
fn objects() -> Vec<Value> {
    let mut all = Vec::new();
    for number in 0..TENANT_COUNT {
        let spec = json!({
            "displayName": format!("Tenant {number}"),
            "gitRepoURL": format!("ssh://git@git.example/t-{number}/config.git"),
            "gitRepoRevision": "master",
            "globalGitRepoURL": "ssh://git@git.example/global/defaults.git",
            "globalGitRepoRevision": "v1.0.0",
            "gitRepoTemplate": { "repoType": "auto", "path": format!("t-{number}"), "repoName": "config" },
            "clusterTemplate": { "facts": { "sla": "standard" }, "deletionPolicy": "Archive" },
        });
        all.push(object(
            "Tenant",
            &format!("t-tenant-{number}"),
            &spec,
            &json!({}),
        ));
    }
    for number in 0..CLUSTER_COUNT {
        let name = format!("c-cluster-{number}");
        let spec = json!({
            "displayName": format!("Cluster {number}"),
            "tenantRef": { "name": format!("t-tenant-{}", number % TENANT_COUNT) },
            "gitRepoURL": format!("ssh://git@git.example/catalogs/{name}.git"),
            "gitHostKeys": "git.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn",
            "gitRepoTemplate": { "deployKeys": { "steward": { "type": "ssh-rsa", "key": "QUJDRA==" } } },
            "tenantGitRepoRevision": "v2",
            "facts": { "cloud": "aws", "distribution": "openshift4", "region": "eu-west-1" },
            "creationPolicy": "Create",
            "deletionPolicy": "Retain",
        });
        let status = json!({
            "bootstrapToken": { "token": format!("s3cret-{number}"), "tokenValid": number == 7 },
            "facts": {
                "kubernetesVersion": "{\"gitVersion\":\"v1.31.2\",\"major\":\"1\",\"minor\":\"31\"}",
                "openshiftOAuthRoute": format!("oauth.apps.{name}.example"),
            },
            "compileMeta": {
                "lastCompile": "2026-11-01T10:00:00Z",
                "commodoreBuildInfo": { "version": "v1.30.0" },
                "instances": { "argocd": { "component": "argocd", "version": "v6.1.0" } },
            },
        });
        all.push(object("Cluster", &name, &spec, &status));
    }
    all
}

fn counts(output: Output) -> anyhow::Result<(String, String)> {
    let said = output.stderr.clone();
    let text = output.success()?;
    let last = text.lines().last().context("no last line")?;
    Ok((last.to_owned(), said))
}

#[tokio::test]
async fn import_from_lieutenant_is_complete_and_idempotent() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let folder = hub.dir().join("lieutenant");
    fs::create_dir(&folder)?;
    for (number, object) in objects().iter().enumerate() {
        fs::write(folder.join(format!("{number:03}.yaml")), object.to_string())?;
    }
    let folder = folder.to_str().context("its path is no text")?;
    let all = TENANT_COUNT + CLUSTER_COUNT;
    let dry = hub
        .cli(["import", "lieutenant", "-f", folder, "--dry-run"])
        .await?;
    let (told, said) = counts(dry)?;
    ensure!(
        told == format!("{all} would be created, 0 would be changed, 0 unchanged."),
        "{told}"
    );
    ensure!(
        said.contains("Cluster c-cluster-7: its bootstrap token was open"),
        "{said}"
    );
    ensure!(!said.contains("s3cret"), "{said}");
    let none = hub
        .cli(["cluster", "list", "-o", "json"])
        .await?
        .success()?;
    ensure!(!none.contains("c-cluster-"), "a dry run has made clusters");

    let (told, _) = counts(hub.cli(["import", "lieutenant", "-f", folder]).await?)?;
    ensure!(
        told == format!("{all} created, 0 changed, 0 unchanged."),
        "{told}"
    );
    let one: Value = hub.cluster("c-cluster-42").await?;
    for (pointer, expected) in [
        ("/displayName", json!("Cluster 42")),
        ("/tenant", json!("t-tenant-2")),
        ("/facts/region", json!("eu-west-1")),
        ("/dynamicFacts/kubernetesVersion/minor", json!("31")),
        ("/compileMeta/instances/argocd/version", json!("v6.1.0")),
        ("/gitRepo/deployKey", json!("ssh-rsa QUJDRA==")),
        (
            "/gitRepo/url",
            json!("ssh://git@git.example/catalogs/c-cluster-42.git"),
        ),
        ("/deletionPolicy", json!("Retain")),
        ("/gitRepo/state/phase", json!("unknown")),
        ("/annotations/monitoring.syn.tools~1sla", json!("24/7")),
    ] {
        ensure!(one.pointer(pointer) == Some(&expected), "{pointer}: {one}");
    }
    let state = async |id: &str| {
        let list = ["cluster", "token", "list", "--text", id, "-o", "json"];
        let list: Value = serde_json::from_str(&hub.cli(list).await?.success()?)?;
        let tokens = list["items"].as_array().context("no tokens")?;
        let token = tokens.iter().find(|it| it["cluster"] == id);
        anyhow::Ok(token.context("no token")?["state"].clone())
    };
    let closed = state("c-cluster-42").await?;
    ensure!(closed == "revoked", "its agent was there already: {closed}");
    let facts = ["facts", "c-cluster-42", "-o", "json"];
    let facts: Value = serde_json::from_str(&hub.cli(facts).await?.success()?)?;
    let facts = facts["items"].as_array().context("no facts")?.iter();
    let imported: Vec<_> = facts
        .filter(|it| it["dynamic"] == true)
        .map(|it| (&it["source"], &it["stale"]))
        .collect();
    ensure!(
        imported == [(&json!("import"), &json!(true)); 2],
        "{imported:?}"
    );
    let open = state("c-cluster-7").await?;
    ensure!(open == "valid", "its agent was still awaited: {open}");

    let (told, _) = counts(hub.cli(["import", "lieutenant", "-f", folder]).await?)?;
    ensure!(
        told == format!("0 created, 0 changed, {all} unchanged."),
        "{told}"
    );
    Ok(())
}

/// The hub returns no value, so the client cannot compare it: the digest tells whether it is the same.
#[tokio::test]
async fn values_of_ci_variables_are_applied_once_and_never_printed() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let file = hub.dir().join("variables.yaml");
    let path = file.display().to_string();
    let documents = |value: &str, field: &str| {
        let variable = format!("{{value: {value}, masked: true{field}}}");
        let repo = "gitRepo: {type: unmanaged, url: 'ssh://git@git.example/a/b.git', ciVariables:";
        format!(
            "id: t-ci\ngitRepo: {{type: unmanaged}}\n---\nkind: Cluster\nid: c-ci\ntenant: t-ci\n{repo} {{TOKEN: {variable}}}}}\n"
        )
    };
    let apply = async |text: String, flags: &[&str]| {
        std::fs::write(&file, text)?;
        let words = [&["tenant", "apply", "--yes", "-f", &path][..], flags].concat();
        let output = hub.cli(words).await?;
        let diagnostics = output.stderr.clone();
        let text = output.success()?;
        ensure!(!text.contains("s3cret"), "{text}");
        ensure!(!diagnostics.contains("s3cret"), "{diagnostics}");
        let last = text.lines().last().context("no last line")?.to_owned();
        anyhow::Ok((last, text))
    };
    // The cluster cannot be validated before its tenant is there.
    for flags in [&["--dry-run"][..], &[]] {
        let (last, output) = apply(documents("s3cret-1", ""), flags).await?;
        ensure!(last.starts_with("2 "), "{last}");
        let shown = "gitRepo.ciVariables.TOKEN.value: \"(hidden)\"";
        ensure!(output.contains(shown), "{output}");
    }
    for flags in [&[][..], &["--replace"]] {
        let (last, output) = apply(documents("s3cret-1", ""), flags).await?;
        ensure!(last.ends_with("0 changed, 2 unchanged."), "{output}");
    }
    // A document that was read has the digest of the value before.
    let read = documents("s3cret-2", ", digest: '0123456789abcdef'");
    let (last, output) = apply(read.clone(), &[]).await?;
    ensure!(last == "0 created, 1 changed, 1 unchanged.", "{output}");
    ensure!(
        output.contains("~ gitRepo.ciVariables.TOKEN.digest: "),
        "{output}"
    );
    let (last, _) = apply(read, &[]).await?;
    ensure!(last.ends_with("0 changed, 2 unchanged."), "{last}");
    Ok(())
}

#[tokio::test]
async fn cluster_with_lieutenants_objects_is_read_by_its_kubeconfig() -> anyhow::Result<()> {
    let (hub, cluster) = tokio::try_join!(Hub::start(), Cluster::start_lite())?;
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().context("its path is no text")?;
    let read = ["import", "lieutenant", "--kubeconfig", kubeconfig];
    let none = hub.cli_within(STEP_DEADLINE, read).await?;
    ensure!(
        none.stderr.contains("no Lieutenant is installed in it"),
        "{}",
        none.stderr
    );

    let kubectl = || cluster.kubectl();
    kubectl()
        .args(["apply", "-f", "-"])
        .stdin(definitions())
        .run()
        .await?
        .success()?;
    kubectl()
        .args(["create", "namespace", "lieutenant"])
        .run()
        .await?
        .success()?;
    // More than one page of them.
    let some: Vec<String> = objects().iter().take(90).map(Value::to_string).collect();
    let yaml = some.join("\n---\n");
    eventually(STEP_DEADLINE, "the kinds to be served", async || {
        let apply = kubectl()
            .args(["apply", "-f", "-"])
            .stdin(yaml.clone())
            .run();
        apply.await.ok()?.success().ok()
    })
    .await?;
    let (told, _) = counts(hub.cli_within(STEP_DEADLINE, read).await?)?;
    ensure!(told == "90 created, 0 changed, 0 unchanged.", "{told}");
    let one: Value = hub.cluster("c-cluster-3").await?;
    ensure!(
        one["dynamicFacts"]["kubernetesVersion"]["minor"] == "31",
        "{one}"
    );
    let (told, _) = counts(hub.cli_within(STEP_DEADLINE, read).await?)?;
    ensure!(told == "0 created, 0 changed, 90 unchanged.", "{told}");
    Ok(())
}
