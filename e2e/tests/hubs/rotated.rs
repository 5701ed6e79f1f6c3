//! Rotation of the CA at one of two hubs: agents at both get the new CA, retirement waits for all of them, and a backup
//! during the rotation has both CAs.

use anyhow::{Context, ensure};
use fairlead_e2e::{BACKUP_RECIPIENT, Cluster, Hub, Joining, Site, eventually};
use serde_json::Value;

use crate::{HubPair, STEP_DEADLINE, get};

async fn status(hub: &Hub) -> anyhow::Result<Value> {
    let shown = hub.cli(["ca", "status", "-o", "json"]).await?;
    Ok(serde_json::from_str(&shown.success()?)?)
}

/// Waits until this hub lists exactly these clusters as behind.
async fn wait_behind(hub: &Hub, expected: &[&Joining]) -> anyhow::Result<()> {
    let mut last = Value::Null;
    let found = eventually(STEP_DEADLINE, "the agents behind", async || {
        last = status(hub).await.ok()?;
        let behind = last["behind"].as_array()?.iter();
        let mut ids: Vec<&str> = behind.filter_map(|it| it["cluster"].as_str()).collect();
        ids.sort_unstable();
        let mut wanted: Vec<&str> = expected.iter().map(|it| it.id.as_str()).collect();
        wanted.sort_unstable();
        (ids == wanted).then_some(())
    });
    let found = found.await;
    found.with_context(|| last.to_string())
}

/// Logs in at both hubs with all CAs of now.
async fn trust_all_authorities(pair: &HubPair) -> anyhow::Result<()> {
    let status = status(&pair.one).await?;
    let authorities = status["authorities"].as_array().context("authorities")?;
    let pem = authorities
        .iter()
        .filter_map(|it| it["certificate"].as_str());
    let pem: String = pem.collect();
    for hub in [&pair.one, &pair.two] {
        std::fs::write(&hub.ready().ca_file, &pem)?;
        hub.log_in_with(&pair.token).await?;
    }
    Ok(())
}

#[tokio::test]
async fn rotation_at_one_hub_reaches_agents_at_both() -> anyhow::Result<()> {
    let (cluster, pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
    let (one, two) = (&pair.one, &pair.two);
    two.log_in_with(&pair.token).await?;
    let at_one = one.create_cluster("at-one").await?;
    let at_two = two.create_cluster("at-two").await?;
    let away = two.create_cluster("away").await?;
    let mut site_one = Site::start(one, &cluster, &at_one).await?;
    let mut site_two = Site::start(two, &cluster, &at_two).await?;
    let mut site_away = Site::start(two, &cluster, &away).await?;
    site_away.process.term()?;
    site_away.process.wait(STEP_DEADLINE).await?;

    one.cli(["ca", "rotate", "--yes"]).await?.success()?;
    wait_behind(one, &[&away]).await?;
    wait_behind(two, &[&away]).await?;
    for hub in [one, two] {
        let refused = hub.cli(["ca", "retire", "--yes"]).await?;
        ensure!(
            refused.stderr.ends_with("code:  FL-4125\n") && refused.stderr.contains(&away.id),
            "{refused:?}"
        );
    }

    // A backup during the rotation: both CAs come back with it.
    let backup = one.dir().join("backup");
    let (file, data) = (
        backup.display().to_string(),
        one.data().display().to_string(),
    );
    let words = [
        "backup",
        &file,
        "--recipient",
        BACKUP_RECIPIENT,
        "--data",
        &data,
    ];
    let words = words.into_iter().chain(["--store", &pair.store_url]);
    let saved = one.cli(words).await?;
    ensure!(saved.status.success(), "{saved:?}");
    let restored = Hub::start_restored(&backup).await?;
    restored.log_in_with(&pair.token).await?;
    let authorities = status(&restored).await?["authorities"].clone();
    ensure!(
        authorities.as_array().map(Vec::len) == Some(2),
        "{authorities}"
    );
    drop(restored);

    site_away.restart()?;
    wait_behind(one, &[]).await?;
    wait_behind(two, &[]).await?;
    trust_all_authorities(&pair).await?;
    two.cli(["ca", "retire", "--yes"]).await?.success()?;

    // All agents trust the new CA, and all identities are of it.
    for (hub, site, joining) in [
        (one, &mut site_one, &at_one),
        (two, &mut site_two, &at_two),
        (two, &mut site_away, &away),
    ] {
        site.process.term()?;
        site.process.wait(STEP_DEADLINE).await?;
        site.restart()?;
        let version = format!("/k8s/clusters/{}/version", joining.id);
        eventually(
            STEP_DEADLINE,
            "a request after the retirement",
            async || {
                let (code, _) = get(hub, &pair.token, &version).await.ok()?;
                (code == 200).then_some(())
            },
        )
        .await?;
    }
    Ok(())
}
