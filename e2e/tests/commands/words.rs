//! Flags of clusters, output formats, and shell completion.

use anyhow::ensure;
use fairlead_e2e::{Hub, fleet::fairlead};

use crate::file;

#[tokio::test]
async fn flags_equal_documents_and_protected_clusters_stay() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    hub.cli([
        "cluster",
        "create",
        "prod",
        "--id",
        "c-prod",
        "--creation-policy",
        "Adopt",
        "--deletion-policy",
        "Archive",
        "--delete-protection",
        "--kube-api",
        "https://k.example:6443",
        "--kube-api-credentials",
        "ns/kube",
        "--fact",
        "env=prod",
    ])
    .await?
    .success()?;
    let prod = hub.cluster("c-prod").await?;
    for (pointer, value) in [
        ("/creationPolicy", "Adopt"),
        ("/deletionPolicy", "Archive"),
        ("/kubeApi/credentials/name", "kube"),
        ("/facts/env", "prod"),
    ] {
        ensure!(
            prod.pointer(pointer).is_some_and(|it| it == value),
            "{pointer}: {prod}"
        );
    }
    let kept = hub.cli(["cluster", "delete", "c-prod", "--yes"]).await?;
    ensure!(
        kept.status.code() == Some(6) && kept.stderr.contains("FL-4116"),
        "{kept:?}"
    );
    let lift = ["cluster", "set", "prod", "--delete-protection=false"];
    let unasked = hub.cli(lift).await?;
    ensure!(
        unasked.stderr.contains("lifts its protection"),
        "{unasked:?}"
    );
    hub.cli([&lift[..], &["--yes"]].concat()).await?.success()?;
    let unasked = hub.cli(["cluster", "delete", "c-prod"]).await?;
    ensure!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");

    hub.cli(["tenant", "create", "acme"]).await?.success()?;
    let moved = hub
        .cli(["cluster", "move", "prod", "t-acme", "--yes", "-o", "name"])
        .await?;
    ensure!(moved.success()? == "c-prod\n");
    let of_acme = [
        "cluster", "list", "--tenant", "t-acme", "--fact", "env:prod", "-o",
    ];
    let names = hub
        .cli([&of_acme[..], &["name"]].concat())
        .await?
        .success()?;
    ensure!(names == "c-prod\n", "{names}");
    let path = "jsonpath={range .items[*]}{.id}={.tenant}{\"\\n\"}{end}";
    let parts = hub.cli([&of_acme[..], &[path]].concat()).await?.success()?;
    ensure!(parts == "c-prod=t-acme\n", "{parts:?}");
    hub.cli(["tenant", "delete", "t-acme", "--cascade", "--yes"])
        .await?
        .success()?;
    Ok(())
}

#[tokio::test]
async fn tenants_and_tokens_are_listed_by_filter_and_order() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let tenants = "\
{id: t-b, displayName: Alpha, gitRepo: {type: unmanaged}, annotations: {sla: gold}}
---
{id: t-a, displayName: Omega, gitRepo: {type: unmanaged}, tenantRef: t-b}
";
    let tenants = file(&hub, "tenants.yaml", tenants)?;
    let apply = ["tenant", "apply", "-f", &tenants];
    hub.cli(apply).await?.success()?;
    hub.cli([
        "cluster", "create", "edge", "--tenant", "t-a", "--id", "c-edge",
    ])
    .await?
    .success()?;
    hub.cli([
        "token", "create", "ci", "--role", "viewer", "--tenant", "t-a",
    ])
    .await?
    .success()?;
    for (args, expected) in [
        (&["tenant", "list"][..], "t-b\nt-default\nt-a\n"),
        (
            &["tenant", "list", "--sort-by", "id"],
            "t-a\nt-b\nt-default\n",
        ),
        (&["tenant", "list", "--tenant", "t-b"], "t-b\nt-a\n"),
        (&["tenant", "list", "-l", "sla in (gold)"], "t-b\n"),
        (&["tenant", "list", "--text", "OMEGA"], "t-a\n"),
        (&["cluster", "token", "list", "--tenant", "t-a"], "c-edge\n"),
        (&["cluster", "token", "list", "--text", "nothing"], ""),
    ] {
        let names = hub.cli([args, &["-o", "name"]].concat()).await?;
        let names = names.success()?;
        ensure!(names == expected, "{args:?}: {names:?}");
    }
    for asked in [["--tenant", "t-a"], ["--text", "CI"]] {
        let name = ["-o", "jsonpath={.items[*].name}"];
        let tokens = hub.cli([&["token", "list"][..], &asked, &name].concat());
        let tokens = tokens.await?.success()?;
        ensure!(tokens == "ci\n", "{asked:?}: {tokens:?}");
    }
    let bad = hub.cli(["tenant", "list", "--sort-by", "tenant"]).await?;
    ensure!(bad.stderr.contains("sort_by"), "{bad:?}");
    Ok(())
}

/// Completions of these words, as by Tab.
async fn completed(hub: &Hub, words: &[&str], env: &[(&str, &str)]) -> anyhow::Result<String> {
    let index = words.len().to_string();
    let env = [
        env,
        &[
            ("FAIRLEAD_COMPLETE", "bash"),
            ("_CLAP_COMPLETE_INDEX", &index),
        ],
    ]
    .concat();
    let args: Vec<String> = [&["--", "fairlead"], words]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let output = fairlead(hub.dir(), &args, &env).await?;
    ensure!(output.stderr.is_empty(), "{output:?}");
    output.success()
}

#[tokio::test]
async fn ids_and_names_complete_even_without_a_hub() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    hub.cli(["cluster", "create", "production", "--id", "c-edge"])
        .await?
        .success()?;
    for (words, expected) in [
        (&["cluster", "get", "c-e"][..], "c-edge"),
        (&["cluster", "token", "renew", "prod"], "production"),
        (&["facts", "c-"], "c-edge"),
        (&["cluster", "effective", "c-"], "c-edge"),
        (&["cluster", "catalog", "get", "prod"], "production"),
        (&["audit", "--cluster", "c-"], "c-edge"),
        (&["tenant", "edit", "t-"], "t-default"),
        (&["cluster", "list", "--tenant", "t-"], "t-default"),
        (&["cluster", "list", "-o", "js"], "json\njsonpath="),
        (&["chan"], "changes"),
    ] {
        let found = completed(&hub, words, &[]).await?;
        ensure!(found.trim_end() == expected, "{words:?}: {found:?}");
    }
    let words = ["cluster", "get", "c-"];
    let away = [
        ("FAIRLEAD_URL", "https://127.0.0.1:1"),
        ("FAIRLEAD_TOKEN", "x"),
    ];
    ensure!(completed(&hub, &words, &away).await?.trim().is_empty());
    let wrong = [("FAIRLEAD_TOKEN", "flt_wrong")];
    ensure!(completed(&hub, &words, &wrong).await?.trim().is_empty());
    Ok(())
}
