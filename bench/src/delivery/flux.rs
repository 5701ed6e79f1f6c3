//! Flux's kustomize-controller with many small bundles, in a cluster of its own. Its sources are objects that a small HTTP
//! server of the bench backs, because source-controller is not measured.

use std::{
    io::Write as _, net::SocketAddr, path::PathBuf, process::Stdio, sync::Arc, time::Duration,
};

use anyhow::{Context as _, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use fairlead_api::hex;
use fairlead_apiserver::Upstream;
use fairlead_e2e::Cluster;
use flate2::{Compression, write::GzEncoder};
use futures_util::future::try_join_all;
use hyper::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    agent_part::FEW_OBJECTS,
    bundles::{self, NAMESPACE},
    site::{self, JSON, MERGE_PATCH, request},
};
use crate::{
    launch::{Launcher, Role, Spec},
    ports, proc,
};

/// Objects that are written at the same time.
const WRITER_COUNT: usize = 8;
const START_DEADLINE: Duration = Duration::from_secs(60);
const READY_DEADLINE: Duration = Duration::from_secs(200);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Longest head of a request for an artifact, in bytes.
const MAX_HEAD_BYTES: usize = 8192;
const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/bench/gitrepositories";
const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/bench/kustomizations";

/// Time until all are ready, in seconds, and highest memory, in MB.
pub(super) struct FluxResult {
    pub(super) seconds: f64,
    pub(super) memory: f64,
}

/// Builds the controller, unless it is cached, and returns its folder.
///
/// # Errors
/// It cannot be built.
pub(super) async fn build() -> anyhow::Result<PathBuf> {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("flux/build");
    let mut build = Command::new(script);
    let built = build.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let built = built.await?;
    ensure!(built.status.success(), "bench/flux/build: {}", built.status);
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

/// Measures the controller with its defaults. `wait`: a Kustomization is ready when its objects are healthy.
pub(super) async fn measure(
    launcher: &Launcher,
    folder: &std::path::Path,
    count: usize,
    wait: bool,
) -> anyhow::Result<FluxResult> {
    let cluster = Cluster::start_lite().await?;
    let api = site::api(&cluster);
    site::create_namespace(&api).await?;
    let crds = folder.join("crds").display().to_string();
    for words in [
        &["create", "-f", &crds][..],
        &["wait", "--for=condition=Established", "crd", "--all"],
    ] {
        cluster.kubectl().args(words).run().await?.success()?;
    }
    let artifacts = (0..count)
        .map(artifact)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let artifacts = Arc::new(artifacts);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut server = JoinSet::new();
    server.spawn(serve(listener, Arc::clone(&artifacts)));
    by_writers(count, async |number| {
        create_source(&api, address, number, &artifacts).await
    })
    .await?;
    let mut controller = start(launcher, folder, &cluster).await?;
    let begun = Instant::now();
    by_writers(count, async |number| {
        let body = kustomization(number, wait);
        let (status, _) = request(&api, Method::POST, KUSTOMIZATIONS, JSON, &body).await?;
        ensure!(status.is_success(), "Kustomization: {status}");
        Ok(())
    })
    .await?;
    until_ready(&api, &mut controller, count).await?;
    let result = FluxResult {
        seconds: begun.elapsed().as_secs_f64(),
        memory: proc::peak_memory(controller.pid())? as f64 / 1e6,
    };
    controller.kill();
    Ok(result)
}

/// Does the work of all numbers, by some writers at the same time.
async fn by_writers(
    count: usize,
    work: impl AsyncFn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let work = &work;
    let writing = (0..WRITER_COUNT).map(|writer| async move {
        for number in (writer..count).step_by(WRITER_COUNT) {
            work(number).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(writing).await.map(drop)
}

fn name(number: usize) -> String {
    format!("bench-{number:03}")
}

/// Gzipped tar with the same manifests as a bundle of Fairlead.
fn artifact(number: usize) -> anyhow::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&bundles::tar_of(&bundles::manifests(number, FEW_OBJECTS))?)?;
    Ok(gzip.finish()?)
}

/// Creates a source as source-controller leaves it behind.
async fn create_source(
    api: &Upstream,
    address: SocketAddr,
    number: usize,
    artifacts: &[Vec<u8>],
) -> anyhow::Result<()> {
    let (name, bytes) = (name(number), artifacts.get(number).context("an artifact")?);
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"interval": "1h", "url": "https://git.example.com/bench.git"},
    });
    let (status, body) = request(api, Method::POST, SOURCES, JSON, &source).await?;
    ensure!(
        status.is_success(),
        "source: {status}: {}",
        String::from_utf8_lossy(&body)
    );
    let now = time::OffsetDateTime::now_utc().replace_nanosecond(0)?;
    let now = now.format(&time::format_description::well_known::Rfc3339)?;
    let artifact = json!({
        "path": format!("{name}.tar.gz"),
        "url": format!("http://{address}/{number}"),
        "revision": "main@sha1:0123456789abcdef0123456789abcdef01234567",
        "digest": format!("sha256:{}", hex::encode(digest(&SHA256, bytes).as_ref())),
        "size": bytes.len(),
        "lastUpdateTime": now,
    });
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored",
        "lastTransitionTime": now,
    });
    let status = json!({"status": {"artifact": artifact, "conditions": [ready]}});
    let path = format!("{SOURCES}/{name}/status");
    let (status, body) = request(api, Method::PATCH, &path, MERGE_PATCH, &status).await?;
    ensure!(
        status.is_success(),
        "status of a source: {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(())
}

fn kustomization(number: usize, wait: bool) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": name(number), "namespace": NAMESPACE},
        "spec": {
            "interval": "1h",
            "path": "./",
            "prune": true,
            "wait": wait,
            "sourceRef": {"kind": "GitRepository", "name": name(number)},
        },
    })
}

/// Starts the controller, and waits until it serves its metrics.
async fn start(
    launcher: &Launcher,
    folder: &std::path::Path,
    cluster: &Cluster,
) -> anyhow::Result<Role> {
    let (metrics, health) = (ports::free()?, ports::free()?);
    // `env` replaces itself by the controller, so that both have one process id.
    let spec = Spec::new("kustomize-controller", "env")
        .arg(format!("KUBECONFIG={}", cluster.kubeconfig().display()))
        .arg(format!("RUNTIME_NAMESPACE={NAMESPACE}"))
        .arg(folder.join("kustomize-controller"))
        .arg(format!("--metrics-addr=127.0.0.1:{metrics}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"));
    let mut controller = launcher.run(&spec)?;
    let deadline = Instant::now() + START_DEADLINE;
    while proc::listening(health..health + 1) == 0 {
        controller.alive()?;
        ensure!(
            Instant::now() < deadline,
            controller.failed("wait for kustomize-controller")
        );
        sleep(POLL_INTERVAL).await;
    }
    Ok(controller)
}

async fn until_ready(api: &Upstream, controller: &mut Role, count: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut next = begun + PROGRESS_INTERVAL;
    loop {
        controller.alive()?;
        let (status, body) = request(api, Method::GET, KUSTOMIZATIONS, JSON, &Value::Null).await?;
        ensure!(status.is_success(), "Kustomizations: {status}");
        let list: Value = serde_json::from_slice(&body)?;
        let items = list.get("items").and_then(Value::as_array);
        let ready = items.into_iter().flatten().filter(|it| is_ready(it));
        let ready = ready.count();
        if ready >= count {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < READY_DEADLINE,
            controller.failed(&format!("{ready} of {count} Kustomizations ready"))
        );
        if Instant::now() > next {
            eprintln!("  {ready} of {count} Kustomizations ready");
            next += PROGRESS_INTERVAL;
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn is_ready(kustomization: &Value) -> bool {
    let conditions = kustomization.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|it| {
        it.get("type") == Some(&json!("Ready")) && it.get("status") == Some(&json!("True"))
    })
}

/// Serves each artifact at its number.
async fn serve(listener: TcpListener, artifacts: Arc<Vec<Vec<u8>>>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let artifacts = Arc::clone(&artifacts);
        connections.spawn(async move {
            // The controller repeats a failed request.
            let _ = answer(socket, &artifacts).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Answers one request and closes the connection.
async fn answer(mut socket: TcpStream, artifacts: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < MAX_HEAD_BYTES, "the head has no end");
        head.push(socket.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let number = head.split_ascii_whitespace().nth(1);
    let number = number.and_then(|it| it.strip_prefix('/')?.parse::<usize>().ok());
    let bytes = number.and_then(|it| artifacts.get(it));
    let (status, bytes) = match bytes {
        Some(bytes) => ("200 OK", bytes.as_slice()),
        None => ("404 Not Found", &[][..]),
    };
    let length = bytes.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(bytes).await?;
    Ok(socket.shutdown().await?)
}
