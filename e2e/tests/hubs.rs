//! Two hubs on one PostgreSQL, and a cluster whose agent knows one of them.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Postgres, Site, eventually};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);

/// What a hub answers to whoever the other one knows: they share their tokens.
async fn get(hub: &Hub, token: &str, path: &str) -> anyhow::Result<(u16, Value)> {
    let asked = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    let answer = hub.front()?.send(asked).await?;
    Ok((answer.status, serde_json::from_str(&answer.text())?))
}

#[tokio::test]
async fn each_hub_tells_how_it_stands_with_a_cluster_of_the_other_one_and_when_that_is_killed()
-> anyhow::Result<()> {
    let (cluster, store) = tokio::try_join!(Cluster::start_lite(), Postgres::start())?;
    let keys = tempfile::tempdir()?;
    let key = keys.path().join("store.key");
    std::fs::write(&key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")?;
    let (url, key) = (store.url(), key.display().to_string());
    let flags = ["--store", &url, "--store-key-file", &key];
    let mut one = Hub::start_server(&flags).await?;
    let two = Hub::start_server(&flags).await?;
    one.log_in().await?;
    let token = one.token()?;

    let joining = one.create_cluster("demo").await?;
    let path = format!("/clusters/{}", joining.id);
    let status = async || Some(get(&two, &token, &path).await.ok()?.1["status"].take());
    eventually(SOON, "the cluster on the other hub", async || {
        status().await.filter(|it| it["state"] == "Never")
    })
    .await?;
    let _site = Site::start(&one, &cluster, &joining).await?;
    let seen = eventually(SOON, "connected", async || {
        status().await.filter(|it| it["state"] == "Connected")
    })
    .await?;
    ensure!(seen["hub"] == one.ready().url.as_str(), "{seen}");
    let ours = get(&one, &token, &path).await?.1;
    ensure!(ours["status"]["since"] == seen["since"], "{ours} {seen}");

    let version = format!("/k8s/clusters/{}/version", joining.id);
    let (code, refused) = get(&two, &token, &version).await?;
    ensure!(code == 503 && refused["kind"] == "Status", "{refused}");
    let said = refused["message"].as_str().unwrap_or_default();
    ensure!(
        said.contains("FL-1408") && said.contains(&one.ready().url),
        "{refused}"
    );
    ensure!(get(&one, &token, &version).await?.0 == 200);

    one.process.kill_9()?;
    let lost = eventually(SOON, "lost with its hub", async || {
        status().await.filter(|it| it["state"] == "Lost")
    })
    .await?;
    ensure!(
        lost["lastError"]["code"] == "FL-1402" && lost["hub"].is_null(),
        "{lost}"
    );
    Ok(())
}
