//! Several agents of one cluster, each in a pod of the install manifest's Deployment, and an identity that
//! was copied to another cluster.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, Hub, Joining, Kubectl, Pod, RunningKubectl, Site, admin::get_plain, eventually,
};
use serde_json::{Value, json};

const STEP_DEADLINE: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "fairlead";
const ACCOUNT: &str = "fairlead-agent";

async fn manifest(joining: &Joining) -> anyhow::Result<String> {
    let url = joining.install_url.strip_prefix("http://");
    let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
    get_plain(address.parse()?, &format!("/{path}")).await
}

async fn install(cluster: &Cluster, manifest: &str) -> anyhow::Result<Pod> {
    Pod::install(cluster, manifest, NAMESPACE, ACCOUNT).await
}

async fn sessions(hub: &Hub, count: f64) -> anyhow::Result<()> {
    eventually(STEP_DEADLINE, "as many sessions", async || {
        let metrics = hub.metrics().await.ok()?;
        (metrics.sum("fairlead_sessions", &[]) == count).then_some(())
    })
    .await
}

/// Number of an agent's requests with this outcome.
async fn requests(site: &Site, outcome: &str) -> anyhow::Result<f64> {
    let label = format!("outcome=\"{outcome}\"");
    let metrics = site.metrics().await?;
    Ok(metrics.sum("fairlead_agent_requests_total", &[&label]))
}

async fn get(kubectl: &Kubectl, words: &[&str]) -> anyhow::Result<String> {
    kubectl
        .clone()
        .args(words.iter().copied())
        .run()
        .await?
        .success()
}

/// Starts an exec that echoes lines on each of the agents.
async fn exec_on_each(
    kubectl: &Kubectl,
    pod: &str,
    sites: [&Site; 2],
) -> anyhow::Result<[RunningKubectl; 2]> {
    let mut found = [None, None];
    while found.iter().any(Option::is_none) {
        let before = requests(sites[0], "upgraded").await?;
        let exec = kubectl.clone().deadline(2 * STEP_DEADLINE);
        let mut exec = exec
            .args(["exec", "-i", pod, "--", "sh", "-c", "echo up; cat"])
            .spawn()?;
        ensure!(exec.next_line().await?.as_deref() == Some("up"));
        let by_first = requests(sites[0], "upgraded").await? > before;
        found[usize::from(!by_first)].get_or_insert(exec);
    }
    let [Some(one), Some(two)] = found else {
        anyhow::bail!("not on each");
    };
    Ok([one, two])
}

#[tokio::test]
async fn two_agents_of_one_deployment_serve_and_killing_one_touches_only_its_own_streams()
-> anyhow::Result<()> {
    // The session of a killed agent would otherwise be kept for its return.
    let flags = ["--resume-window", "1s"];
    let (cluster, mut hub) = tokio::try_join!(Cluster::start(), Hub::start_with(&flags))?;
    let joining = hub.create_cluster("pair").await?;
    let pod = install(&cluster, &manifest(&joining).await?).await?;
    // Both start at once, as from a Deployment. One enrols, and the other finds the stored identity.
    let mut one = Site::begin_in(&hub, &pod, &joining.join, "one")?;
    let two = Site::begin_in(&hub, &pod, &joining.join, "two")?;
    hub.wait_state(&joining.id, "Connected").await?;
    sessions(&hub, 2.0).await?;
    hub.process
        .wait_for_log("agent enrolled", STEP_DEADLINE)
        .await?;
    let enrolled = hub.process.log()?.matches("agent enrolled").count();
    ensure!(enrolled == 1, "{enrolled} enrolments");

    let kubectl = hub.kubectl(&cluster, "pair").await?;
    eventually(STEP_DEADLINE, "both serve", async || {
        get(&kubectl, &["get", "nodes", "-o", "name"]).await.ok()?;
        let (first, second) =
            tokio::try_join!(requests(&one, "answered"), requests(&two, "answered")).ok()?;
        (first > 0.0 && second > 0.0).then_some(())
    })
    .await?;
    let pods = get(&kubectl, &["get", "pods", "-l", "app=demo", "-o", "name"]).await?;
    let demo = pods.lines().next().context("no pod")?;
    let [mut on_one, mut on_two] = exec_on_each(&kubectl, demo, [&one, &two]).await?;

    let since = hub.cluster(&joining.id).await?["status"]["since"].clone();
    one.process.kill_9()?;
    for _ in 0..20 {
        get(&kubectl, &["get", "nodes", "-o", "name"]).await?;
    }
    let status = on_one.wait().await?;
    ensure!(
        !status.success(),
        "a request on the killed agent ended as if complete"
    );
    on_two.write(b"still there\n").await?;
    ensure!(on_two.next_line().await?.as_deref() == Some("still there"));
    let shown = hub.cluster(&joining.id).await?;
    ensure!(shown["status"]["state"] == "Connected", "{shown}");
    ensure!(shown["status"]["since"] == since, "it flapped: {shown}");

    one.restart()?;
    sessions(&hub, 2.0).await?;
    on_two.write(b"and still\n").await?;
    ensure!(on_two.next_line().await?.as_deref() == Some("and still"));
    let ended = two.process.log()?.matches("session ended").count();
    ensure!(ended == 0, "the other agent's session has ended");
    Ok(())
}

/// UID of the cluster's namespace `kube-system`.
async fn uid(cluster: &Cluster) -> anyhow::Result<String> {
    let words = [
        "get",
        "namespace",
        "kube-system",
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    get(&cluster.kubectl(), &words).await
}

/// Copies the agent's Secrets, as a restore of a backup in the wrong cluster does.
async fn copy_identity(from: &Cluster, to: &Cluster) -> anyhow::Result<()> {
    let words = [
        "get",
        "secret",
        "-n",
        NAMESPACE,
        "fairlead-identity",
        "-o",
        "json",
    ];
    let secret: Value = serde_json::from_str(&get(&from.kubectl(), &words).await?)?;
    let copy = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "fairlead-identity", "namespace": NAMESPACE },
        "data": secret["data"],
    });
    let apply = to
        .kubectl()
        .args(["apply", "-f", "-"])
        .stdin(copy.to_string());
    apply.run().await?.success().map(drop)
}

#[tokio::test]
async fn clone_is_rejected_and_shown_and_does_not_affect_the_original() -> anyhow::Result<()> {
    let (home, elsewhere, hub) =
        tokio::try_join!(Cluster::start_lite(), Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let manifest = manifest(&joining).await?;
    let pod = install(&home, &manifest).await?;
    let mut original = Site::begin_in(&hub, &pod, &joining.join, "original")?;
    hub.wait_state(&joining.id, "Connected").await?;
    let (ours, theirs) = (uid(&home).await?, uid(&elsewhere).await?);
    let before = hub.cluster(&joining.id).await?;
    ensure!(
        before["uid"] == ours.as_str() && before["clone"].is_null(),
        "{before}"
    );
    let dials = async |site: &Site| {
        let metrics = site.metrics().await?;
        anyhow::Ok(metrics.sum("fairlead_agent_dials_total", &["outcome=\"ok\""]))
    };
    let dialled = dials(&original).await?;

    let second = install(&elsewhere, &manifest).await?;
    copy_identity(&home, &elsewhere).await?;
    let mut clone = Site::begin_in(&hub, &second, &joining.join, "clone")?;
    clone.process.wait_for_log("FL-2112", STEP_DEADLINE).await?;
    // Its join string is spent, so it is rejected.
    clone.process.wait_for_log("FL-2103", STEP_DEADLINE).await?;
    let shown = hub.cluster(&joining.id).await?;
    ensure!(shown["clone"]["uid"] == theirs.as_str(), "{shown}");
    ensure!(shown["clone"]["from"] == "127.0.0.1", "{shown}");
    // The times of the last contact go on.
    for key in ["state", "since"] {
        let (was, is) = (&before["status"][key], &shown["status"][key]);
        ensure!(is == was && !is.is_null(), "it flapped: {shown}");
    }
    let told = hub.cli(["cluster", "get", "demo"]).await?.success()?;
    ensure!(
        told.contains("a clone was refused") && told.contains(&theirs),
        "{told}"
    );
    let metrics = hub.metrics().await?;
    ensure!(metrics.sum("fairlead_clones_refused_total", &[]) >= 1.0);
    ensure!(
        dials(&original).await? == dialled,
        "the original has dialled again"
    );
    let kubectl = hub.kubectl(&home, "demo").await?;
    let words = [
        "get",
        "namespace",
        "kube-system",
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    for _ in 0..10 {
        ensure!(
            get(&kubectl, &words).await? == ours,
            "a request went elsewhere"
        );
    }

    // A new join string moves the cluster to the place where it is used.
    let renew = hub
        .cli(["cluster", "token", "renew", "demo", "--yes", "-o", "json"])
        .await?;
    let renewed: Joining = serde_json::from_str(&renew.success()?)?;
    clone.process.kill_9()?;
    let _moved = Site::begin_in(&hub, &second, &renewed.join, "moved")?;
    original
        .process
        .wait_for_log("FL-2113", STEP_DEADLINE)
        .await?;
    eventually(STEP_DEADLINE, "requests in the new place", async || {
        (get(&kubectl, &words).await.ok()? == theirs).then_some(())
    })
    .await?;
    let shown = hub.cluster(&joining.id).await?;
    ensure!(shown["uid"] == theirs.as_str(), "{shown}");
    Ok(())
}
