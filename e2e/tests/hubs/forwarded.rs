//! Requests at a hub without a session of their cluster: another hub carries them to the agent.

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Kubectl, RunningCalls, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{HubPair, STEP_DEADLINE, get, site_at};

/// Size of the copied file, larger than each window on the way.
const FILE_BYTES: usize = 5 << 20;

async fn run(kubectl: &Kubectl, words: &[&str]) -> anyhow::Result<String> {
    let ran = kubectl.clone().args(words).run().await?;
    ran.success()
}

/// Events of this kind in the audit log of a hub.
async fn events(hub: &Hub, kind: &str) -> anyhow::Result<Vec<Value>> {
    let folder = hub.data().join("audit");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        found.extend(events.filter(|event: &Value| event["kind"] == kind));
    }
    Ok(found)
}

/// Sends a file to a pod and back.
async fn copy(hub: &Hub, kubectl: &Kubectl, pod: &str) -> anyhow::Result<()> {
    let (sent, received) = (hub.dir().join("sent"), hub.dir().join("received"));
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&sent, &bytes)?;
    // The pods are processes of this machine: a fixed name would stay, and meet that of another run.
    let there = format!("{pod}:{}", hub.dir().join("in-pod").display());
    let (sent, back) = (sent.display().to_string(), received.display().to_string());
    run(kubectl, &["cp", "--retries=0", &sent, &there]).await?;
    run(kubectl, &["cp", "--retries=0", &there, &back]).await?;
    ensure!(std::fs::read(&received)? == bytes, "other bytes came back");
    Ok(())
}

#[tokio::test]
async fn hub_without_the_session_serves_each_kind_of_call_and_ends_it_with_its_token()
-> anyhow::Result<()> {
    let (cluster, pair) = tokio::try_join!(Cluster::start(), HubPair::start(&[]))?;
    let (one, two) = (&pair.one, &pair.two);
    let joining = one.create_cluster("demo").await?;
    let _site = site_at(one, &cluster, &joining).await?;
    two.log_in_with(&pair.token).await?;
    two.wait_state(&joining.id, "Connected").await?;
    let kubectl = two.kubectl(&cluster, "demo").await?;
    let pods = run(&kubectl, &["get", "pods", "-l", "app=demo", "-o", "name"]).await?;
    let pods: Vec<&str> = pods
        .lines()
        .map(|it| it.trim_start_matches("pod/"))
        .collect();
    let [first, second, ..] = pods.as_slice() else {
        anyhow::bail!("two pods: {pods:?}");
    };
    copy(two, &kubectl, first).await?;

    // The client's own headers have no effect at either hub.
    let path = format!(
        "/k8s/clusters/{}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        joining.id
    );
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let review = review.to_string();
    let spoofed = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\nfairlead-user: fairlead:root\r\n\
         fairlead-cluster: c-other\r\nfairlead-group: system:masters\r\naudit-id: mine\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{review}",
        pair.token,
        review.len()
    );
    let answer = two.front()?.send(spoofed).await?;
    let answer: Value = serde_json::from_str(&answer.text())?;
    let user = &answer["status"]["userInfo"];
    ensure!(user["username"] == "fairlead:admin", "{answer}");
    ensure!(
        !user["groups"].to_string().contains("system:masters"),
        "{answer}"
    );

    let create = ["token", "create", "robot", "--role", "admin", "-o"];
    let create = create.into_iter().chain(["jsonpath={.token}"]);
    let token = one.cli(create).await?.success()?;
    let token = format!("--token={}", token.trim());
    let robot = || kubectl.clone().args([&token]);
    eventually(STEP_DEADLINE, "the token at the other hub", async || {
        run(&robot(), &["get", "namespaces"]).await.ok()
    })
    .await?;
    let calls = RunningCalls::start("forwarded", robot, [first, second]).await?;
    let since = Instant::now();
    let delete = ["token", "delete", "robot", "--yes"];
    one.cli(delete).await?.success()?;
    let took = calls.all_end(since, "FL-1205").await?;
    eprintln!("forwarded calls ended {took:?} after their token");

    let forwarded = two.metrics().await?;
    let labels = ["direction=\"to-hub\""];
    let forwarded = forwarded.sum("fairlead_forwarded_requests_total", &labels);
    ensure!(forwarded > 0.0, "nothing was forwarded");
    // Both hubs have the request under one id: the first one with its caller, the second one with the first hub.
    let hops = eventually(STEP_DEADLINE, "events of the hop", async || {
        let hops = events(one, "forwarded").await.ok()?;
        (!hops.is_empty()).then_some(hops)
    })
    .await?;
    let ids: Vec<&Value> = hops.iter().map(|event| &event["id"]).collect();
    let hop = hops.first().context("an event")?;
    let caller = hop["caller"]["name"].as_str().unwrap_or_default();
    ensure!(caller.starts_with("hub:"), "{hop}");
    let same = eventually(STEP_DEADLINE, "the same id at the first hub", async || {
        let requests = events(two, "request").await.ok()?;
        requests
            .into_iter()
            .find(|event| ids.contains(&&event["id"]))
    })
    .await?;
    ensure!(same["cluster"] == joining.id.as_str(), "{same}");
    Ok(())
}

#[tokio::test]
async fn hub_with_another_ca_behind_an_address_gets_no_request() -> anyhow::Result<()> {
    let foreign = Hub::start_server(&[] as &[&str]).await?;
    let address = ["--hub-address", &foreign.ready().url];
    let (cluster, pair) =
        tokio::try_join!(Cluster::start_lite(), HubPair::start_with(&[], &address))?;
    let (one, two) = (&pair.one, &pair.two);
    let joining = one.create_cluster("demo").await?;
    two.log_in_with(&pair.token).await?;
    eventually(STEP_DEADLINE, "the cluster on the other hub", async || {
        two.cluster(&joining.id).await.ok()
    })
    .await?;
    // The agent is connected to the hub with the wrong address.
    let mut at_two = joining.clone();
    at_two.join = {
        let show = ["cluster", "token", "renew", "demo", "--yes", "-o", "json"];
        let renewed: Value = serde_json::from_str(&two.cli(show).await?.success()?)?;
        renewed["join"].as_str().context("join string")?.to_owned()
    };
    let _site = site_at(two, &cluster, &at_two).await?;
    one.wait_state(&joining.id, "Connected").await?;
    let version = format!("/k8s/clusters/{}/version?timeout=2s", joining.id);
    // The hub dials the other one in the background.
    let mut last = None;
    let told = eventually(STEP_DEADLINE, "the reason of the dial", async || {
        let (code, refused) = get(one, &pair.token, &version).await.ok()?;
        let said = refused["message"].as_str().unwrap_or_default();
        let is_told = ["FL-1408", "FL-3108", "pinned authority"]
            .iter()
            .all(|it| said.contains(it));
        let is_told = code == 503 && is_told;
        last = Some((code, refused));
        is_told.then_some(())
    })
    .await;
    told.with_context(|| format!("{last:?}"))?;
    ensure!(get(two, &pair.token, &version).await?.0 == 200);
    Ok(())
}
