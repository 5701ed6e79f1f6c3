//! Throughput of one stream over a far path compared with plain TCP over the same path in the same run.
//! Figures are printed. Only a stream limited by something other than the path fails, with tolerance for a
//! busy machine.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::RawClient;
use fairlead_e2e_net::net::HUB_ADDRESS;
use fairlead_e2e_net::{HUB, LinkShape, Net, Stage};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::size;

const BYTES_PER_MIB: u64 = 1024 * 1024;
/// Size of one log line, in bytes.
const LINE_BYTES: usize = 64 * 1024;
/// Ports of plain TCP flows.
const PORTS: [u16; 2] = [9, 10];
/// Deadline of each transfer; a partial transfer counts.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(60);
/// Smallest share of plain TCP's rate. A stream limited by a window has a tenth, while noise does not halve
/// it.
const MIN_RATE_SHARE: f64 = 0.5;

/// Round trip from which on the dialer takes a path for far, in milliseconds.
const FAR_MILLIS: u64 = 5;

/// Bytes per second, from the first byte to the last.
type Rate = f64;

/// Plain TCP from the site to this port of the hub: `bytes`, or as many as arrive within `most`.
async fn plain(net: &Net, port: u16, bytes: u64, most: Duration) -> anyhow::Result<Rate> {
    let at = SocketAddr::new(HUB_ADDRESS.parse()?, port);
    let listener = net.hub.listen(at)?;
    let mut stream = net.site.connect(at)?;
    let writer = spawn_blocking(move || {
        let chunk = vec![7; LINE_BYTES];
        // Ends when the reader closes.
        while stream.write_all(&chunk).is_ok() {}
    });
    let reader = spawn_blocking(move || {
        let (mut stream, _) = listener.accept()?;
        let mut chunk = vec![0; LINE_BYTES];
        stream.read_exact(chunk.get_mut(..1).unwrap_or_default())?;
        let (begun, mut read) = (Instant::now(), 1);
        while read < bytes && begun.elapsed() < most {
            let more = stream.read(&mut chunk)?;
            ensure!(more > 0, "it ended after {read} bytes");
            read += more as u64;
        }
        Ok(read as f64 / begun.elapsed().as_secs_f64())
    });
    let rate = reader.await?;
    writer.await?;
    rate
}

/// Writes a log of this size for a container of its own.
fn write_log(stage: &Stage, pod: &str, bytes: u64) -> anyhow::Result<()> {
    let path = stage.cluster.container_log("default", pod, "demo");
    let mut log = BufWriter::new(File::create(path)?);
    let text = "x".repeat(LINE_BYTES);
    for _ in 0..bytes / LINE_BYTES as u64 {
        writeln!(log, "2026-01-01T00:00:00.000000000Z stdout F {text}")?;
    }
    Ok(log.flush()?)
}

/// Reads the log of that pod through the hub, with curl.
async fn tunnel(stage: &Stage, pod: &str, bytes: u64, most: Duration) -> anyhow::Result<Rate> {
    let cluster = &stage.joining.id;
    let url = format!(
        "https://{HUB}/k8s/clusters/{cluster}/api/v1/namespaces/default/pods/{pod}/log?limitBytes={bytes}"
    );
    let ca = stage.hub.ready().ca_file.display().to_string();
    let bearer = format!("Authorization: Bearer {}", stage.hub.token()?.trim());
    let user = stage.net.user.clone();
    let told = spawn_blocking(move || {
        let form = "%{http_code} %{size_download} %{time_starttransfer} %{time_total}";
        let most = most.as_secs().to_string();
        // curl's exit code 28 means that the time is over, which is no failure.
        let words = ["sh", "-c", "curl \"$@\" || [ $? = 28 ]", "curl", "-sS"];
        let asked = ["--cacert", &ca, "-H", &bearer, "--max-time", &most];
        let told = ["-o", "/dev/null", "-w", form, &url];
        user.run(&[&words[..], &asked, &told].concat())
    });
    let told = told.await??;
    let words: Vec<f64> = told
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [status, size, first, last] = words.as_slice() else {
        anyhow::bail!("curl: {told}");
    };
    ensure!(*status == 200.0, "curl: {told}");
    Ok(size / (last - first))
}

/// Measures both in turns, over the same link.
async fn beside_plain_tcp(shape: LinkShape, mib: u64, control: Option<&str>) -> anyhow::Result<()> {
    let rounds = size("FAIRLEAD_NET_ROUNDS", 1, 5)?;
    let bytes = mib * BYTES_PER_MIB;
    let stage = Stage::set().await?;
    if let Some(control) = control {
        stage.net.congestion_control(control)?;
    }
    // The link is far from the first dial on, because a changed path first has to be learned.
    stage.net.link(shape)?;
    let site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await?;
    let pod = stage.pod().await?;
    write_log(&stage, &pod, bytes)?;
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let plain = plain(&stage.net, PORTS[0], bytes, TRANSFER_DEADLINE).await?;
        let tunnel = tunnel(&stage, &pod, bytes, TRANSFER_DEADLINE).await;
        let tunnel = tunnel.with_context(|| stage.said(&site))?;
        eprintln!(
            "{shape:?} {control:?}: plain TCP {:.2} MB/s, one stream {:.2} MB/s, ratio {:.2}",
            plain / 1e6,
            tunnel / 1e6,
            tunnel / plain
        );
        ratios.push(tunnel / plain);
    }
    ratios.sort_by(f64::total_cmp);
    let median = *ratios.get(ratios.len() / 2).context("no rounds")?;
    ensure!(median >= MIN_RATE_SHARE, "{median:.2} of plain TCP");
    Ok(())
}

fn far(millis: u64) -> LinkShape {
    // 200 Mbit/s with a queue of 20 ms, like a good company link.
    LinkShape::round_trip(Duration::from_millis(millis)).rate(25_000_000, 512 * 1024)
}

#[tokio::test]
async fn one_stream_over_20_ms_is_as_fast_as_plain_tcp() -> anyhow::Result<()> {
    beside_plain_tcp(far(20), 96, None).await
}

#[tokio::test]
async fn one_stream_over_60_ms_is_as_fast_as_plain_tcp() -> anyhow::Result<()> {
    beside_plain_tcp(far(60), 96, None).await
}

#[tokio::test]
async fn one_stream_over_150_ms_is_as_fast_as_plain_tcp() -> anyhow::Result<()> {
    beside_plain_tcp(far(150), 96, None).await
}

#[tokio::test]
async fn one_stream_over_a_lossy_path_is_as_fast_as_plain_tcp() -> anyhow::Result<()> {
    beside_plain_tcp(far(20).loss(0.01), 8, None).await
}

#[tokio::test]
async fn one_stream_over_a_far_lossy_path_is_as_fast_as_plain_tcp() -> anyhow::Result<()> {
    beside_plain_tcp(far(150).loss(0.01), 32, Some("bbr")).await
}

/// Latencies of requests made one after the other until the other work is done, sorted.
async fn ask_beside<T>(
    stage: &Stage,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, Vec<Duration>)> {
    let ca = std::fs::read_to_string(&stage.hub.ready().ca_file)?;
    let at = SocketAddr::new(HUB_ADDRESS.parse()?, 443);
    let front =
        fairlead_e2e::admin::in_net(RawClient::at(at, HUB.try_into()?, &ca)?, &stage.net.user);
    let request = format!(
        "GET /k8s/clusters/{}/version HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer {}\r\n\r\n",
        stage.joining.id,
        stage.hub.token()?.trim()
    );
    let mut exchange = front.open(request.as_bytes()).await?;
    exchange.body().await?;
    let mut took = Vec::new();
    let ask = async {
        loop {
            sleep(Duration::from_millis(100)).await;
            let begun = Instant::now();
            exchange.again(request.as_bytes()).await?;
            took.push(begun.elapsed());
        }
    };
    let worked = tokio::select! {
        worked = work => worked?,
        failed = ask => return failed,
    };
    took.sort();
    Ok((worked, took))
}

/// A bulk stream beside a flow of plain TCP: neither starves the other, and small requests continue.
/// The session has been dialled over the first of the paths, and each of them has its turn. Over a
/// far one the link's TCP does not stay in its startup, in which BBR takes more than its share.
async fn beside_other_tcp(paths: &[u64]) -> anyhow::Result<()> {
    let most = Duration::from_secs(20);
    let stage = Stage::set().await?;
    stage.net.congestion_control("bbr")?;
    let first = *paths.first().context("no path")?;
    stage.net.link(far(first))?;
    let _site = stage.agent(|agent| agent).await?;
    let pod = stage.pod().await?;
    write_log(&stage, &pod, 512 * BYTES_PER_MIB)?;
    let rounds = size("FAIRLEAD_NET_ROUNDS", 1, 5)? as usize;
    for &millis in paths
        .iter()
        .flat_map(|path| std::iter::repeat_n(path, rounds))
    {
        stage.net.link(far(millis))?;
        stage.get_nodes().await?;
        let [other, second] = PORTS.map(|port| plain(&stage.net, port, u64::MAX, most));
        let (other, second) = tokio::try_join!(other, second)?;
        eprintln!(
            "{millis} ms: plain TCP {:.2} MB/s, a second flow of it {:.2} MB/s, ratio {:.2}",
            other / 1e6,
            second / 1e6,
            second / other
        );
        let both = async {
            tokio::try_join!(
                plain(&stage.net, PORTS[0], u64::MAX, most),
                tunnel(&stage, &pod, 512 * BYTES_PER_MIB, most)
            )
        };
        let ((plain, tunnel), took) = ask_beside(&stage, both).await?;
        let median = took
            .get(took.len() / 2)
            .context("no request was answered")?;
        eprintln!(
            "{millis} ms: plain TCP {:.2} MB/s, one stream beside it {:.2} MB/s, ratio {:.2}; requests: median {median:?}, longest {:?}",
            plain / 1e6,
            tunnel / 1e6,
            tunnel / plain,
            took.last()
        );
        ensure!(tunnel >= 0.05 * plain, "it is starved");
        if millis >= FAR_MILLIS {
            let links = stage.net.site.run(&["ss", "-tinH", "dport = :443"])?;
            let startup = links.contains("pacing_gain:2.8");
            ensure!(links.contains("bbr:(") && !startup, "{links}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn stream_shares_a_path_of_1_ms_with_other_tcp() -> anyhow::Result<()> {
    beside_other_tcp(&[1]).await
}

#[tokio::test]
async fn stream_shares_a_path_of_20_ms_with_other_tcp() -> anyhow::Result<()> {
    beside_other_tcp(&[20]).await
}

#[tokio::test]
async fn stream_shares_a_path_of_60_ms_with_other_tcp() -> anyhow::Result<()> {
    beside_other_tcp(&[60]).await
}

/// BBR learns of a longer path within ten seconds.
#[tokio::test]
async fn stream_shares_a_path_that_becomes_longer_with_other_tcp() -> anyhow::Result<()> {
    beside_other_tcp(&[1, 20, 60]).await
}
