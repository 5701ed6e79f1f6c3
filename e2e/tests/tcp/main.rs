//! TCP connections into a cluster: the WebSocket of the hub, and `fairlead forward`, `nc` and `proxy` with real programs.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod brief;
mod cuts;
mod programs;
mod refused;
mod service_hosts;
mod services;
mod world;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    eventually,
    raw_tcp::WsFrame,
    targets::{EchoTarget, LateTarget},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use world::{STEP_DEADLINE, TcpWorld};

/// Connections at once; an agent's session has 1,024 streams.
const CONNECTION_COUNT: u32 = 1000;

#[tokio::test]
async fn websocket_carries_bytes_and_half_closes_in_both_directions() -> anyhow::Result<()> {
    let (echo, late) = (EchoTarget::start().await?, LateTarget::start().await?);
    let allowed = [echo.rule(), late.rule()];
    let world = TcpWorld::start(&allowed).await?;
    let token = world.hub.token()?;

    let mut raw = world.open(&token, &echo.address()).await?;
    for text in ["one", "two"] {
        raw.send(text.as_bytes()).await?;
        ensure!(raw.receive().await? == WsFrame::Bytes(text.as_bytes().to_vec()));
    }
    raw.half_close().await?;
    ensure!(raw.receive().await? == WsFrame::HalfClose);
    ensure!(raw.receive().await? == WsFrame::Close(1000, String::new()));

    // The target ends its direction first, and still reads.
    let mut raw = world.open(&token, &late.address()).await?;
    ensure!(raw.receive().await? == WsFrame::Bytes(b"bye".to_vec()));
    ensure!(raw.receive().await? == WsFrame::HalfClose);
    raw.send(b"still here").await?;
    raw.half_close().await?;
    ensure!(raw.receive().await? == WsFrame::Close(1000, String::new()));
    ensure!(late.received().await? == b"still here");

    // A client that leaves without its half-close resets the target.
    let mut raw = world.open(&token, &late.address()).await?;
    raw.send(b"cut").await?;
    drop(raw);
    let error = late.received().await.err().context("a clean end")?;
    ensure!(error.to_string().contains("reset"), "{error:#}");

    let audit = ["audit", "requests", "--cluster", "demo", "-o", "json"];
    let target = format!("/tcp/{}", echo.address());
    eventually(STEP_DEADLINE, "the event of the connection", async || {
        let events = world.hub.cli(audit).await.ok()?.success().ok()?;
        (events.contains(&target) && events.contains("\"bytesIn\"")).then_some(())
    })
    .await
}

#[tokio::test]
async fn forward_carries_a_thousand_connections_at_once() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    // As many as a hub allows a caller, so no other request may be ann's.
    let ann = world.token("ann", &["--role", "tcp"]).await?;
    let forward = world.forward_as(Some(&ann), &[echo.address()]).await?;
    let mut open = JoinSet::new();
    for number in 0..CONNECTION_COUNT {
        let address = forward.address(0)?;
        open.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_u32(number).await?;
            anyhow::Ok((stream.read_u32().await?, number, stream))
        });
    }
    // All stay open until the last one has answered.
    let mut streams = Vec::new();
    while let Some(opened) = open.join_next().await {
        let (answer, number, stream) = opened?.with_context(|| forward.log())?;
        ensure!(answer == number, "{number} got the bytes of {answer}");
        streams.push(stream);
    }
    ensure!(streams.len() == CONNECTION_COUNT as usize);
    ensure!(
        echo.open() == CONNECTION_COUNT as usize,
        "{} are open",
        echo.open()
    );
    for mut stream in streams {
        stream.shutdown().await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        ensure!(rest.is_empty());
    }
    eventually(STEP_DEADLINE, "the end of all connections", async || {
        (echo.open() == 0).then_some(())
    })
    .await
}
