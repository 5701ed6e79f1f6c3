//! Operations on all data of a hub: backup while it runs, restore, check, move to another store.

use std::{os::unix::fs::PermissionsExt, path::Path};

use anyhow::ensure;
use fairlead_e2e::{
    Hub, Output,
    fleet::{BACKUP_IDENTITY, BACKUP_RECIPIENT},
};

use crate::STEP_DEADLINE;

/// Runs `fairlead ARGS` on the hub's own data.
async fn on_data(hub: &Hub, args: &[&str]) -> anyhow::Result<Output> {
    let data = hub.dir().join("data").display().to_string();
    hub.cli([args, &["--data", &data]].concat()).await
}

fn at(path: &Path) -> String {
    path.display().to_string()
}

async fn tenants(hub: &Hub) -> anyhow::Result<String> {
    hub.cli(["tenant", "list", "-o", "name"]).await?.success()
}

#[tokio::test]
async fn backup_of_a_running_hub_restores_data_and_logins() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    hub.cli(["tenant", "create", "kept"]).await?.success()?;
    let file = at(&hub.dir().join("hub.backup"));
    let plain = on_data(&hub, &["backup", &file]).await?;
    ensure!(plain.stderr.ends_with("code:  FL-4121\n"), "{plain:?}");
    let backup = ["backup", &file, "--recipient", BACKUP_RECIPIENT];
    let made = on_data(&hub, &backup).await?.success()?;
    ensure!(made.contains("SHA-256"), "{made}");
    let mode = std::fs::metadata(&file)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let twice = on_data(&hub, &backup).await?;
    ensure!(twice.status.code() == Some(1), "{twice:?}");
    ensure!(twice.stderr.ends_with("code:  FL-4120\n"), "{twice:?}");
    // A killed backup left this; another program may have put a link there.
    std::os::unix::fs::symlink(hub.dir().join("target"), format!("{file}2.part"))?;
    let other = ["backup", &format!("{file}2"), "--without-ca"];
    let linked = on_data(&hub, &other).await?;
    ensure!(linked.stderr.ends_with("code:  FL-4120\n"), "{linked:?}");
    ensure!(!hub.dir().join("target").exists());
    let key = at(&hub.dir().join("key.txt"));
    std::fs::write(&key, BACKUP_IDENTITY)?;
    hub.cli(["tenant", "create", "later"]).await?.success()?;

    let restore = ["restore", &file, "--identity", &key, "--keep-access"];
    let confirmed = [&restore[..], &["--yes"]].concat();
    let running = on_data(&hub, &confirmed).await?;
    ensure!(!running.status.success(), "a hub runs on it: {running:?}");
    hub.process.term()?;
    hub.process.wait(STEP_DEADLINE).await?;
    let unasked = on_data(&hub, &restore).await?;
    ensure!(
        unasked.stderr.ends_with("code:  FL-4118\n"),
        "its data is there: {unasked:?}"
    );
    let keyless = on_data(&hub, &["restore", &file, "--yes", "--keep-access"]).await?;
    ensure!(keyless.stderr.ends_with("code:  FL-4122\n"), "{keyless:?}");
    let back = on_data(&hub, &confirmed).await?.success()?;
    ensure!(back == made, "{back} for {made}");
    hub.restart().await?;
    ensure!(tenants(&hub).await? == "t-default\nt-kept\n");

    let strange = at(&hub.dir().join("hub.log"));
    hub.process.term()?;
    hub.process.wait(STEP_DEADLINE).await?;
    let damaged = on_data(&hub, &["restore", &strange, "--yes", "--keep-access"]).await?;
    ensure!(
        !damaged.status.success() && damaged.stderr.contains("\ncode:  FL-"),
        "{damaged:?}"
    );
    hub.restart().await?;
    ensure!(
        tenants(&hub).await? == "t-default\nt-kept\n",
        "nothing was lost to it"
    );
    Ok(())
}

#[tokio::test]
async fn store_is_checked_and_moved_to_another_one() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    hub.cli(["tenant", "create", "kept"]).await?.success()?;
    let whole = on_data(&hub, &["store", "check"]).await?.success()?;
    ensure!(whole == "The store is whole.\n", "{whole}");
    hub.process.term()?;
    hub.process.wait(STEP_DEADLINE).await?;

    let from = format!("sqlite:{}", at(&hub.dir().join("data/fairlead.db")));
    let to = format!("sqlite:{}", at(&hub.dir().join("other.db")));
    let migrate = ["store", "migrate", "--from", &from, "--to", &to];
    let moved = hub.cli(migrate).await?.success()?;
    ensure!(moved.contains("SHA-256"), "{moved}");
    let again = hub.cli(migrate).await?;
    ensure!(
        again.stderr.ends_with("code:  FL-4118\n"),
        "the other one is not empty: {again:?}"
    );
    let again = hub
        .cli([&migrate[..], &["--yes"]].concat())
        .await?
        .success()?;
    ensure!(again == moved, "{again} for {moved}");
    let nowhere = hub
        .cli(["store", "migrate", "--from", "mysql:x", "--to", &to])
        .await?;
    ensure!(nowhere.status.code() == Some(2), "{nowhere:?}");
    Ok(())
}
