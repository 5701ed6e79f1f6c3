//! Tests of the rig itself, without Fairlead: links, faults and firewalls.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::NetNs;
use fairlead_e2e_net::net::HUB_ADDRESS;
use fairlead_e2e_net::{Fault, LinkShape, Net, Toward};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// Deadline of an expected answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Wait for an answer that must not come; longer than any retransmission on these links.
const SILENCE_TIME: Duration = Duration::from_millis(500);

/// An echo server at the hub's address, and a connection to it from the site.
struct Echo {
    net: Net,
    stream: TcpStream,
}

impl Echo {
    async fn start() -> anyhow::Result<Self> {
        let net = Net::build().await?;
        let listener = net.hub.listen(address()?)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    copy(&mut from, &mut to).await
                });
            }
        });
        let stream = connect(&net.site)?;
        Ok(Self { net, stream })
    }

    async fn answer(&mut self, within: Duration) -> anyhow::Result<()> {
        let mut answer = [0; 1];
        let read = timeout(within, self.stream.read_exact(&mut answer)).await;
        read.context("no echo")??;
        Ok(())
    }

    async fn round(&mut self, within: Duration) -> anyhow::Result<Duration> {
        let since = Instant::now();
        self.stream.write_all(b"x").await?;
        self.answer(within).await?;
        Ok(since.elapsed())
    }
}

fn address() -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::new(HUB_ADDRESS.parse()?, 7))
}

fn connect(from: &NetNs) -> anyhow::Result<TcpStream> {
    let stream = from.connect(address()?)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream)?)
}

#[tokio::test]
async fn long_link_has_its_delay_until_it_is_changed() -> anyhow::Result<()> {
    let mut echo = Echo::start().await?;
    echo.round(ANSWER_DEADLINE).await?;
    echo.net
        .link(LinkShape::round_trip(Duration::from_millis(150)))?;
    let long = echo.round(ANSWER_DEADLINE).await?;
    ensure!(long >= Duration::from_millis(150), "{long:?}");
    echo.net.link(LinkShape::default())?;
    let short = echo.round(ANSWER_DEADLINE).await?;
    ensure!(short < long, "{short:?} and {long:?}");
    Ok(())
}

#[tokio::test]
async fn fault_blocks_a_connection_until_it_is_healed() -> anyhow::Result<()> {
    let mut echo = Echo::start().await?;
    for fault in [
        Fault::Drop,
        Fault::Loss(1.0),
        Fault::Silence(Toward::Hub),
        Fault::Silence(Toward::Site),
    ] {
        echo.net.cut(fault)?;
        ensure!(echo.round(SILENCE_TIME).await.is_err(), "{fault:?}");
        echo.net.heal()?;
        // Arrives by retransmission.
        let answered = echo.answer(ANSWER_DEADLINE).await;
        answered.with_context(|| format!("after {fault:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn reset_ends_a_connection() -> anyhow::Result<()> {
    let mut echo = Echo::start().await?;
    echo.net.cut(Fault::Reset)?;
    let error = echo
        .round(ANSWER_DEADLINE)
        .await
        .err()
        .context("it was not reset")?;
    ensure!(error.to_string().contains("reset"), "{error:#}");
    ensure!(echo.net.hits()? > 0);
    echo.net.heal()?;
    echo.stream = connect(&echo.net.site)?;
    echo.round(ANSWER_DEADLINE).await.map(drop)
}

#[tokio::test]
async fn nat_that_forgets_ends_a_connection_and_lets_new_ones_through() -> anyhow::Result<()> {
    let mut echo = Echo::start().await?;
    echo.round(ANSWER_DEADLINE).await?;
    echo.net.cut(Fault::NatLoss)?;
    ensure!(echo.round(ANSWER_DEADLINE).await.is_err());
    echo.stream = connect(&echo.net.site)?;
    echo.round(ANSWER_DEADLINE).await.map(drop)
}

#[tokio::test]
async fn proxy_only_rules_let_nothing_out() -> anyhow::Result<()> {
    let mut echo = Echo::start().await?;
    echo.net.by_proxy_only()?;
    ensure!(echo.round(SILENCE_TIME).await.is_err());
    Ok(())
}

#[tokio::test]
async fn two_networks_one_after_the_other_share_the_site() -> anyhow::Result<()> {
    for _ in 0..2 {
        Echo::start().await?.round(ANSWER_DEADLINE).await?;
    }
    Ok(())
}
