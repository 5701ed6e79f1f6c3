//! Named services by host: HTTP behind the TLS of the hub, and TLS that passes through it.

use anyhow::{Context, ensure};
use fairlead_e2e::targets::EchoTarget;
use fairlead_testkit::tls;
use rustls::{ClientConnection, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
    time::timeout,
};

use crate::{
    programs::{run, text},
    world::{STEP_DEADLINE, TcpWorld},
};

const DOMAIN: &str = "apps.example.test";

async fn world(rules: &[String]) -> anyhow::Result<TcpWorld> {
    TcpWorld::start_with(&["--service-domain", DOMAIN], rules).await
}

async fn create(world: &TcpWorld, args: &[&str]) -> anyhow::Result<()> {
    let begin = ["service", "create"];
    let args = [&begin[..], args, &["--cluster", "demo"]].concat();
    world.hub.cli(args).await?.success()?;
    Ok(())
}

/// A web server that answers with the head of the request; an upgrade gets an echo.
async fn mirror() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    if text(&head).contains("upgrade: websocket") {
        let switched =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";
        stream.write_all(switched.as_bytes()).await?;
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await?;
        return to.shutdown().await;
    }
    let begin = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nset-cookie: a=b\r\n\r\n",
        head.len()
    );
    stream.write_all(begin.as_bytes()).await?;
    stream.write_all(&head).await?;
    stream.shutdown().await
}

/// Runs curl for a host of the hub. Its certificate is not for services here.
async fn curl(world: &TcpWorld, host: &str, args: &[&str]) -> anyhow::Result<String> {
    let address = world.hub.front()?.address();
    let port = address.port();
    let mut command = Command::new("curl");
    command.env_clear().args(["-sSik", "--noproxy", "*"]);
    command.args(["--resolve", &format!("{host}:{port}:127.0.0.1")]);
    let output = run(
        command
            .args(args)
            .arg(format!("https://{host}:{port}/a%2Fb?c=d")),
        b"",
    );
    let output = output.await?;
    ensure!(output.status.success(), "{output:?}");
    Ok(text(&output.stdout))
}

#[tokio::test]
async fn requests_reach_the_target_of_their_host() -> anyhow::Result<()> {
    let mirror = mirror().await?;
    let world = world(std::slice::from_ref(&mirror)).await?;
    let host = format!("shop.{DOMAIN}");
    let open = ["--http-host", &host, "--from", "127.0.0.1"];
    create(
        &world,
        &[&["shop", "--target", &mirror][..], &open].concat(),
    )
    .await?;
    for version in ["--http1.1", "--http2"] {
        let authorization = ["-H", "Authorization: Basic eDp5", version];
        let answer = curl(&world, &host, &authorization).await?;
        for part in [
            "200",
            "set-cookie: a=b",
            "GET /a%2Fb?c=d HTTP/1.1",
            &format!("host: {host}:"),
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-proto: https",
            // It belongs to the target.
            "authorization: Basic eDp5",
        ] {
            ensure!(answer.contains(part), "{version}: no {part:?} in {answer}");
        }
    }
    let far = format!("far.{DOMAIN}");
    let closed = ["--http-host", &far, "--from", "10.0.0.0/8"];
    create(
        &world,
        &[&["far", "--target", &mirror][..], &closed].concat(),
    )
    .await?;
    let answer = curl(&world, &far, &[]).await?;
    ensure!(
        answer.contains("403") && answer.contains("FL-1427"),
        "{answer}"
    );

    // An upgrade carries bytes both ways, and ends with its service.
    let mut io = world.hub.front()?.connect().await?;
    let head = format!(
        "GET /socket HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    io.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let byte = timeout(STEP_DEADLINE, io.read_u8()).await;
        answer.push(byte.context("no head")??);
    }
    ensure!(
        text(&answer).starts_with("HTTP/1.1 101 "),
        "{}",
        text(&answer)
    );
    // One binary frame, masked with zeros; the echo is the same frame.
    let frame = [0x82, 0x81, 0, 0, 0, 0, b'x'];
    io.write_all(&frame).await?;
    let mut echo = [0; 7];
    timeout(STEP_DEADLINE, io.read_exact(&mut echo)).await??;
    ensure!(echo == frame, "{echo:?}");
    let deletion = ["service", "delete", "shop", "--yes"];
    world.hub.cli(deletion).await?.success()?;
    let mut rest = Vec::new();
    // Either a close with the reason, or a reset, if the client does not take it in time.
    let _ = timeout(STEP_DEADLINE, io.read_to_end(&mut rest)).await?;
    ensure!(text(&rest).contains("FL-1205"), "{rest:?}");
    let answer = curl(&world, &host, &[]).await?;
    ensure!(!answer.contains("set-cookie"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn service_with_callers_takes_tokens_and_keeps_them() -> anyhow::Result<()> {
    let mirror = mirror().await?;
    let world = world(std::slice::from_ref(&mirror)).await?;
    let host = format!("shop.{DOMAIN}");
    let args = ["shop", "--target", &mirror, "--http-host", &host];
    create(
        &world,
        &[&args[..], &["--from", "127.0.0.1", "--callers"]].concat(),
    )
    .await?;
    let refused = curl(&world, &host, &[]).await?;
    ensure!(
        refused.contains("401") && refused.contains("Basic realm="),
        "{refused}"
    );
    let tcp = world.token("tcp", &["--role", "tcp"]).await?;
    let viewer = world.token("viewer", &["--role", "viewer"]).await?;
    let bearer = format!("Authorization: Bearer {tcp}");
    let basic = format!("anyone:{tcp}");
    for args in [["-H", &bearer], ["-u", &basic]] {
        let answer = curl(&world, &host, &args).await?;
        ensure!(answer.contains("set-cookie: a=b"), "{answer}");
        ensure!(!answer.contains("authorization"), "{answer}");
    }
    let answer = curl(&world, &host, &["-u", &format!("x:{viewer}")]).await?;
    ensure!(
        answer.contains("403") && answer.contains("FL-1423"),
        "{answer}"
    );
    Ok(())
}

/// First message of TLS for this server name.
fn hello(world: &TcpWorld, name: &str) -> anyhow::Result<Vec<u8>> {
    let config = tls::client(&world.hub.ready().ca_file)?;
    let name = ServerName::try_from(name.to_owned())?;
    let mut client = ClientConnection::new(config, name)?;
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes)?;
    Ok(bytes)
}

#[tokio::test]
async fn tls_passes_unchanged_by_its_server_name() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = world(&[echo.rule()]).await?;
    let host = format!("vault.{DOMAIN}");
    let address = echo.address();
    let args = ["vault", "--target", &address, "--https-host", &host];
    create(&world, &[&args[..], &["--from", "127.0.0.1"]].concat()).await?;
    let front = world.hub.front()?.address();
    let sent = hello(&world, &host)?;
    let mut stream = TcpStream::connect(front).await?;
    let (begin, end) = sent.split_at(100);
    stream.write_all(begin).await?;
    stream.write_all(end).await?;
    let mut received = vec![0; sent.len()];
    timeout(STEP_DEADLINE, stream.read_exact(&mut received)).await??;
    ensure!(received == sent, "the first message has changed");
    stream.write_all(b"more").await?;
    stream.shutdown().await?;
    let mut rest = Vec::new();
    timeout(STEP_DEADLINE, stream.read_to_end(&mut rest)).await??;
    ensure!(rest == b"more", "{rest:?}");

    // The hub's own names have its own TLS still.
    world.hub.cli(["cluster", "list"]).await?.success()?;
    let mut stream = TcpStream::connect(front).await?;
    stream.write_all(&hello(&world, "localhost")?).await?;
    let mut first = [0; 2];
    timeout(STEP_DEADLINE, stream.read_exact(&mut first)).await??;
    ensure!(first == [0x16, 0x03], "no handshake: {first:?}");
    ensure!(echo.open() == 0);
    Ok(())
}
