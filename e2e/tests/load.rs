//! Many requests at once without leaks, and effects that need a minute: idle connections are closed, and
//! tokens expire.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Joining, Kubectl, Launch, RawClient, Site, eventually, fleet};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
/// Deadline for idle connections and streams to close, which they do after a minute.
const IDLE_DEADLINE: Duration = Duration::from_secs(100);
const WATCH_COUNT: usize = 200;
const EXEC_COUNT: usize = 50;

/// Numbers of open files, streams and connections.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OpenCounts {
    sessions: f64,
    requests: f64,
    upgrades: f64,
    front: f64,
    /// Streams of the session, including idle ones.
    streams: f64,
    agent_streams: f64,
    hub_fds: usize,
    agent_fds: usize,
}

async fn open(hub: &Hub, site: &Site) -> anyhow::Result<OpenCounts> {
    let (at_hub, at_agent) = (hub.metrics().await?, site.metrics().await?);
    Ok(OpenCounts {
        sessions: at_hub.sum("fairlead_sessions", &[]),
        requests: at_hub.sum("fairlead_requests_open", &[]),
        upgrades: at_hub.sum("fairlead_upgrades_open", &[]),
        // The agent's own connection belongs to its session and is not counted any more.
        front: at_hub.sum("fairlead_front_connections", &[]),
        streams: at_hub.sum("fairlead_streams_open", &[]),
        agent_streams: at_agent.sum("fairlead_agent_streams_open", &[]),
        hub_fds: hub.process.usage()?.fds,
        agent_fds: site.process.usage()?.fds,
    })
}

async fn forty_kubectl(kubectl: &Kubectl) -> anyhow::Result<Duration> {
    let since = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let get = kubectl.clone().deadline(Duration::from_secs(60));
        calls.spawn(get.args(["get", "pods", "-A", "-o", "yaml"]).run());
    }
    while let Some(call) = calls.join_next().await {
        ensure!(call??.success()?.contains("kind: List"));
    }
    Ok(since.elapsed())
}

/// Opens all watches before the first exec starts. They receive an event while the execs run.
async fn watches_and_execs(
    hub: &Hub,
    site: &Site,
    joining: &Joining,
    kubectl: &Kubectl,
) -> anyhow::Result<(Duration, OpenCounts)> {
    let since = Instant::now();
    let front = Arc::new(hub.front()?);
    let request = format!(
        "GET /k8s/clusters/{}/api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        joining.id,
        front.address(),
        hub.token()?
    );
    let mut opening = JoinSet::new();
    for _ in 0..WATCH_COUNT {
        let (front, request): (Arc<RawClient>, _) = (front.clone(), request.clone());
        opening.spawn(async move { front.open(request.as_bytes()).await });
    }
    let mut watches = Vec::new();
    while let Some(watch) = opening.join_next().await {
        let watch = watch??;
        ensure!(watch.status == 200, "{}", watch.head);
        watches.push(watch);
    }
    let pods = kubectl
        .clone()
        .args(["get", "pods", "-l", "app=demo", "-o", "name"]);
    let pods = pods.run().await?.success()?;
    let pods: Vec<&str> = pods.lines().collect();
    let mut execs = Vec::new();
    for number in 0..EXEC_COUNT {
        let pod = pods.get(number % pods.len()).context("no pod")?;
        let exec = kubectl.clone().deadline(Duration::from_secs(60));
        execs.push(exec.args(["exec", "-i", pod, "--", "cat"]).spawn()?);
    }
    for (number, exec) in execs.iter_mut().enumerate() {
        exec.write(format!("{number}\n").as_bytes()).await?;
        ensure!(exec.next_line().await? == Some(number.to_string()));
    }
    let busiest = open(hub, site).await?;
    let create = ["create", "configmap", "seen-by-all"];
    kubectl.clone().args(create).run().await?.success()?;
    for watch in &mut watches {
        watch.wait_for("seen-by-all").await?;
    }
    for mut exec in execs {
        exec.close_stdin();
        ensure!(exec.wait().await?.success());
    }
    drop(watches);
    Ok((since.elapsed(), busiest))
}

#[tokio::test]
async fn after_many_at_once_every_gauge_and_socket_is_back() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let site = Site::start(&hub, &cluster, &joining).await?;
    let kubectl = hub.kubectl(&cluster, "demo").await?;
    let quiet = async || {
        let open = open(&hub, &site).await.ok()?;
        (open.requests + open.upgrades + open.front == 0.0).then_some(open)
    };
    let before = eventually(STEP_DEADLINE, "quiet", quiet).await?;

    let forty = forty_kubectl(&kubectl).await?;
    eventually(STEP_DEADLINE, "the end of 40 kubectl", quiet).await?;
    let (many, busiest) = watches_and_execs(&hub, &site, &joining, &kubectl).await?;
    ensure!(busiest.requests >= WATCH_COUNT as f64, "{busiest:?}");
    ensure!(busiest.upgrades == EXEC_COUNT as f64, "{busiest:?}");
    let since = Instant::now();
    eventually(STEP_DEADLINE, "the end of watches and execs", quiet).await?;
    let ended = since.elapsed();
    eprintln!(
        "40 kubectl {forty:?}; {WATCH_COUNT} watches and {EXEC_COUNT} execs {many:?}, gone {ended:?} later"
    );

    let mut last = before;
    let back = eventually(IDLE_DEADLINE, "everything let go of", async || {
        last = open(&hub, &site).await.ok()?;
        let fits = last.streams <= before.streams
            && last.agent_streams <= before.agent_streams
            && last.hub_fds <= before.hub_fds
            && last.agent_fds <= before.agent_fds;
        fits.then_some(())
    })
    .await;
    back.with_context(|| format!("before {before:?}, at most {busiest:?}, last {last:?}"))?;
    eprintln!(
        "before {before:?}, at most {busiest:?}, let go of after {:?}: {last:?}",
        since.elapsed()
    );
    ensure!(last.sessions == 1.0, "the session itself stays");
    Ok(())
}

#[tokio::test]
async fn tokens_are_refused_once_their_minute_is_over() -> anyhow::Result<()> {
    let cluster = Cluster::start_lite().await?;
    let home = tempfile::tempdir()?;
    let ready_file = home.path().join("ready.json");
    let listen = std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .to_string();
    let mut hub = Launch::fairlead()?
        .args(["server", "--bootstrap-ttl", "60s", "--listen", &listen])
        .args([
            "--admin",
            "127.0.0.1:0",
            "--public-url",
            &format!("https://{listen}"),
        ])
        .args(["--data".as_ref(), home.path().join("data").as_os_str()])
        .args(["--ready-file".as_ref(), ready_file.as_os_str()])
        .spawn(home.path().join("hub.log"))?;
    let ready: Value = serde_json::from_str(&hub.wait_for_file(&ready_file, STEP_DEADLINE).await?)?;
    let text = |key: &str| ready[key].as_str().context("a text is missing");
    let (url, ca, token_file) = (text("url")?, text("ca_file")?, text("token_file")?);
    let env = [
        ("FAIRLEAD_URL", url),
        ("FAIRLEAD_CA_FILE", ca),
        ("FAIRLEAD_TOKEN_FILE", token_file),
    ];
    let run = async |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let output = fleet::fairlead(home.path(), &args, &env).await?;
        anyhow::Ok(serde_json::from_str::<Value>(&output.success()?)?)
    };
    // Its join string lives as long as the token below, and is older.
    let joining: Joining =
        serde_json::from_value(run(&["cluster", "create", "late", "-o", "json"]).await?)?;
    let since = Instant::now();
    let minted = [
        "token", "create", "brief", "--role", "viewer", "--ttl", "60s", "-o", "json",
    ];
    let token = run(&minted).await?["token"]
        .as_str()
        .context("token")?
        .to_owned();

    let front = RawClient::new(url, &fs::read_to_string(ca)?)?;
    let request = format!(
        "GET /k8s/clusters/{}/api HTTP/1.1\r\nHost: {listen}\r\nAuthorization: Bearer {token}\r\n\r\n",
        joining.id
    );
    ensure!(front.send(&request).await?.code() == "FL-1401");
    eventually(
        Duration::from_secs(75),
        "the end of the token",
        async || (front.send(&request).await.ok()?.code() == "FL-1103").then_some(()),
    )
    .await?;
    ensure!(
        since.elapsed() > Duration::from_secs(55),
        "{:?}",
        since.elapsed()
    );
    let mut agent = Launch::fairlead()?
        .args(["agent", "--join", &joining.join, "--kubeconfig"])
        .args([cluster.kubeconfig()])
        .args(["--state".as_ref(), home.path().join("state").as_os_str()])
        .spawn(home.path().join("agent.log"))?;
    agent.wait_for_log("FL-2102", STEP_DEADLINE).await
}
