//! Interactive use: tables that fit the terminal, and confirmation before a deletion.

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Terminal, eventually};
use serde_json::Value;

use crate::STEP_DEADLINE;

const NARROW_COLUMNS: usize = 60;
const WIDE_COLUMNS: u16 = 200;

async fn asked(terminal: &Terminal) -> anyhow::Result<()> {
    eventually(STEP_DEADLINE, "the question", async || {
        terminal.screen().contains("[y/N] ").then_some(())
    })
    .await
}

/// Types an answer to the question of a command and returns its exit code.
async fn answered(hub: &Hub, args: &[&str], answer: &str) -> anyhow::Result<Option<i32>> {
    let mut terminal = hub.terminal(args, WIDE_COLUMNS)?;
    asked(&terminal).await?;
    terminal.write(answer)?;
    Ok(terminal.wait(STEP_DEADLINE).await?.code())
}

#[tokio::test]
async fn table_fits_the_terminal_that_it_is_shown_on() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let name = "a cluster with a name that is far longer than its column is wide";
    hub.cli(["cluster", "create", name, "--id", "c-edge"])
        .await?
        .success()?;
    let list = ["cluster", "list"];
    let whole = hub.cli(list).await?.success()?;
    ensure!(whole.contains(name), "{whole}");
    let mut terminal = hub.terminal(&list, u16::try_from(NARROW_COLUMNS)?)?;
    ensure!(terminal.wait(STEP_DEADLINE).await?.success());
    let told = "the end of the table";
    eventually(STEP_DEADLINE, told, async || {
        terminal.screen().contains("c-edge").then_some(())
    })
    .await?;
    let screen = terminal.screen();
    let longest = screen.lines().map(|line| line.chars().count()).max();
    ensure!(longest.is_some_and(|it| it <= NARROW_COLUMNS), "{screen:?}");
    Ok(())
}

#[tokio::test]
async fn deletions_ask_and_only_yes_confirms() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    let created = ["token", "create", "ci", "--role", "viewer", "-o", "json"];
    let created = hub.cli(created).await?.success()?;
    let created: Value = serde_json::from_str(&created)?;
    let delete = ["token", "delete", created["id"].as_str().context("no id")?];
    ensure!(answered(&hub, &delete, "\r").await? == Some(1));
    ensure!(answered(&hub, &delete, "y\r").await? == Some(0));

    let data = hub.dir().join("data").display().to_string();
    let file = hub.dir().join("hub.backup").display().to_string();
    let backup = ["backup", &file, "--data", &data, "--without-ca"];
    hub.cli(backup).await?.success()?;

    hub.process.term()?;
    hub.process.wait(STEP_DEADLINE).await?;
    let restore = ["restore", &file, "--data", &data, "--keep-access"];
    ensure!(answered(&hub, &restore, "n\r").await? == Some(1));
    ensure!(answered(&hub, &restore, "y\r").await? == Some(0));
    hub.restart().await?;
    let tenants = hub.cli(["tenant", "list", "-o", "name"]).await?;
    ensure!(tenants.success()? == "t-default\n");
    Ok(())
}
