//! Brief connections of `fairlead forward` in quick succession share HTTP/2 connections to the hub.

use std::io;

use anyhow::{Context, ensure};
use fairlead_e2e::{eventually, targets::EchoTarget};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::world::{LocalPorts, STEP_DEADLINE, TcpWorld};

/// Brief connections after which the next ones are streams, with the time for the first HTTP/2 connection.
const BRIEF_COUNT: usize = 40;
/// Connections whose programs read nothing: one fewer than the streams of a connection.
const STOPPED_COUNT: usize = 3;
/// Bytes per write of a program that reads nothing.
const BLOCK_BYTES: usize = 256 * 1024;

/// Opens connections one after another. Each sends a block, its end, and reads both back.
async fn open_brief(forward: &LocalPorts) -> anyhow::Result<()> {
    for number in 0..BRIEF_COUNT {
        let block = number.to_le_bytes().repeat(128);
        let mut stream = TcpStream::connect(forward.address(0)?).await?;
        stream.write_all(&block).await?;
        stream.shutdown().await?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await?;
        ensure!(received == block, "connection {number}: {}", forward.log());
    }
    Ok(())
}

/// A connection whose first byte came back.
async fn open(forward: &LocalPorts) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(forward.address(0)?).await?;
    stream.write_all(b"y").await?;
    let received = timeout(STEP_DEADLINE, stream.read_u8()).await;
    ensure!(received.with_context(|| forward.log())?? == b'y');
    Ok(stream)
}

/// Writes until the path takes no more.
async fn fill(stream: &TcpStream) -> io::Result<()> {
    let block = vec![0; BLOCK_BYTES];
    loop {
        stream.writable().await?;
        match stream.try_write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[tokio::test]
async fn programs_that_read_nothing_hold_up_no_other_stream() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let forward = world.forward(&[echo.address()]).await?;
    open_brief(&forward).await?;
    let mut stopped = Vec::new();
    for _ in 0..STOPPED_COUNT {
        stopped.push(open(&forward).await?);
    }
    let mut other = open(&forward).await?;
    for stream in &stopped {
        fill(stream).await?;
    }
    other.write_all(&[b'z'; BLOCK_BYTES]).await?;
    let mut received = vec![0; BLOCK_BYTES];
    let read = timeout(STEP_DEADLINE, other.read_exact(&mut received)).await;
    read.with_context(|| forward.log())??;
    ensure!(received == [b'z'; BLOCK_BYTES]);
    drop((stopped, other));
    eventually(STEP_DEADLINE, "the end of all connections", async || {
        (echo.open() == 0).then_some(())
    })
    .await?;
    let audit = ["audit", "requests", "--cluster", "demo", "-o", "json"];
    eventually(STEP_DEADLINE, "events of streams", async || {
        let events = world.hub.cli(audit).await.ok()?.success().ok()?;
        let streams = events.matches("\"CONNECT\"").count();
        (streams > STOPPED_COUNT).then_some(())
    })
    .await
}

#[tokio::test]
async fn revoked_token_ends_its_streams() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let token = world.token("ann", &["--role", "tcp"]).await?;
    let mut forward = world.forward_as(Some(&token), &[echo.address()]).await?;
    open_brief(&forward).await?;
    let mut stream = open(&forward).await?;
    let delete = ["token", "delete", "ann", "--yes"];
    world.hub.cli(delete).await?.success()?;
    let ended = timeout(STEP_DEADLINE, stream.read_u8()).await?;
    let error = ended.err().context("a byte")?;
    ensure!(error.kind() == io::ErrorKind::ConnectionReset, "{error}");
    let log = &mut forward.process;
    log.wait_for_log("FL-1205", STEP_DEADLINE).await?;
    let mut stream = TcpStream::connect(forward.address(0)?).await?;
    ensure!(timeout(STEP_DEADLINE, stream.read_u8()).await?.is_err());
    let log = &mut forward.process;
    log.wait_for_log("FL-1102", STEP_DEADLINE).await
}
