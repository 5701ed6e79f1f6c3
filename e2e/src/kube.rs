//! A real Kubernetes control plane for tests. `e2e/kube/README.md` lists its parts.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use fairlead_testkit::process::ProcessLocation;
use fairlead_testkit::wait::{build_folder, eventually, setting};

use crate::kubectl::Kubectl;
use crate::netns::NetNs;

const DEFINED_DEADLINE: Duration = Duration::from_secs(60);

/// Deadline of a cluster's start. It takes about six seconds on two idle cores.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// A running cluster. It stops when this is dropped and when this process ends.
#[derive(Debug)]
pub struct Cluster {
    folder: ClusterFolder,
    bin: PathBuf,
    api_port: u16,
    ca_pem: String,
    net: Option<NetNs>,
}

impl Cluster {
    /// Starts a cluster with three nodes and the Deployment `default/demo` of three pods.
    ///
    /// # Errors
    /// It cannot be built or does not start. Its logs are then kept, and their path is printed.
    pub async fn start() -> anyhow::Result<Self> {
        Self::up(&[], None).await
    }

    /// Starts a cluster without nodes: objects, RBAC, service accounts and CSRs, but no pods.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_lite() -> anyhow::Result<Self> {
        Self::up(&["--lite"], None).await
    }

    /// As [`Cluster::start`], on the loopback of that network namespace.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_in(net: &NetNs) -> anyhow::Result<Self> {
        Self::up(&[], Some(net)).await
    }

    /// The one full cluster of this test binary, started on first use.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn up(options: &[&str], net: Option<&NetNs>) -> anyhow::Result<Self> {
        let bin = build().await?;
        let mut folder = ClusterFolder::new()?;
        let mut words = net.map(ProcessLocation::entrance).unwrap_or_default();
        words.push(script().into());
        let mut words = words.into_iter();
        let up = Command::new(words.next().unwrap_or_default())
            .args(words)
            .arg("up")
            .arg(&folder.path)
            .args(options)
            .args(["--owner", &process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .status();
        match timeout(START_DEADLINE, up).await {
            Ok(Ok(status)) if status.success() => {}
            failure => {
                folder.kept = true;
                bail!("no cluster within {START_DEADLINE:?}: {failure:?}");
            }
        }
        let settings = fs::read_to_string(folder.path.join("env"))?;
        let api_port = settings
            .lines()
            .find_map(|line| line.strip_prefix("API_PORT="))
            .context("no API_PORT in the cluster's settings")?
            .parse()?;
        let ca_pem = fs::read_to_string(folder.path.join("pki/ca.crt"))?;
        Ok(Self {
            folder,
            bin,
            api_port,
            ca_pem,
            net: net.cloned(),
        })
    }

    /// Folder of the cluster: `log/`, `pki/`, and `logs/` and `exec/` of the containers.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.folder.path
    }

    /// Kubeconfig of the administrator (`system:masters`), directly to the API server.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir().join("admin.kubeconfig")
    }

    /// Kubeconfig of `alice`, of the group `developers`, without rights.
    #[must_use]
    pub fn alice_kubeconfig(&self) -> PathBuf {
        self.dir().join("alice.kubeconfig")
    }

    /// `https://127.0.0.1:PORT`
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    /// Port of the API server on the loopback.
    #[must_use]
    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// CA certificate of the API server, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Audit log of the API server so far: one event per finished request, two per watch or stream.
    ///
    /// An event may be written after its answer has arrived, so read it through [`eventually`].
    ///
    /// # Errors
    /// The log cannot be read or is not JSON.
    pub fn audit(&self) -> anyhow::Result<Vec<Value>> {
        let log = fs::read_to_string(self.dir().join("audit.log"))?;
        // Text after the last line feed is a line that is still being written.
        let whole = log.rfind('\n').and_then(|end| log.get(..end)).unwrap_or("");
        whole
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("audit log: {line}")))
            .collect()
    }

    /// The real kubectl as the administrator, directly to the API server.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        let kubectl = Kubectl::new(self.bin.join("kubectl"), self.kubeconfig());
        match &self.net {
            Some(net) => kubectl.in_net(net),
            None => kubectl,
        }
    }

    /// Waits until the API server serves all definitions. `kubectl wait` fails on one without any condition yet.
    ///
    /// # Errors
    /// Not within a minute.
    pub async fn until_defined(&self) -> anyhow::Result<()> {
        eventually(DEFINED_DEADLINE, "established definitions", async || {
            let get = self.kubectl().args(["get", "crd", "-o", "json"]);
            let list = get.run().await.ok()?.success().ok()?;
            let list: Value = serde_json::from_str(&list).ok()?;
            let is_established = |it: &Value| {
                let conditions = it.pointer("/status/conditions").and_then(Value::as_array);
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|it| {
                    let has = |field, value: &str| it.get(field).is_some_and(|it| it == value);
                    has("type", "Established") && has("status", "True")
                })
            };
            let all = list.get("items")?.as_array()?;
            all.iter().all(is_established).then_some(())
        })
        .await
    }

    /// Appends a line to a container's output, for `kubectl logs`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn print_in_container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        line: &str,
    ) -> anyhow::Result<()> {
        let path = self.container_log(namespace, pod, container);
        let mut log = File::options().create(true).append(true).open(path)?;
        // Only the format of the time stamp matters, since the kubelet stand-in keeps the order of the file.
        let line = format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n");
        Ok(log.write_all(line.as_bytes())?)
    }

    /// File that `kubectl logs` shows. Deleting it ends `logs -f`, like the end of its container.
    #[must_use]
    pub fn container_log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.dir()
            .join("logs")
            .join(format!("{namespace}_{pod}_{container}.log"))
    }
}

/// Path of `e2e/kube/cluster`.
#[must_use]
pub fn script() -> PathBuf {
    Path::new(std::env!("CARGO_MANIFEST_DIR")).join("kube/cluster")
}

/// Builds the programs that are not cached and returns their folder. With a cold cache it takes minutes and
/// prints its progress.
async fn build() -> anyhow::Result<PathBuf> {
    let built = Command::new(Path::new(std::env!("CARGO_MANIFEST_DIR")).join("kube/build"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .context("cannot run e2e/kube/build")?;
    if !built.status.success() {
        bail!("e2e/kube/build: {}", built.status);
    }
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim_end()))
}

/// `target/e2e/PID-NUMBER`, stopped and deleted when dropped. After a failure it is kept until the next run;
/// `FAIRLEAD_E2E_KEEP` keeps all of them.
#[derive(Debug)]
struct ClusterFolder {
    path: PathBuf,
    kept: bool,
}

impl ClusterFolder {
    fn new() -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let build = build_folder()?;
        let all = build.parent().unwrap_or(&build).join("e2e");
        fs::create_dir_all(&all)?;
        sweep(&all)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = all.join(format!("{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        let kept = setting("FAIRLEAD_E2E_KEEP").is_some();
        Ok(Self { path, kept })
    }
}

impl Drop for ClusterFolder {
    fn drop(&mut self) {
        let place = self.path.display();
        let down = process::Command::new(script())
            .arg("down")
            .arg(&self.path)
            .status();
        if !matches!(&down, Ok(status) if status.success()) {
            eprintln!("cluster down {place}: {down:?}");
        }
        if self.kept || std::thread::panicking() {
            eprintln!("the cluster's logs are kept in {place}");
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {place}: {error}");
        }
    }
}

/// Deletes the folders of test processes that have ended. A shared cluster does not delete its own logs.
fn sweep(all: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((pid, _)) = name.and_then(|name| name.split_once('-')) else {
            continue;
        };
        let gone = !Path::new("/proc").join(pid).exists();
        if gone && !path.join("pids").exists() {
            drop(fs::remove_dir_all(&path));
        }
    }
    Ok(())
}
