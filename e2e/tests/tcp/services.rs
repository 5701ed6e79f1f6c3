//! Named services: ports of the hub that lead to targets of a site.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use fairlead_api::resources::{List, ServiceDocument};
use fairlead_e2e::{
    eventually,
    targets::{EchoTarget, LateTarget},
};
use fairlead_testkit::reserved_port::ReservedPort;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    programs::{run, text, web_page},
    world::{STEP_DEADLINE, TcpWorld},
};

/// A world whose hub listens for services at loopback.
async fn world(rules: &[String]) -> anyhow::Result<TcpWorld> {
    let flags = [
        "--service-listen",
        "127.0.0.1",
        "--service-ports",
        "1024-65535",
    ];
    TcpWorld::start_with(&flags, rules).await
}

/// Creates a service by port, and waits until the hub listens.
async fn create(
    world: &TcpWorld,
    name: &str,
    target: &str,
    port: u16,
    from: &str,
) -> anyhow::Result<()> {
    let port = port.to_string();
    let args = [
        "service",
        "create",
        name,
        "--cluster",
        "demo",
        "--target",
        target,
        "--port",
        &port,
        "--from",
        from,
    ];
    world.hub.cli(args).await?.success()?;
    eventually(STEP_DEADLINE, "the listener of the service", async || {
        let services = list(world).await.ok()?;
        let service = services.into_iter().find(|it| it.name.as_str() == name)?;
        service.state.listening.then_some(())
    })
    .await
}

async fn list(world: &TcpWorld) -> anyhow::Result<Vec<ServiceDocument>> {
    let listed = world.hub.cli(["service", "list", "-o", "json"]).await?;
    let services: List<ServiceDocument> = serde_json::from_str(&listed.success()?)?;
    Ok(services.items)
}

/// Waits until the hub resets the connection.
async fn is_reset(stream: &mut TcpStream) -> anyhow::Result<()> {
    let read = timeout(STEP_DEADLINE, stream.read_u8()).await;
    is_a_reset(&read.context("no end")?.err().context("a byte")?)
}

fn is_a_reset(error: &std::io::Error) -> anyhow::Result<()> {
    let is_reset = error.kind() == std::io::ErrorKind::ConnectionReset;
    ensure!(is_reset, "{error}");
    Ok(())
}

/// Connects, and waits until the hub resets the connection, which it may do before this end notices that it is open.
async fn is_refused(address: SocketAddr) -> anyhow::Result<()> {
    match TcpStream::connect(address).await {
        Ok(mut stream) => is_reset(&mut stream).await,
        Err(error) => is_a_reset(&error),
    }
}

#[tokio::test]
async fn curl_reaches_a_target_by_the_port_of_its_service() -> anyhow::Result<()> {
    let page = web_page().await?;
    let world = world(std::slice::from_ref(&page)).await?;
    let port = ReservedPort::new()?;
    let number = port.address().port();
    create(&world, "page", &page, number, "127.0.0.0/8").await?;
    let mut curl = tokio::process::Command::new("curl");
    curl.env_clear().args(["-sS", "--noproxy", "*"]);
    let output = run(curl.arg(format!("http://127.0.0.1:{number}/")), b"").await?;
    ensure!(text(&output.stdout) == "page", "{output:?}");

    // A second service cannot have the port.
    let port = number.to_string();
    let args = [
        "service",
        "create",
        "other",
        "--cluster",
        "demo",
        "--target",
        "db.shop:80",
        "--port",
        &port,
        "--from",
        "::/0",
    ];
    let refused = world.hub.cli(args).await?;
    ensure!(refused.stderr.contains("FL-1426"), "{}", refused.stderr);
    Ok(())
}

#[tokio::test]
async fn connections_keep_half_closes_and_end_with_their_service() -> anyhow::Result<()> {
    let (echo, late) = (EchoTarget::start().await?, LateTarget::start().await?);
    let world = world(&[echo.rule(), late.rule()]).await?;
    let (one, two) = (ReservedPort::new()?, ReservedPort::new()?);
    create(
        &world,
        "echo",
        &echo.address(),
        one.address().port(),
        "127.0.0.1",
    )
    .await?;
    create(
        &world,
        "late",
        &late.address(),
        two.address().port(),
        "127.0.0.1",
    )
    .await?;

    // The client ends its direction first.
    let mut stream = TcpStream::connect(one.address()).await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    timeout(STEP_DEADLINE, stream.read_to_end(&mut answer)).await??;
    ensure!(answer == b"hello");

    // The target ends its direction first, and still reads.
    let mut stream = TcpStream::connect(two.address()).await?;
    let mut answer = Vec::new();
    timeout(STEP_DEADLINE, stream.read_to_end(&mut answer)).await??;
    ensure!(answer == b"bye");
    stream.write_all(b"still here").await?;
    stream.shutdown().await?;
    ensure!(late.received().await? == b"still here");

    let mut stream = TcpStream::connect(one.address()).await?;
    stream.write_all(b"x").await?;
    ensure!(stream.read_u8().await? == b'x');
    let sessions = ["sessions", "list", "--kind", "tcp"];
    let open = world.hub.cli(sessions).await?.success()?;
    ensure!(open.contains("service:echo"), "{open}");
    let deletion = ["service", "delete", "echo", "--yes"];
    world.hub.cli(deletion).await?.success()?;
    is_reset(&mut stream).await?;
    eventually(STEP_DEADLINE, "the end of the listener", async || {
        let error = TcpStream::connect(one.address()).await.err()?;
        (error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    })
    .await?;

    let audit = ["audit", "requests", "--cluster", "demo", "-o", "json"];
    let target = format!("/tcp/{}", echo.address());
    eventually(STEP_DEADLINE, "the event of the end", async || {
        let events = world.hub.cli(audit).await.ok()?.success().ok()?;
        let has = |text: &str| events.contains(text);
        (has(&target) && has("service:echo") && has("FL-1205")).then_some(())
    })
    .await
}

#[tokio::test]
async fn clients_from_elsewhere_and_forbidden_targets_are_reset() -> anyhow::Result<()> {
    let (echo, other) = (EchoTarget::start().await?, EchoTarget::start().await?);
    let mut world = world(&[echo.rule()]).await?;
    let (one, two) = (ReservedPort::new()?, ReservedPort::new()?);
    create(
        &world,
        "far",
        &echo.address(),
        one.address().port(),
        "10.0.0.0/8",
    )
    .await?;
    is_refused(one.address()).await?;
    world
        .hub
        .process
        .wait_for_log("FL-1427", STEP_DEADLINE)
        .await?;

    // The site's rules do not have the target.
    create(
        &world,
        "other",
        &other.address(),
        two.address().port(),
        "127.0.0.1",
    )
    .await?;
    is_refused(two.address()).await?;
    world
        .hub
        .process
        .wait_for_log("FL-1523", STEP_DEADLINE)
        .await?;
    ensure!(echo.open() == 0 && other.open() == 0);
    Ok(())
}

#[tokio::test]
async fn taken_port_is_the_state_of_its_service() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = world(&[echo.rule()]).await?;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = taken.local_addr()?.port().to_string();
    let args = [
        "service",
        "create",
        "echo",
        "--cluster",
        "demo",
        "--target",
        &echo.address(),
        "--port",
        &port,
        "--from",
        "127.0.0.1",
    ];
    world.hub.cli(args).await?.success()?;
    eventually(STEP_DEADLINE, "the cause in the state", async || {
        let state = list(&world).await.ok()?.pop()?.state;
        (!state.listening && state.cause?.contains("in use")).then_some(())
    })
    .await?;
    drop(taken);
    eventually(STEP_DEADLINE, "another attempt to listen", async || {
        let state = list(&world).await.ok()?.pop()?.state;
        state.listening.then_some(())
    })
    .await
}
