//! An agent that knows one hub learns the other one, has a link to each, and keeps the list over a restart.

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Site, eventually};
use serde_json::Value;

use crate::{HubPair, STEP_DEADLINE, get};

/// URLs of the hubs with a session of the cluster, as this hub reports them.
async fn session_hubs(hub: &Hub, token: &str, cluster: &str) -> anyhow::Result<Vec<String>> {
    let path = format!("/v1/clusters/{cluster}/sessions");
    let (_, listed) = get(hub, token, &path).await?;
    let items = listed["items"].as_array();
    let mut hubs: Vec<String> = items
        .into_iter()
        .flatten()
        .filter_map(|it| Some(it["hub"].as_str()?.to_owned()))
        .collect();
    hubs.sort_unstable();
    Ok(hubs)
}

async fn wait_for_sessions(
    hub: &Hub,
    token: &str,
    cluster: &str,
    at: &[&Hub],
) -> anyhow::Result<()> {
    let mut wanted: Vec<&str> = at.iter().map(|hub| hub.ready().url.as_str()).collect();
    wanted.sort_unstable();
    eventually(STEP_DEADLINE, "one session at each hub", async || {
        let found = session_hubs(hub, token, cluster).await.ok()?;
        (found == wanted).then_some(())
    })
    .await
}

#[tokio::test]
async fn learned_hub_serves_at_once_after_the_loss_of_the_known_one_and_after_a_restart()
-> anyhow::Result<()> {
    let (cluster, mut pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
    let joining = pair.one.create_cluster("demo").await?;
    let mut site = Site::start(&pair.one, &cluster, &joining).await?;
    let token = pair.token.clone();
    for asked in [&pair.one, &pair.two] {
        wait_for_sessions(asked, &token, &joining.id, &[&pair.one, &pair.two]).await?;
    }

    // One request has the versions and the traffic at both hubs.
    pair.two.log_in_with(&token).await?;
    let fleet = pair.two.cli(["version", "--fleet", "-o", "json"]).await?;
    let fleet: Value = serde_json::from_str(&fleet.success()?)?;
    ensure!(fleet["hubs"].as_array().map(Vec::len) == Some(2), "{fleet}");
    ensure!(fleet["disconnected"] == serde_json::json!([]), "{fleet}");
    let (_, activity) = get(&pair.two, &token, "/v1/activity").await?;
    let demo = &activity["clusters"][0];
    ensure!(
        demo["hubs"].as_array().map(Vec::len) == Some(2),
        "{activity}"
    );
    ensure!(
        demo["sessions"]["agents"] == 1,
        "one agent, two links: {activity}"
    );

    pair.one.process.kill_9()?;
    let version = format!("/k8s/clusters/{}/version", joining.id);
    let (code, answer) = get(&pair.two, &token, &version).await?;
    ensure!(code == 200, "{answer}");
    // The folder with the identity names the hub of the join string, which is dead, and the list.
    site.process.term()?;
    ensure!(site.process.wait(STEP_DEADLINE).await?.success());
    site.restart()?;
    wait_for_sessions(&pair.two, &token, &joining.id, &[&pair.two]).await?;
    ensure!(get(&pair.two, &token, &version).await?.0 == 200);
    Ok(())
}
