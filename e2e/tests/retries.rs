//! Tries of kubectl per failure, counted at the hub: a failure for a person is requested once, one at a limit is repeated.

#![allow(
    clippy::large_futures,
    reason = "a test waits for one future at a time"
)]

use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Kubectl, Output, Site, eventually};
use rustix::process::Signal;

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// More than an address may send per minute.
const WRONG_TOKENS: u32 = 40;
/// One request per try.
const GET: [&str; 3] = ["get", "--raw", "/api/v1/nodes"];
/// A request that stays open.
const WATCH: &str = "/api/v1/namespaces?watch=1";

/// Finished requests with this outcome.
async fn requests(hub: &Hub, outcome: &str) -> anyhow::Result<f64> {
    let label = format!("outcome=\"{outcome}\"");
    Ok(hub
        .metrics()
        .await?
        .sum("fairlead_requests_total", &[&label]))
}

/// A failed call of kubectl, and the number of its requests.
async fn tries(hub: &Hub, kubectl: &Kubectl, outcome: &str) -> anyhow::Result<(Output, f64)> {
    let before = requests(hub, outcome).await?;
    let get = kubectl.clone().deadline(2 * STEP_DEADLINE);
    let output = get.args(GET).run().await?;
    ensure!(!output.status.success(), "{output:?}");
    // The hub counts a request once its answer is sent.
    let count = eventually(STEP_DEADLINE, "the request in the metrics", async || {
        let count = requests(hub, outcome).await.ok()? - before;
        (count >= 1.0).then_some(count)
    })
    .await?;
    Ok((output, count))
}

#[tokio::test]
async fn failure_for_a_person_is_requested_once() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::shared(), Hub::start())?;
    hub.create_cluster("never").await?;
    let kubectl = hub.kubectl(cluster, "never").await?;
    let (output, count) = tries(&hub, &kubectl, "failed").await?;
    ensure!(
        output.stderr.contains("FL-1401") && count == 1.0,
        "{count} {output:?}"
    );

    let joining = hub.create_cluster("lost").await?;
    let mut site = Site::start(&hub, cluster, &joining).await?;
    let kubectl = hub.kubectl(cluster, "lost").await?;
    site.process.kill_9()?;
    let (output, count) = tries(&hub, &kubectl, "failed").await?;
    ensure!(
        output.stderr.contains("FL-1402") && count == 1.0,
        "{count} {output:?}"
    );
    Ok(())
}

#[tokio::test]
async fn wrong_tokens_beyond_the_limit_are_not_repeated() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::shared(), Hub::start())?;
    hub.create_cluster("guessed").await?;
    let kubectl = hub.kubectl(cluster, "guessed").await?;
    let front = hub.front()?;
    let guess = format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer fl_wrong\r\n\r\n",
        front.address()
    );
    let before = requests(&hub, "refused").await?;
    for _ in 0..WRONG_TOKENS {
        front.send(guess.as_bytes()).await?;
    }
    eventually(STEP_DEADLINE, "the guesses in the metrics", async || {
        let count = requests(&hub, "refused").await.ok()? - before;
        (count >= f64::from(WRONG_TOKENS)).then_some(())
    })
    .await?;
    let wrong = kubectl.args(["--token", "fl_wrong"]);
    let (output, count) = tries(&hub, &wrong, "refused").await?;
    ensure!(output.stderr.contains("FL-1104"), "{output:?}");
    ensure!(count == 1.0, "{count} {output:?}");
    Ok(())
}

#[tokio::test]
async fn request_beyond_a_limit_is_repeated_until_it_succeeds() -> anyhow::Result<()> {
    let limit = ["--max-requests-per-caller", "2"];
    let (cluster, hub) = tokio::try_join!(Cluster::shared(), Hub::start_server(&limit))?;
    hub.log_in().await?;
    let joining = hub.create_cluster("busy").await?;
    let _site = Site::start(&hub, cluster, &joining).await?;
    let create = ["token", "create", "ann", "--role", "admin", "-o"];
    let create = create.into_iter().chain(["jsonpath={.token}"]);
    let token = hub.cli(create).await?.success()?;
    let kubectl = hub.kubectl(cluster, "busy").await?;
    let kubectl = kubectl.args(["--token", token.trim()]);

    let watch = || kubectl.clone().args(["get", "--raw", WATCH]).spawn();
    let mut watches = [watch()?, watch()?];
    for watch in &mut watches {
        ensure!(watch.next_line().await?.is_some());
    }
    let refused = requests(&hub, "refused").await?;
    let mut get = kubectl.clone().args(GET).spawn()?;
    let is_refused = async || {
        let now = requests(&hub, "refused").await.ok()?;
        (now > refused).then_some(())
    };
    eventually(STEP_DEADLINE, "a request beyond the limit", is_refused).await?;
    for mut watch in watches {
        watch.signal(Signal::INT)?;
        watch.wait().await?;
    }
    let nodes = get.next_line().await?.unwrap_or_default();
    ensure!(get.wait().await?.success(), "{}", get.stderr());
    ensure!(nodes.contains("NodeList"), "{nodes}");
    Ok(())
}
