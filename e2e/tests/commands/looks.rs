//! Commands that show everything in the API: compiled catalogs, desired state, changes, search results, the
//! caller.

use anyhow::{Context, ensure};
use fairlead_e2e::Hub;
use serde_json::{Value, json};

use crate::{FLEET, apply, file};

async fn said(hub: &Hub, args: &[&str]) -> anyhow::Result<String> {
    hub.cli(args).await?.success()
}

async fn json_of(hub: &Hub, args: &[&str]) -> anyhow::Result<Value> {
    let text = said(hub, &[args, &["-o", "json"]].concat()).await?;
    serde_json::from_str(&text).context(text)
}

/// A cluster of a tenant with a template.
async fn hub() -> anyhow::Result<Hub> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    let template = "id: t-acme\nclusterTemplate: {facts: {sla: gold}}\n";
    apply(&hub, &["-f", &file(&hub, "template.yaml", template)?])
        .await?
        .success()?;
    Ok(hub)
}

#[tokio::test]
async fn every_view_of_a_cluster_has_its_facts() -> anyhow::Result<()> {
    let hub = hub().await?;
    let effective = json_of(&hub, &["cluster", "effective", "Edge"]).await?;
    ensure!(
        effective["facts.sla"] == json!({ "value": "gold", "from": "template" }),
        "{effective}"
    );
    let table = said(&hub, &["cluster", "effective", "c-edge"]).await?;
    ensure!(
        table.starts_with("FIELD") && table.contains("facts.cloud") && table.contains("cluster\n"),
        "{table}"
    );
    let names = said(&hub, &["cluster", "effective", "c-edge", "-o", "name"]).await?;
    ensure!(names.contains("facts.sla\n"), "{names}");
    let config = json_of(&hub, &["cluster", "config", "Edge"]).await?;
    ensure!(
        config["facts"]["contactPrefixes"] == json!(["a8r.io/"]),
        "{config}"
    );
    let table = said(&hub, &["cluster", "config", "Edge"]).await?;
    ensure!(table.contains("facts.contactPrefixes"), "{table}");
    let sessions = json_of(&hub, &["cluster", "sessions", "Edge"]).await?;
    ensure!(sessions == json!({ "items": [] }), "{sessions}");
    let none = hub.cli(["cluster", "sessions", "Edge"]).await?;
    ensure!(none.stderr == "No sessions found.\n", "{none:?}");
    ensure!(none.success()?.is_empty());
    Ok(())
}

#[tokio::test]
async fn catalog_of_another_cluster_is_replaced_only_with_consent() -> anyhow::Result<()> {
    let hub = hub().await?;
    let objects = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n\
        {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a}}\n";
    let objects = file(&hub, "objects.yaml", objects)?;
    let set = ["cluster", "catalog", "set", "Edge", "-f", &objects];
    let first = said(&hub, &set).await?;
    ensure!(first.ends_with("\nversion: 1\n"), "{first}");
    let names = said(&hub, &["cluster", "catalog", "get", "Edge", "-o", "name"]).await?;
    ensure!(names == "Namespace/a\nConfigMap/a/c\n", "{names}");
    let same = said(&hub, &set).await?;
    ensure!(same.ends_with("\nversion: 1\n"), "{same}");
    let fewer = "{apiVersion: v1, kind: Namespace, metadata: {name: b}}\n";
    let fewer = file(&hub, "fewer.yaml", fewer)?;
    let set = ["cluster", "catalog", "set", "Edge", "-f", &fewer];
    let unasked = hub.cli(set).await?;
    ensure!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");
    let again = said(&hub, &[&set[..], &["--yes"]].concat()).await?;
    ensure!(again.ends_with("\nversion: 2\n"), "{again}");
    let bad = file(&hub, "bad.yaml", "{kind: ConfigMap}\n")?;
    let bad = ["cluster", "catalog", "set", "Edge", "-f", &bad, "--yes"];
    let bad = hub.cli(bad).await?;
    ensure!(
        bad.stderr.contains("objects[0] has no apiVersion"),
        "{bad:?}"
    );
    Ok(())
}

#[tokio::test]
async fn changes_catalogs_search_and_caller_are_shown() -> anyhow::Result<()> {
    let hub = hub().await?;
    said(
        &hub,
        &["cluster", "set", "Edge", "--fact", "cloud=gcp", "--yes"],
    )
    .await?;
    let audit = said(&hub, &["audit", "--cluster", "c-edge", "--limit", "1"]).await?;
    ensure!(audit.contains("aws > "), "{audit}");
    let audit = json_of(&hub, &["audit", "--tenant", "t-acme"]).await?;
    let revisions = audit["items"].as_array().context("no items")?.iter();
    let revisions: Vec<_> = revisions.filter_map(|it| it["revision"].as_u64()).collect();
    let last = revisions.last().context("no revision")?.to_string();
    ensure!(revisions.len() > 2 && revisions.is_sorted_by(|a, b| a >= b));
    let none = ["audit", "--tenant", "t-acme", "--before", &last];
    ensure!(json_of(&hub, &none).await? == json!({ "items": [] }));
    let of_edge = ["cluster", "compiled", "--tenant", "t-acme", "-o"];
    let of_edge = said(
        &hub,
        &[&of_edge[..], &["jsonpath={.items[*].cluster}"]].concat(),
    )
    .await?;
    ensure!(of_edge == "c-edge\n", "{of_edge:?}");

    let old = json_of(&hub, &["cluster", "compiled", "--stale-days", "1"]).await?;
    let old: Vec<_> = old["items"]
        .as_array()
        .context("no items")?
        .iter()
        .collect();
    ensure!(old.iter().any(|it| it["cluster"] == "c-edge"), "{old:?}");
    let component = ["cluster", "compiled", "--component", "x", "--below", "v2"];
    let none = hub.cli(component).await?;
    ensure!(none.stderr == "No compiled components found.\n", "{none:?}");
    ensure!(none.success()?.is_empty());
    let alone = hub.cli(["cluster", "compiled", "--below", "v2"]).await?;
    ensure!(alone.status.code() == Some(2), "{alone:?}");

    let found = file(&hub, "found.yaml", "nodes: {count: 3}\nsite: Berlin\n")?;
    let stored = said(&hub, &["inventory", "store", "Edge", "-f", &found]).await?;
    ensure!(stored == "Stored 2 facts of c-edge.\n", "{stored}");
    let query = "SELECT LAST(count) FROM nodes GROUP BY cluster";
    let table = said(&hub, &["inventory", "query", query]).await?;
    ensure!(
        table.starts_with("nodes cluster=c-edge\ntime") && table.ends_with("3\n"),
        "{table}"
    );
    let strange = hub.cli(["inventory", "query", "DROP x"]).await?;
    ensure!(strange.status.code() == Some(2), "{strange:?}");

    let who = json_of(&hub, &["whoami"]).await?;
    ensure!(who["role"] == "admin", "{who}");
    let table = said(&hub, &["whoami"]).await?;
    ensure!(table.contains("fairlead:admin"), "{table}");
    Ok(())
}

#[tokio::test]
async fn paging_back_from_a_revision_misses_no_line_of_the_audit() -> anyhow::Result<()> {
    let hub = hub().await?;
    for id in ["c-one", "c-two"] {
        let create = ["cluster", "create", id, "--id", id, "--tenant", "t-acme"];
        said(&hub, &create).await?;
    }
    // One change of four lines: three clusters and their tenant.
    said(&hub, &["tenant", "delete", "t-acme", "--cascade", "--yes"]).await?;
    let lines = |audit: &Value| -> anyhow::Result<Vec<(u64, u64)>> {
        let items = audit["items"].as_array().context("no items")?.iter();
        let place = |it: &Value| Some((it["revision"].as_u64()?, it["part"].as_u64()?));
        items.map(|it| place(it).context("no place")).collect()
    };
    let all = lines(&json_of(&hub, &["audit", "--limit", "1000"]).await?)?;
    for limit in ["1", "3", "5"] {
        let mut pages = Vec::new();
        let mut before: Option<String> = None;
        loop {
            let mut args = vec!["audit", "--limit", limit, "-o", "json"];
            if let Some(before) = &before {
                args.extend(["--before", before]);
            }
            let output = hub.cli(args).await?;
            let more = output.stderr.contains("there is more: --before ");
            let page = lines(&serde_json::from_str(&output.success()?)?)?;
            let last = page.last().context("an empty page")?.0;
            pages.extend(page);
            if !more {
                break;
            }
            before = Some(last.to_string());
        }
        ensure!(pages == all, "{limit}: {pages:?}, not {all:?}");
    }
    let newest = lines(&json_of(&hub, &["audit", "--limit", "1"]).await?)?;
    ensure!(newest.len() == 4, "{newest:?}");
    Ok(())
}

#[tokio::test]
async fn deletion_of_a_token_needs_confirmation() -> anyhow::Result<()> {
    let hub = hub().await?;
    let created = ["token", "create", "ci", "--role", "viewer"];
    let created = json_of(&hub, &created).await?;
    let id = created["id"].as_str().context("no id")?;
    for command in [
        &["cluster", "token", "renew", "Edge"][..],
        &["cluster", "token", "revoke", "Edge"],
        &["token", "delete", id],
    ] {
        let unasked = hub.cli(command).await?;
        ensure!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");
        hub.cli([command, &["--yes"]].concat()).await?.success()?;
    }
    Ok(())
}
