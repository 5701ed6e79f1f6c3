//! Connections outlive the agent's link, and end with the access of their caller.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{raw_tcp::WsFrame, targets::EchoTarget};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, interval, interval_at, timeout},
};

use crate::world::{STEP_DEADLINE, TcpWorld};

/// Interval of cuts, and their number.
const CUT_INTERVAL: Duration = Duration::from_secs(4);
const CUT_COUNT: usize = 3;
/// Bytes that a block has.
const BLOCK_BYTES: usize = 8 * 1024;
/// Interval of blocks: 4 MB/s.
const BLOCK_INTERVAL: Duration = Duration::from_millis(2);

#[tokio::test]
async fn nothing_is_lost_while_the_agents_link_is_cut() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let forward = world.forward(&[echo.address()]).await?;
    let stream = TcpStream::connect(forward.address(0)?).await?;
    let (mut from, mut to) = stream.into_split();
    let links = world.relay.connections_taken();
    let block = |number: u64| -> Vec<u8> {
        let words = (0..BLOCK_BYTES as u64 / 8).map(|at| (number << 16 | at).to_le_bytes());
        words.flatten().collect()
    };
    let (sent, count) = tokio::sync::oneshot::channel();
    let cutting = async {
        let mut cuts = interval_at(Instant::now() + CUT_INTERVAL, CUT_INTERVAL);
        for _ in 0..CUT_COUNT {
            cuts.tick().await;
            world.relay.control.cut();
        }
        cuts.tick().await;
    };
    let sending = async {
        let mut cutting = std::pin::pin!(cutting);
        let mut pace = interval(BLOCK_INTERVAL);
        for number in 0.. {
            pace.tick().await;
            let block = block(number);
            tokio::select! {
                biased;
                () = cutting.as_mut() => {
                    to.shutdown().await?;
                    let _ = sent.send(number);
                    break;
                }
                // A cut block would be a partial one: the bytes after the last whole one are checked, too.
                written = to.write_all(&block) => written?,
            }
        }
        anyhow::Ok(())
    };
    let receiving = async {
        let mut received = vec![0; BLOCK_BYTES];
        let mut number = 0;
        loop {
            let mut filled = 0;
            while filled < BLOCK_BYTES {
                let read = from.read(&mut received[filled..]).await?;
                if read == 0 {
                    let rest = block(number)[..filled] == received[..filled];
                    ensure!(rest, "the rest of block {number} differs");
                    return anyhow::Ok(number);
                }
                filled += read;
            }
            ensure!(received == block(number), "block {number} differs");
            number += 1;
        }
    };
    let ((), received) = tokio::try_join!(sending, receiving).with_context(|| forward.log())?;
    let sent = count.await?;
    ensure!(received == sent, "{received} of {sent} blocks");
    ensure!(received > 100, "only {received} blocks");
    ensure!(
        world.relay.connections_taken() >= links + CUT_COUNT,
        "the link was not cut"
    );
    Ok(())
}

#[tokio::test]
async fn revoked_token_ends_its_connections() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let token = world.token("ann", &["--role", "tcp"]).await?;
    let mut raw = world.open(&token, &echo.address()).await?;
    raw.send(b"x").await?;
    ensure!(raw.receive().await? == WsFrame::Bytes(b"x".to_vec()));

    let specs = [echo.address()];
    let mut forward = world.forward_as(Some(&token), &specs).await?;
    let mut stream = TcpStream::connect(forward.address(0)?).await?;
    stream.write_all(b"y").await?;
    ensure!(stream.read_u8().await? == b'y');

    world
        .hub
        .cli(["token", "delete", "ann", "--yes"])
        .await?
        .success()?;
    let WsFrame::Close(code, reason) = raw.receive().await? else {
        anyhow::bail!("no close");
    };
    ensure!(
        code == 1008 && reason.starts_with("FL-1205: "),
        "{code} {reason}"
    );
    // The local program gets a reset, no clean end.
    let ended = timeout(STEP_DEADLINE, stream.read_u8()).await?;
    let error = ended.err().context("a byte")?;
    ensure!(
        error.kind() == std::io::ErrorKind::ConnectionReset,
        "{error}"
    );
    forward
        .process
        .wait_for_log("FL-1205", STEP_DEADLINE)
        .await?;

    // The command goes on, and reports each refused connection.
    let mut stream = TcpStream::connect(forward.address(0)?).await?;
    ensure!(timeout(STEP_DEADLINE, stream.read_u8()).await?.is_err());
    forward
        .process
        .wait_for_log("FL-1102", STEP_DEADLINE)
        .await?;
    forward.process.term()?;
    ensure!(
        forward.process.wait(STEP_DEADLINE).await?.success(),
        "{}",
        forward.log()
    );
    Ok(())
}

#[tokio::test]
async fn end_of_the_agent_is_a_failure_for_the_local_program() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let mut world = TcpWorld::start_with(&["--resume-window", "1s"], &[echo.rule()]).await?;
    let mut forward = world.forward(&[echo.address()]).await?;
    let mut stream = TcpStream::connect(forward.address(0)?).await?;
    stream.write_all(b"y").await?;
    ensure!(stream.read_u8().await? == b'y');
    world.site.process.kill_9()?;
    let ended = timeout(STEP_DEADLINE, stream.read_u8()).await?;
    let error = ended.err().context("a byte")?;
    ensure!(
        error.kind() == std::io::ErrorKind::ConnectionReset,
        "{error}"
    );
    forward.process.wait_for_log("FL-1422", STEP_DEADLINE).await
}
