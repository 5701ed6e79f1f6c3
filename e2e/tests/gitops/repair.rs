//! Repair of a Flux without the hub: each damage is repaired within a minute with one Event, a bad upgrade is taken back, a
//! good one stays, and a paused object is left alone. The test writes the status of pods, as a kubelet does.

mod kubelet;
mod site;

use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::flux::SourceController;
use serde_json::json;
use tokio::time::{Instant, timeout};

use site::RepairSite;

/// Time in which each damage is repaired.
const REPAIR_DEADLINE: Duration = Duration::from_secs(60);

const CONTROLLER: &str = "deployment/source-controller";
const CONFIG: &str = "configmap/flux-settings";
const SECRET: &str = "secret/flux-system";
const ROLE: &str = "clusterrole/flux-source-controller";
const BINDING: &str = "clusterrolebinding/flux-source-controller";
const DEFINITION: &str = "crd/gitrepositories.source.toolkit.fluxcd.io";
const SOURCE: &str = "gitrepository/flux-system";
const IMAGE: &str = ".spec.template.spec.containers[0].image";
const HOSTS: &str = ".data.known_hosts";
const RULES: &str = ".rules[0].resources";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_repaired_without_the_hub_with_one_event_each() -> anyhow::Result<()> {
    let built = SourceController::build().await?;
    let mut site = RepairSite::start(&built).await?;
    site.hub.process.kill_9()?;
    damage_by_people(&site).await?;
    paused_object_is_left_alone(&site).await?;
    bad_upgrade_is_taken_back(&site).await?;
    good_upgrade_is_the_last_good_state(&mut site).await?;
    definition_is_made_again(&site).await?;

    site.hub.restart().await?;
    let repaired =
        |it: &serde_json::Value| it["repairs"].as_array().is_some_and(|it| it.len() == 10);
    let fact = site.fact("the repairs", repaired).await?;
    let rolled_back = fact["repairs"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| it["reason"] == "RolledBack"));
    ensure!(rolled_back, "{fact}");
    Ok(())
}

/// Runs a wait with the deadline of repairs.
async fn repaired(
    what: &str,
    wait: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let Ok(done) = timeout(REPAIR_DEADLINE, wait).await else {
        anyhow::bail!("{what} is not repaired within {REPAIR_DEADLINE:?}");
    };
    done?;
    eprintln!("{what}: repaired after {:?}", start.elapsed());
    Ok(())
}

async fn damage_by_people(site: &RepairSite) -> anyhow::Result<()> {
    let (settings, hosts) = (
        site.field(CONFIG, ".data.mode").await?,
        site.field(SECRET, HOSTS).await?,
    );
    site.kubectl(&["delete", CONTROLLER]).await?;
    site.patch(CONFIG, &json!({ "data": { "mode": "corrupted" } }))
        .await?;
    site.patch(ROLE, &json!({ "rules": [] })).await?;
    site.kubectl(&["delete", BINDING]).await?;
    site.patch(SECRET, &json!({ "data": { "known_hosts": "ZXZpbAo=" } }))
        .await?;
    repaired("damage by people", async {
        site.until(CONTROLLER, IMAGE, "source-controller:1").await?;
        site.until(CONFIG, ".data.mode", &settings).await?;
        site.until(ROLE, RULES, r#"["gitrepositories"]"#).await?;
        site.until(BINDING, ".roleRef.name", "flux-source-controller")
            .await?;
        site.until(SECRET, HOSTS, &hosts).await
    })
    .await?;
    for name in ["source-controller", "flux-settings", "flux-system"] {
        site.until_announced(name, &["Repaired"]).await?;
    }
    // The role and its binding have the same name.
    site.until_announced("flux-source-controller", &["Repaired", "Repaired"])
        .await
}

async fn paused_object_is_left_alone(site: &RepairSite) -> anyhow::Result<()> {
    site.kubectl(&["annotate", CONFIG, "fairlead/paused=true"])
        .await?;
    site.patch(CONFIG, &json!({ "data": { "mode": "by hand" } }))
        .await?;
    site.patch(ROLE, &json!({ "rules": [] })).await?;
    repaired(
        "the object beside a paused one",
        site.until(ROLE, RULES, r#"["gitrepositories"]"#),
    )
    .await?;
    let mode = site.field(CONFIG, ".data.mode").await?;
    ensure!(mode == "by hand", "a paused object was changed to {mode}");
    site.until_announced("flux-settings", &["Repaired"]).await?;
    site.kubectl(&["annotate", CONFIG, "fairlead/paused-"])
        .await?;
    repaired(
        "the object after its pause",
        site.until(CONFIG, ".data.mode", "catalog"),
    )
    .await?;
    site.until_announced("flux-settings", &["Repaired", "Repaired"])
        .await
}

async fn bad_upgrade_is_taken_back(site: &RepairSite) -> anyhow::Result<()> {
    site.until(CONTROLLER, ".status.availableReplicas", "1")
        .await?;
    site.upgrade("source-controller:bad").await?;
    repaired(
        "a bad upgrade",
        site.until(CONTROLLER, IMAGE, "source-controller:1"),
    )
    .await?;
    site.until_announced("source-controller", &["Repaired", "RolledBack"])
        .await
}

async fn good_upgrade_is_the_last_good_state(site: &mut RepairSite) -> anyhow::Result<()> {
    site.until(CONTROLLER, ".status.unavailableReplicas", "")
        .await?;
    site.upgrade("source-controller:2").await?;
    site.until(CONTROLLER, ".status.updatedReplicas", "1")
        .await?;
    site.until_accepted().await?;
    // A restarted agent has the state from the cluster: the hub is still away.
    site.restart_agent()?;
    site.kubectl(&["delete", CONTROLLER]).await?;
    repaired(
        "the upgraded controller",
        site.until(CONTROLLER, IMAGE, "source-controller:2"),
    )
    .await?;
    site.until_announced("source-controller", &["Repaired", "RolledBack", "Repaired"])
        .await
}

async fn definition_is_made_again(site: &RepairSite) -> anyhow::Result<()> {
    site.kubectl(&["delete", DEFINITION]).await?;
    repaired("a removed definition", async {
        site.until(DEFINITION, ".spec.names.kind", "GitRepository")
            .await?;
        site.until(SOURCE, ".spec.interval", "1m0s").await
    })
    .await?;
    site.until_announced("gitrepositories.source.toolkit.fluxcd.io", &["Repaired"])
        .await
}
