//! `apply`: documents of tenants and clusters.

use anyhow::ensure;
use fairlead_e2e::Hub;

use crate::{FLEET, apply, file};

#[tokio::test]
async fn documents_are_applied_only_if_all_are_valid() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let fleet = file(&hub, "fleet.yaml", FLEET)?;
    let dry = apply(&hub, &["-f", &fleet, "--dry-run"]).await?.success()?;
    ensure!(dry.starts_with("create t-acme\n  + "), "{dry}");
    ensure!(
        dry.contains("create c-edge\n") && dry.contains("  + facts.cloud: \"aws\"\n"),
        "{dry}"
    );
    ensure!(
        dry.ends_with("2 would be created, 0 would be changed, 0 unchanged.\n"),
        "{dry}"
    );
    let none = hub.cli(["tenant", "get", "t-acme"]).await?;
    ensure!(none.status.code() == Some(4), "{none:?}");

    let done = apply(&hub, &["-f", &fleet]).await?.success()?;
    ensure!(
        done.ends_with("2 created, 0 changed, 0 unchanged.\n"),
        "{done}"
    );
    let again = apply(&hub, &["-f", &fleet]).await?.success()?;
    ensure!(again == "0 created, 0 changed, 2 unchanged.\n", "{again}");

    // Printed documents can be applied, and fields missing from a document stay.
    let shown = hub
        .cli(["cluster", "get", "c-edge", "-o", "yaml"])
        .await?
        .success()?;
    let shown = file(&hub, "shown.yaml", &shown)?;
    let same = apply(&hub, &["-f", &shown]).await?.success()?;
    ensure!(same == "0 created, 0 changed, 1 unchanged.\n", "{same}");
    let more = file(&hub, "more.yaml", "id: c-edge\nfacts: {region: eu}\n")?;
    let more = apply(&hub, &["-f", &more]).await?.success()?;
    ensure!(
        more.starts_with("change c-edge\n  + facts.region: \"eu\"\n"),
        "{more}"
    );
    let edge = hub.cluster("c-edge").await?;
    ensure!(
        edge["facts"]["cloud"] == "aws" && edge["deletionPolicy"] == "Retain",
        "{edge}"
    );

    // A deletion needs confirmation, which is impossible without a terminal.
    let replace = ["-f", &fleet, "--replace"];
    let refused = apply(&hub, &replace).await?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(refused.stderr.ends_with("code:  FL-4118\n"), "{refused:?}");
    ensure!(
        refused.text().contains("  - facts.region: \"eu\"\n"),
        "{refused:?}"
    );
    apply(&hub, &[&replace[..], &["--yes"]].concat())
        .await?
        .success()?;
    let edge = hub.cluster("c-edge").await?;
    ensure!(
        edge["facts"] == serde_json::json!({ "cloud": "aws" }),
        "{edge}"
    );
    Ok(())
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
async fn errors_in_documents_have_code_cause_and_next_step() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    for (name, text, told, exit, code) in [
        ("bad.yaml", "id: [c-a\n", "bad.yaml: ", 2, "FL-4109"),
        (
            "none.yaml",
            "---\nfacts: {}\n",
            "document 1: ",
            2,
            "FL-4109",
        ),
        (
            "field.yaml",
            "{id: c-new, tenant: t-acme, fatcs: {a: b}}",
            "unknown field \"fatcs.a\"",
            2,
            "FL-4109",
        ),
        (
            "patch.yaml",
            "{id: c-edge, displayname: X}",
            "unknown field \"displayname\"",
            2,
            "FL-4109",
        ),
        (
            "value.yaml",
            "{id: c-edge, deletionPolicy: Never}",
            "deletionPolicy: expected",
            2,
            "FL-4109",
        ),
        (
            "number.yaml",
            "{id: c-edge, facts: {a: 1}}",
            "facts.a: expected a string",
            2,
            "FL-4109",
        ),
        (
            "secret.yaml",
            "{id: c-edge, gitRepo: {url: 'https://a:pw@git.example/a/b'}}",
            "gitRepo.url: a password",
            2,
            "FL-4109",
        ),
        (
            "tenant.yaml",
            "{id: c-new, tenant: t-none}",
            "there is no such tenant",
            4,
            "FL-4107",
        ),
        (
            "moved.yaml",
            "{id: c-edge, tenant: t-default}",
            "fairlead cluster move",
            2,
            "FL-4109",
        ),
        (
            "kube.yaml",
            "{apiVersion: v1, kind: Pod, id: c-x}",
            "object of Kubernetes",
            2,
            "FL-4109",
        ),
    ] {
        let output = apply(&hub, &["-f", &file(&hub, name, text)?]).await?;
        let said = &output.stderr;
        ensure!(output.status.code() == Some(exit), "{name}: {output:?}");
        ensure!(
            said.starts_with("error: ") && said.contains("\nnext:  "),
            "{name}: {said}"
        );
        ensure!(said.contains(told), "{name}: {said}");
        ensure!(
            said.ends_with(&format!("\ncode:  {code}\n")),
            "{name}: {said}"
        );
        ensure!(!said.contains("pw@"), "{said}");
    }
    let missing = apply(&hub, &["-f", "/none.yaml"]).await?;
    ensure!(
        missing.status.code() == Some(2)
            && missing.stderr.contains("next:  Check its path")
            && missing.stderr.ends_with("code:  FL-4119\n"),
        "{missing:?}"
    );
    for args in [
        &["apply"][..],
        &["get", "c-edge", "-o", "jsonpath={.a"],
        &["list", "--colour"],
    ] {
        let usage = hub.cli([&["cluster"], args].concat()).await?;
        ensure!(usage.status.code() == Some(2), "{usage:?}");
        ensure!(usage.stderr.ends_with("code:  FL-4117\n"), "{usage:?}");
    }
    Ok(())
}

#[tokio::test]
async fn agents_settings_are_set_one_by_one_and_left_to_the_tenant_again() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    let agent = async |words: &[&str]| {
        let words = [&["cluster", "agent"], words].concat();
        hub.cli(words).await
    };
    let table = agent(&["get", "c-edge"]).await?.success()?;
    ensure!(table.contains("(inherited)"), "{table}");
    let set = [
        "set",
        "c-edge",
        "--facts-every",
        "10m",
        "--facts-off",
        "helm,hosts",
    ];
    agent(&set).await?.success()?;
    let nowhere = ["set", "c-edge", "--allow-connect", "", "-o", "json"];
    let shown: serde_json::Value = serde_json::from_str(&agent(&nowhere).await?.success()?)?;
    ensure!(
        shown["facts"]["intervalSeconds"] == 600
            && shown["facts"]["disabledCollectors"][1] == "hosts",
        "{shown}"
    );
    ensure!(shown["allowConnect"] == serde_json::json!([]), "{shown}");
    let left = ["set", "c-edge", "--inherit", "facts", "-o", "yaml"];
    let shown = agent(&left).await?.success()?;
    ensure!(shown == "allowConnect: []\n", "{shown}");
    let never = ["set", "c-edge", "--facts-every", "0s"];
    let wrong = agent(&never).await?;
    ensure!(wrong.status.code() == Some(2), "{wrong:?}");
    Ok(())
}

/// Summary of `apply` for one unchanged document.
const SAME: &str = "0 created, 0 changed, 1 unchanged.\n";

#[tokio::test]
async fn printed_cluster_or_tenant_is_a_document_without_secrets_that_changes_nothing()
-> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let demo = hub.create_cluster("demo").await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    for (kind, id) in [
        ("cluster", demo.id.as_str()),
        ("cluster", "c-edge"),
        ("tenant", "t-default"),
        ("tenant", "t-acme"),
    ] {
        for format in ["yaml", "json"] {
            let shown = hub.cli([kind, "get", id, "-o", format]).await?.success()?;
            ensure!(
                !shown.contains("token") && !shown.contains("fl1."),
                "{shown}"
            );
            let path = file(&hub, "shown.yaml", &shown)?;
            for more in [&[][..], &["--replace"]] {
                let words = [&[kind, "apply", "-f", &path], more].concat();
                let same = hub.cli(words).await?.success()?;
                ensure!(same == SAME, "{kind} {id} {more:?}: {same}");
            }
            let (new, other) = (
                format!("{id}-{format}"),
                shown.replace(id, &format!("{id}-{format}")),
            );
            let other = file(&hub, "other.yaml", &other)?;
            let made = hub.cli([kind, "apply", "-f", &other]).await?.success()?;
            ensure!(made.contains(&format!("create {new}\n")), "{made}");
            ensure!(
                made.ends_with("1 created, 0 changed, 0 unchanged.\n"),
                "{made}"
            );
            let again = hub.cli([kind, "apply", "-f", &other]).await?.success()?;
            ensure!(again == SAME, "{again}");
        }
    }
    let list = hub
        .cli(["cluster", "list", "-o", "yaml"])
        .await?
        .success()?;
    ensure!(!list.contains("installURL"), "{list}");
    let same = apply(&hub, &["-f", &file(&hub, "list.yaml", &list)?])
        .await?
        .success()?;
    ensure!(same == "0 created, 0 changed, 6 unchanged.\n", "{same}");
    Ok(())
}

#[tokio::test]
async fn last_fact_or_annotation_is_taken_away_by_a_flag_and_by_a_document() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    let set = async |words: &[&str]| {
        let words = [&["cluster", "set", "c-edge"], words, &["--yes"]].concat();
        hub.cli(words).await?.success()
    };
    let gone = set(&["--fact", "cloud-"]).await?;
    ensure!(gone.contains("  - facts.cloud: \"aws\"\n"), "{gone}");
    set(&[
        "--annotation",
        "a=b",
        "--fact",
        "a=1",
        "--fact",
        "b=2",
        "--kube-api",
        "https://k",
    ])
    .await?;
    for (name, text, line) in [
        ("one.yaml", "facts: {a: null}", "- facts.a"),
        ("all.yaml", "facts: null", "- facts.b"),
        ("note.yaml", "annotations: {a: null}", "- annotations.a"),
        ("api.yaml", "kubeApi: null", "- kubeApi.endpoint"),
    ] {
        let path = file(&hub, name, &format!("id: c-edge\n{text}\n"))?;
        let gone = apply(&hub, &["-f", &path, "--yes"]).await?.success()?;
        ensure!(gone.contains(line), "{gone}");
        let again = apply(&hub, &["-f", &path]).await?.success()?;
        ensure!(again == SAME, "{again}");
    }
    let edge = hub.cluster("c-edge").await?;
    let none = serde_json::json!({});
    ensure!(
        edge["facts"] == none && edge["annotations"] == none,
        "{edge}"
    );
    Ok(())
}

#[tokio::test]
async fn printed_catalog_can_be_applied_and_unused_settings_are_noted() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let id = hub.create_cluster("demo").await?.id;
    let objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let objects = file(&hub, "objects.yaml", objects)?;
    let set = hub
        .cli(["cluster", "catalog", "set", &id, "-f", &objects])
        .await?;
    ensure!(set.stderr.contains("do not act on it yet"), "{set:?}");
    set.success()?;
    let get = ["cluster", "catalog", "get", &id, "-o", "yaml"];
    let shown = hub.cli(get).await?.success()?;
    let path = file(&hub, "catalog.yaml", &shown)?;
    hub.cli(["cluster", "catalog", "set", &id, "-f", &path])
        .await?
        .success()?;
    ensure!(hub.cli(get).await?.success()? == shown, "{shown}");
    let version = ["cluster", "agent", "set", &id, "--agent-version", "1.2.3"];
    let set = hub.cli(version).await?;
    ensure!(set.stderr.contains("do not act on it yet"), "{set:?}");
    let every = ["cluster", "agent", "set", &id, "--facts-every", "10m"];
    ensure!(hub.cli(every).await?.stderr.is_empty());
    Ok(())
}
