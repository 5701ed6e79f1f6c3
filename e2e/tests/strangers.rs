//! A flood of strangers: clients without a token leave requests, handshakes and bodies open. A real agent and the real
//! kubectl work beside them, and the hub's memory stays near that at rest.

#![allow(
    clippy::large_futures,
    clippy::print_stderr,
    reason = "a test waits for one future at a time, and prints its figures"
)]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use fairlead_e2e::{Cluster, Hub, Kubectl, Site, eventually};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// One machine runs hub and strangers, so these take time.
const FLOOD_DEADLINE: Duration = Duration::from_secs(120);
/// Connections whose client takes no byte of any answer, and requests on each.
const MAX_WINDOWLESS: usize = 33;
const STREAMS_PER_CONNECTION: usize = 500;
/// Connections that never finish TLS.
const MAX_HANDSHAKES: usize = 600;
/// Strangers that send a body of 1 MiB but for its last byte.
const MAX_BODIES: usize = 1000;
const BODY_BYTES: usize = 1024 * 1024;
/// Memory that all of them may cost the hub.
const MAX_GROWTH_BYTES: u64 = 64 * 1024 * 1024;
/// Time of a request of kubectl beside them. It is shorter than all deadlines of strangers, so it has not waited for one.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(8);

/// A client of the hub without a token.
#[derive(Clone)]
struct Stranger {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Stranger {
    fn of(hub: &Hub, protocol: &str) -> anyhow::Result<Self> {
        let mut tls = (*fairlead_testkit::tls::client(&hub.ready().ca_file)?).clone();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let address = hub.ready().url.trim_start_matches("https://").parse()?;
        Ok(Stranger {
            address,
            tls: Arc::new(tls),
        })
    }

    async fn tcp(&self) -> anyhow::Result<TcpStream> {
        Ok(timeout(STEP_DEADLINE, TcpStream::connect(self.address)).await??)
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let name = ServerName::IpAddress(self.address.ip().into());
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let connecting = connector.connect(name, self.tcp().await?);
        Ok(timeout(STEP_DEADLINE, connecting).await??)
    }

    /// Opens requests on one connection and takes no byte of their answers.
    async fn windowless(self) -> anyhow::Result<Vec<OpenAnswer>> {
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(0)
            .initial_max_send_streams(STREAMS_PER_CONNECTION);
        let (client, connection) = builder.handshake::<_, Bytes>(self.connect().await?).await?;
        tokio::spawn(connection);
        let mut held = Vec::new();
        for _ in 0..STREAMS_PER_CONNECTION {
            let request = http::Request::get(format!("https://{}/v1/whoami", self.address));
            let mut client = client.clone().ready().await?;
            held.push(client.send_request(request.body(())?, true)?);
        }
        Ok(held)
    }

    async fn handshake(self) -> anyhow::Result<TcpStream> {
        let mut tcp = self.tcp().await?;
        tcp.write_all(&[22, 3, 1, 2, 0, 1]).await?;
        Ok(tcp)
    }

    /// Sends a body of many small objects but for its last byte. Reads nothing before that.
    async fn body(self, number: usize) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut tls = self.connect().await?;
        let chunked = number.is_multiple_of(2);
        let framing = match chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {BODY_BYTES}"),
        };
        let head = format!(
            "POST /clusters HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n",
            self.address
        );
        tls.write_all(head.as_bytes()).await?;
        let piece = b"[{\"\":0},".repeat(512);
        let mut left = BODY_BYTES - 1;
        while left > 0 {
            let piece = piece.get(..left.min(piece.len())).unwrap_or_default();
            if chunked {
                tls.write_all(format!("{:x}\r\n", piece.len()).as_bytes())
                    .await?;
            }
            tls.write_all(piece).await?;
            if chunked {
                tls.write_all(b"\r\n").await?;
            }
            left -= piece.len();
        }
        tls.flush().await?;
        Ok(tls)
    }
}

type OpenAnswer = (h2::client::ResponseFuture, h2::SendStream<Bytes>);

/// Counts a stranger that has sent everything, or was cut off, and keeps its connection.
fn linger<T: Send + 'static>(
    stranger: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    arrived: &Arc<AtomicUsize>,
) -> impl Future<Output = ()> + Send + 'static {
    let arrived = Arc::clone(arrived);
    async move {
        let _open = timeout(STEP_DEADLINE, stranger).await;
        arrived.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

/// Highest resident memory of the hub since this was started.
fn watch_memory(hub: &Hub) -> (Arc<AtomicU64>, JoinSet<()>) {
    let highest = Arc::new(AtomicU64::new(0));
    let (pid, seen) = (hub.process.pid(), Arc::clone(&highest));
    let mut watching = JoinSet::new();
    watching.spawn(async move {
        while let Ok(usage) = fairlead_testkit::process::usage(pid) {
            seen.fetch_max(usage.rss, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
        }
    });
    (highest, watching)
}

/// The shortest of three requests: the machine may be busy, the hub may not.
async fn fastest(kubectl: &Kubectl) -> anyhow::Result<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        let call = kubectl.clone().args(["get", "--raw", "/version"]);
        call.run().await?.success()?;
        fastest = fastest.min(begun.elapsed());
    }
    Ok(fastest)
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_and_kubectl_work_beside_a_flood_of_strangers() -> anyhow::Result<()> {
    let cluster = Cluster::start_lite().await?;
    let hub = Hub::start().await?;
    let joining = hub.create_cluster("demo").await?;
    let mut site = Site::start(&hub, &cluster, &joining).await?;
    let kubectl = hub.kubectl(&cluster, "demo").await?;
    let calm = fastest(&kubectl).await?;
    let rest = hub.process.usage()?.rss;
    let (highest, _watching) = watch_memory(&hub);

    let (http1, http2) = (Stranger::of(&hub, "http/1.1")?, Stranger::of(&hub, "h2")?);
    let mut flood = JoinSet::new();
    let arrived = Arc::new(AtomicUsize::new(0));
    for _ in 0..MAX_WINDOWLESS {
        flood.spawn(linger(http2.clone().windowless(), &arrived));
    }
    for _ in 0..MAX_HANDSHAKES {
        flood.spawn(linger(http1.clone().handshake(), &arrived));
    }
    for number in 0..MAX_BODIES {
        flood.spawn(linger(http1.clone().body(number), &arrived));
    }
    let all = MAX_WINDOWLESS + MAX_HANDSHAKES + MAX_BODIES;
    let opened = async || (arrived.load(Ordering::Relaxed) == all).then_some(());
    eventually(FLOOD_DEADLINE, "arrival of all strangers", opened).await?;

    let beside = fastest(&kubectl)
        .await
        .context("kubectl beside strangers")?;
    site.process.kill_9()?;
    hub.wait_state(&joining.id, "Lost").await?;
    site.restart()?;
    hub.wait_state(&joining.id, "Connected").await?;
    let again = fastest(&kubectl).await.context("kubectl after a restart")?;
    let growth = highest.load(Ordering::Relaxed).saturating_sub(rest);
    eprintln!(
        "kubectl {calm:?}, beside strangers {beside:?}, after the agent's restart {again:?}; hub {} KiB at rest, +{} KiB",
        rest / 1024,
        growth / 1024
    );
    ensure!(beside < MAX_ANSWER_TIME && again < MAX_ANSWER_TIME);
    ensure!(growth <= MAX_GROWTH_BYTES, "+{} KiB", growth / 1024);
    Ok(())
}

/// Sends a request and reads the status of its answer.
async fn status(stranger: &Stranger, request: &[u8]) -> anyhow::Result<(String, String)> {
    let mut tls = stranger.connect().await?;
    // The hub may answer and close before the end of the body.
    let _ = tls.write_all(request).await;
    let mut answer = Vec::new();
    let reading = async {
        let mut block = [0; 4096];
        while let Ok(read @ 1..) = tls.read(&mut block).await {
            answer.extend_from_slice(block.get(..read).unwrap_or_default());
            if answer.ends_with(b"}") || answer.ends_with(b"}\n") {
                break;
            }
        }
    };
    timeout(STEP_DEADLINE, reading).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let first = answer.lines().next().unwrap_or_default().to_owned();
    Ok((first, answer))
}

#[tokio::test]
async fn body_of_a_stranger_is_read_up_to_its_limit() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let stranger = Stranger::of(&hub, "http/1.1")?;
    let token = hub.token()?;
    let small = r#"{"tenant": 1}"#.to_owned();
    let large = format!(r#"{{"tenant": 1, "x": "{}"}}"#, "x".repeat(65 * 1024));
    let nested = format!("[{}1]", r#"{"":0},"#.repeat(9000));
    let wrong = "Authorization: Bearer wrong\r\n";
    let right = format!("Authorization: Bearer {token}\r\n");
    for (credential, body, expected) in [
        // Within the limit a request is judged before its sender.
        ("", &small, ("400", "FL-4109")),
        (wrong, &small, ("400", "FL-4109")),
        ("", &large, ("400", "missing or malformed jwt")),
        (wrong, &large, ("401", "FL-1102")),
        (&right, &large, ("400", "FL-4109")),
        ("", &nested, ("429", "FL-1310")),
        (&right, &nested, ("400", "FL-4109")),
    ] {
        let request = format!(
            "POST /clusters HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{credential}Content-Length: {}\r\n\r\n{body}",
            stranger.address,
            body.len()
        );
        let (first, answer) = status(&stranger, request.as_bytes()).await?;
        ensure!(
            first.contains(expected.0) && answer.contains(expected.1),
            "{credential:?} {} bytes: {answer}",
            body.len()
        );
    }
    Ok(())
}
