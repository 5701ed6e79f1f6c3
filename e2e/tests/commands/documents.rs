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
