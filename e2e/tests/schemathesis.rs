//! Requests of all kinds, made from the hub's own description of its API, in the order that its links allow: nothing may be
//! answered that the description does not say. On a file and on a PostgreSQL.

#![allow(
    clippy::large_futures,
    reason = "a test waits for one future at a time"
)]

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Postgres, setting};
use tokio::process::Command;
use tokio::time::timeout;

const RIG: &str = env!("CARGO_MANIFEST_DIR");
/// For all of one hub; it takes some minutes.
const LONG: Duration = Duration::from_secs(1800);

async fn built(script: &str, args: &[&str]) -> anyhow::Result<String> {
    let built = Command::new(format!("{RIG}/{script}/build"))
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(built.status.success(), "{script}: nothing to test with");
    Ok(String::from_utf8(built.stdout)?.trim_end().to_owned())
}

/// What it sends is the same with the same `FAIRLEAD_E2E_SEED`.
async fn fuzz(hub: &Hub, what: &[&str]) -> anyhow::Result<()> {
    let bin = built("clients", &["schemathesis"]).await?;
    let seed = setting("FAIRLEAD_E2E_SEED").unwrap_or_else(|| "1".to_owned());
    let mut command = Command::new(format!("{bin}/schemathesis"));
    command
        .arg("--config-file")
        .arg(format!("{RIG}/clients/schemathesis.toml"))
        .args(["run", &format!("{}/openapi.json", hub.ready().url)])
        .args(["--seed", &seed, "--no-shrink"])
        .args(["--continue-on-failure", "--output-truncate", "false"])
        .arg("--tls-verify")
        .arg(&hub.ready().ca_file)
        .args([
            "--header",
            &format!("Authorization: Bearer {}", hub.token()?),
        ])
        .args(what)
        .current_dir(hub.dir())
        .env_clear()
        .env("HOME", hub.dir())
        .env("PATH", setting("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = timeout(LONG, command.output()).await;
    let ended = ended.with_context(|| format!("it has not ended within {LONG:?}"))??;
    let said = String::from_utf8_lossy(&ended.stdout);
    eprintln!("{said}");
    ensure!(ended.status.success(), "it has found something");
    let log = hub.process.log()?;
    ensure!(!log.contains("panicked"), "the hub has panicked");
    Ok(())
}

/// All but the end of tokens, of which one is its own; that by itself.
async fn all(hub: &Hub) -> anyhow::Result<()> {
    fuzz(hub, &["--exclude-operation-id", "deleteToken"]).await?;
    fuzz(hub, &["--include-operation-id", "deleteToken"]).await
}

#[tokio::test]
async fn what_a_hub_with_a_file_answers_is_what_it_describes() -> anyhow::Result<()> {
    all(&Hub::start_server::<&str>(&[]).await?).await
}

#[tokio::test]
async fn what_a_hub_with_a_postgresql_answers_is_what_it_describes() -> anyhow::Result<()> {
    let server = Postgres::start().await?;
    let hub = Hub::start_server(&["--store", &server.url()]).await?;
    all(&hub).await
}
