//! A hub behind a real haproxy: limits and audit follow the addresses of the clients, not that of the balancer.

#![allow(
    clippy::large_futures,
    clippy::print_stderr,
    reason = "a test waits for one future at a time, and prints its figures"
)]

use std::{
    fs,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use fairlead_e2e::{Hub, Launch, Process, RawAnswer, RawClient, eventually};
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Address that haproxy connects from.
const BALANCER: &str = "127.0.0.9";
const ATTACKER: &str = "127.0.0.2";
const OTHER: &str = "127.0.0.3";
/// Connections whose client takes no byte of any answer, and requests on each.
const MAX_WINDOWLESS: usize = 33;
const STREAMS_PER_CONNECTION: usize = 100;
/// Wrong tokens that an address may send in a minute.
const MAX_WRONG_TOKENS: usize = 30;
const STEP_DEADLINE: Duration = Duration::from_secs(30);
const V2_HEADER: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x01\x01\x01\x02\x02\x02\x02\x03\xe8\x01\xbb";

/// A running haproxy in front of one address.
struct Balancer {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Balancer {
    async fn start(mode: &str, server: SocketAddr, options: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = free_port()?;
        let forward = match mode {
            "http" => "  option forwardfor\n",
            _ => "",
        };
        let config = format!(
            "global\n  maxconn 1000\n\
             defaults\n  mode {mode}\n{forward}  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
             frontend edge\n  bind {address}\n  default_backend hubs\n\
             backend hubs\n  server hub {server} source {BALANCER} {options}\n"
        );
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, config)?;
        let launch = Launch::new("haproxy").args(["-db".as_ref(), "-f".as_ref(), file.as_os_str()]);
        let process = launch.spawn(folder.path().join("out.log"))?;
        let listens = async || TcpStream::connect(address).ok();
        eventually(STEP_DEADLINE, "haproxy's port", listens)
            .await
            .with_context(|| process.log().unwrap_or_default())?;
        Ok(Balancer {
            address,
            _process: process,
            _folder: folder,
        })
    }
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Opens a connection from this address of loopback.
fn connect_from(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// A client with this address.
fn client(hub: &Hub, at: SocketAddr, from: &str) -> anyhow::Result<RawClient> {
    let ca = fs::read_to_string(&hub.ready().ca_file)?;
    let client = RawClient::new(&format!("https://{at}"), &ca)?;
    let from = from.parse()?;
    Ok(client.connecting_by(move |to| connect_from(from, to)))
}

/// Requests the caller's own name.
async fn whoami(client: &RawClient, headers: &str) -> anyhow::Result<RawAnswer> {
    let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: hub\r\n{headers}\r\n");
    timeout(STEP_DEADLINE, client.send(request)).await?
}

/// Opens requests on one connection and takes no byte of their answers.
async fn windowless(hub: &Hub, at: SocketAddr, from: &str) -> anyhow::Result<impl Send + use<>> {
    let mut tls: ClientConfig = (*fairlead_testkit::tls::client(&hub.ready().ca_file)?).clone();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = connect_from(from.parse()?, at)?;
    tcp.set_nonblocking(true)?;
    let tcp = tokio::net::TcpStream::from_std(tcp)?;
    let connector = TlsConnector::from(std::sync::Arc::new(tls));
    let tls = connector.connect(ServerName::from(at.ip()), tcp).await?;
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(0)
        .initial_max_send_streams(STREAMS_PER_CONNECTION);
    let (client, connection) = builder.handshake::<_, Bytes>(tls).await?;
    tokio::spawn(connection);
    let mut held = Vec::new();
    for _ in 0..STREAMS_PER_CONNECTION {
        let request = http::Request::get(format!("https://{at}/v1/whoami")).body(())?;
        let mut client = client.clone().ready().await?;
        let (answer, _) = client.send_request(request, true)?;
        // Its head has arrived, so the request has a slot or was refused.
        held.push(timeout(STEP_DEADLINE, answer).await??);
    }
    Ok(held)
}

/// Sends wrong tokens until the address may send no more.
async fn use_up_wrong_tokens(client: &RawClient, headers: &str) -> anyhow::Result<()> {
    let wrong = format!("Authorization: Bearer wrong\r\n{headers}");
    for _ in 0..MAX_WRONG_TOKENS {
        ensure!(whoami(client, &wrong).await?.code() == "FL-1102");
    }
    let answer = whoami(client, &wrong).await?;
    ensure!(answer.code() == "FL-1104", "{}", answer.head);
    Ok(())
}

/// Waits until the audit log has a request from this address.
async fn wait_for_audit(hub: &Hub, from: &str) -> anyhow::Result<()> {
    let file = hub.data().join("audit/00000001.jsonl");
    let field = format!("\"from\":\"{from}");
    eventually(
        STEP_DEADLINE,
        "an audit event from the client",
        async || {
            let text = fs::read_to_string(&file).ok()?;
            text.contains(&field).then_some(())
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn attackers_behind_a_balancer_block_no_other_address() -> anyhow::Result<()> {
    let flags = ["--proxy-protocol", "--trusted-proxy", BALANCER];
    let mut hub = Hub::start_server(&flags).await?;
    let server: SocketAddr = hub.ready().url.trim_start_matches("https://").parse()?;
    let right = format!("Authorization: Bearer {}\r\n", hub.token()?);
    for options in ["send-proxy", "send-proxy-v2"] {
        let balancer = Balancer::start("tcp", server, options).await?;
        let mut held = Vec::new();
        for _ in 0..MAX_WINDOWLESS {
            held.push(windowless(&hub, balancer.address, ATTACKER).await?);
        }
        let attacker = client(&hub, balancer.address, ATTACKER)?;
        let other = client(&hub, balancer.address, OTHER)?;
        let blocked = whoami(&attacker, "").await?;
        ensure!(blocked.code() == "FL-1407", "{}", blocked.head);
        let served = whoami(&other, "").await?;
        ensure!(served.code() == "FL-1101", "{}", served.head);
        for one in [&attacker, &other] {
            ensure!(whoami(one, &right).await?.status == 200);
        }
        wait_for_audit(&hub, &format!("{OTHER}:")).await?;
    }
    let balancer = Balancer::start("tcp", server, "send-proxy-v2-ssl").await?;
    use_up_wrong_tokens(&client(&hub, balancer.address, ATTACKER)?, "").await?;
    let other = client(&hub, balancer.address, OTHER)?;
    let wrong = whoami(&other, "Authorization: Bearer wrong\r\n").await?;
    ensure!(wrong.code() == "FL-1102", "{}", wrong.head);

    // Without the header a client is served only from an address that is no balancer's.
    ensure!(whoami(&client(&hub, server, OTHER)?, &right).await?.status == 200);
    ensure!(
        whoami(&client(&hub, server, BALANCER)?, &right)
            .await
            .is_err()
    );
    hub.process
        .wait_for_log("sent no PROXY header", STEP_DEADLINE)
        .await?;
    ensure!(hub.process.log()?.contains("FL-1311"));
    // The next warning comes ten seconds later.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut forged = connect_from(OTHER.parse()?, server)?;
    std::io::Write::write_all(&mut forged, V2_HEADER)?;
    forged.set_read_timeout(Some(STEP_DEADLINE))?;
    let read = std::io::Read::read(&mut forged, &mut [0; 16]);
    ensure!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    hub.process
        .wait_for_log("no trusted proxy", STEP_DEADLINE)
        .await?;
    Ok(())
}

#[tokio::test]
async fn clients_of_a_balancer_that_ends_tls_have_their_own_addresses() -> anyhow::Result<()> {
    let plain = free_port()?;
    let listen = plain.to_string();
    let flags = ["--listen-plain", &listen, "--trusted-proxy", BALANCER];
    let hub = Hub::start_server(&flags).await?;
    let balancer = Balancer::start("http", plain, "").await?;
    let at = |address: SocketAddr, from: &str| -> anyhow::Result<RawClient> {
        let from = from.parse()?;
        let client = RawClient::plain(address);
        Ok(client.connecting_by(move |to| connect_from(from, to)))
    };
    // haproxy appends the true address to a forged one.
    let forged = format!("X-Forwarded-For: {OTHER}\r\n");
    use_up_wrong_tokens(&at(balancer.address, ATTACKER)?, &forged).await?;
    let wrong = "Authorization: Bearer wrong\r\n";
    let other = whoami(&at(balancer.address, OTHER)?, wrong).await?;
    ensure!(other.code() == "FL-1102", "{}", other.head);
    wait_for_audit(&hub, &format!("{OTHER}\"")).await?;
    // A direct client forges in vain.
    let direct = at(plain, "127.0.0.4")?;
    whoami(&direct, "X-Forwarded-For: 203.0.113.7\r\n").await?;
    wait_for_audit(&hub, "127.0.0.4:").await?;
    let log = fs::read_to_string(hub.data().join("audit/00000001.jsonl"))?;
    ensure!(!log.contains("203.0.113.7"));
    Ok(())
}
