//! TCP connections at a hub without the agent's session: another hub carries them to the agent.

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, END_DEADLINE, Hub, Joining, Site, eventually,
    raw_tcp::{RawTcp, WsFrame, head, refusal},
    targets::{EchoTarget, LateTarget},
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{HubPair, ONE_HUB, STEP_DEADLINE};

/// Messages in a row; together they are larger than each window of a stream at its start.
const MESSAGE_COUNT: u32 = 4000;
const MESSAGE_BYTES: usize = 100;

/// Two hubs, of which the first one has the agent's session.
struct TcpPair {
    _site: Site,
    pair: HubPair,
    joining: Joining,
    _cluster: Cluster,
}

impl TcpPair {
    async fn start(rules: &[String]) -> anyhow::Result<Self> {
        let (cluster, pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
        let joining = pair.one.create_cluster("demo").await?;
        let mut flags = ONE_HUB.to_vec();
        for rule in rules {
            flags.extend(["--allow-connect", rule]);
        }
        let site = Site::begin_with(&pair.one, &cluster, &joining.join, &joining.id, &flags)?;
        pair.one.wait_state(&joining.id, "Connected").await?;
        pair.two.log_in_with(&pair.token).await?;
        pair.two.wait_state(&joining.id, "Connected").await?;
        Ok(Self {
            _site: site,
            pair,
            joining,
            _cluster: cluster,
        })
    }

    /// Opens a connection at a hub.
    async fn open(&self, hub: &Hub, token: &str, target: &str) -> anyhow::Result<RawTcp> {
        RawTcp::open(&hub.front()?, token, &self.joining.id, target).await
    }

    /// A new token of the first hub with the role `tcp`, once the second one knows it.
    async fn token(&self, name: &str, target: &str) -> anyhow::Result<String> {
        let create = ["token", "create", name, "--role", "tcp", "-o", "json"];
        let created: Value = serde_json::from_str(&self.pair.one.cli(create).await?.success()?)?;
        let token = created["token"].as_str().context("no token")?.to_owned();
        eventually(STEP_DEADLINE, "the token at the other hub", async || {
            self.open(&self.pair.two, &token, target).await.ok()
        })
        .await?;
        Ok(token)
    }
}

/// Numbered messages, which come back as they were sent.
async fn exchange(raw: &mut RawTcp) -> anyhow::Result<()> {
    let mut sent = Vec::new();
    for number in 0..MESSAGE_COUNT {
        let message: Vec<u8> = number.to_be_bytes().repeat(MESSAGE_BYTES / 4);
        raw.send(&message).await?;
        sent.extend_from_slice(&message);
        // The echo must be read meanwhile, or back-pressure stops all.
        if number % 100 == 99 {
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let WsFrame::Bytes(bytes) = raw.receive().await? else {
                    anyhow::bail!("an end after {} bytes", received.len());
                };
                received.extend_from_slice(&bytes);
            }
            ensure!(received == sent, "other bytes before message {number}");
            sent.clear();
        }
    }
    Ok(())
}

#[tokio::test]
async fn hub_without_the_session_carries_a_connection_and_ends_it_with_its_token()
-> anyhow::Result<()> {
    let (echo, late) = (EchoTarget::start().await?, LateTarget::start().await?);
    let world = TcpPair::start(&[echo.rule(), late.rule()]).await?;
    let (one, two) = (&world.pair.one, &world.pair.two);
    let token = world.token("robot", &echo.address()).await?;

    // Bytes in both directions, and the client ends its direction first.
    let mut raw = world.open(two, &token, &echo.address()).await?;
    exchange(&mut raw).await?;
    raw.half_close().await?;
    ensure!(raw.receive().await? == WsFrame::HalfClose);
    ensure!(raw.receive().await? == WsFrame::Close(1000, String::new()));

    // The target ends its direction first, and still reads.
    let mut raw = world.open(two, &token, &late.address()).await?;
    ensure!(raw.receive().await? == WsFrame::Bytes(b"bye".to_vec()));
    ensure!(raw.receive().await? == WsFrame::HalfClose);
    raw.send(b"still here").await?;
    raw.half_close().await?;
    ensure!(raw.receive().await? == WsFrame::Close(1000, String::new()));
    ensure!(late.received().await? == b"still here");

    // A client that leaves without its half-close resets the target.
    let mut raw = world.open(two, &token, &late.address()).await?;
    raw.send(b"cut").await?;
    drop(raw);
    let error = late.received().await.err().context("a clean end")?;
    ensure!(error.to_string().contains("reset"), "{error:#}");

    // The deletion of the token at the other hub ends the connection, with the reason.
    let mut raw = world.open(two, &token, &echo.address()).await?;
    raw.send(b"x").await?;
    ensure!(raw.receive().await? == WsFrame::Bytes(b"x".to_vec()));
    let since = Instant::now();
    one.cli(["token", "delete", "robot", "--yes"])
        .await?
        .success()?;
    let WsFrame::Close(code, reason) = raw.receive().await? else {
        anyhow::bail!("no close");
    };
    let took = since.elapsed();
    ensure!(
        code == 1008 && reason.starts_with("FL-1205: "),
        "{code} {reason}"
    );
    ensure!(took < END_DEADLINE, "after {took:?}");
    eventually(STEP_DEADLINE, "the end at the target", async || {
        (echo.open() == 0).then_some(())
    })
    .await?;

    let forwarded = two.metrics().await?;
    let labels = ["direction=\"to-hub\""];
    let forwarded = forwarded.sum("fairlead_forwarded_requests_total", &labels);
    ensure!(forwarded >= 4.0, "only {forwarded} were forwarded");
    Ok(())
}

#[tokio::test]
async fn refusals_pass_both_hubs_with_their_code() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpPair::start(&[echo.rule()]).await?;
    let two = &world.pair.two;
    let port = echo.address().replace("127.0.0.1:", "");
    for (target, status, code) in [
        ("db.shop:5432".to_owned(), 403, "FL-1503"),
        ("127.0.0.1:1".to_owned(), 403, "FL-1523"),
        ("169.254.169.254:80".to_owned(), 403, "FL-1523"),
        (format!("127.1:{port}"), 400, "FL-1420"),
        (format!("localhost.:{port}"), 400, "FL-1420"),
    ] {
        let head = head(&world.pair.token, &world.joining.id, &target);
        let answer = refusal(&two.front()?, &head).await?;
        ensure!(
            (answer.status, answer.code()) == (status, code),
            "{target}: {answer:?}"
        );
    }
    ensure!(echo.open() == 0, "a connection has arrived");
    Ok(())
}
