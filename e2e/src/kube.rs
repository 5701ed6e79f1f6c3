//! A real Kubernetes control plane for tests; `e2e/kube/README.md` says what it is made of.

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

use fairlead_testkit::process::Place;
use fairlead_testkit::wait::{build_folder, setting};

use crate::kubectl::Kubectl;
use crate::netns::NetNs;

/// Long enough for a busy machine of two cores, where it takes about six seconds.
const UP: Duration = Duration::from_secs(90);

/// One running cluster; dropping it stops it, and so does the end of this process.
#[derive(Debug)]
pub struct Cluster {
    folder: Folder,
    bin: PathBuf,
    api_port: u16,
    ca_pem: String,
    net: Option<NetNs>,
}

impl Cluster {
    /// A cluster with three nodes and the Deployment `default/demo` of three pods.
    ///
    /// # Errors
    /// It cannot be built or does not come up; the logs are then kept, and their place was printed.
    pub async fn start() -> anyhow::Result<Self> {
        Self::up(&[], None).await
    }

    /// A cluster without nodes: objects, RBAC, service accounts and CSRs, but no pods.
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

    /// The one full cluster of this test binary, started by whoever asks first.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn up(options: &[&str], net: Option<&NetNs>) -> anyhow::Result<Self> {
        let bin = build().await?;
        let mut folder = Folder::new()?;
        let mut words = net.map(Place::entrance).unwrap_or_default();
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
        match timeout(UP, up).await {
            Ok(Ok(status)) if status.success() => {}
            failure => {
                folder.kept = true;
                bail!("no cluster within {UP:?}: {failure:?}");
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

    /// Where the cluster lives: `log/`, `pki/`, `logs/` and `exec/` of the containers.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.folder.path
    }

    /// The kubeconfig of the administrator (`system:masters`), straight to the API server.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir().join("admin.kubeconfig")
    }

    /// The kubeconfig of `alice`, of the group `developers`, who has no rights.
    #[must_use]
    pub fn alice_kubeconfig(&self) -> PathBuf {
        self.dir().join("alice.kubeconfig")
    }

    /// `https://127.0.0.1:PORT`
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    #[must_use]
    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// The certificate of the CA that signed the API server's, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// What the API server recorded so far: one event per finished request, watches and streams twice.
    ///
    /// The event of a request may be written after its answer has arrived; ask through
    /// [`eventually`](fairlead_testkit::wait::eventually).
    ///
    /// # Errors
    /// The log cannot be read or is not JSON.
    pub fn audit(&self) -> anyhow::Result<Vec<Value>> {
        let log = fs::read_to_string(self.dir().join("audit.log"))?;
        // What follows the last line feed is a line that is being written.
        let whole = log.rfind('\n').and_then(|end| log.get(..end)).unwrap_or("");
        whole
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("audit log: {line}")))
            .collect()
    }

    /// The real kubectl, as the administrator, straight to the API server, and where that is.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        let kubectl = Kubectl::new(self.bin.join("kubectl"), self.kubeconfig());
        match &self.net {
            Some(net) => kubectl.in_net(net),
            None => kubectl,
        }
    }

    /// Appends a line to what a container has printed, for `kubectl logs`.
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
        // Only the form of the time stamp matters; the kubelet stand-in keeps the order of the file.
        let line = format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n");
        Ok(log.write_all(line.as_bytes())?)
    }

    /// The file that `kubectl logs` shows; `logs -f` ends, as with its container, when the file is removed.
    #[must_use]
    pub fn container_log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.dir()
            .join("logs")
            .join(format!("{namespace}_{pod}_{container}.log"))
    }
}

/// `e2e/kube/cluster`
#[must_use]
pub fn script() -> PathBuf {
    Path::new(std::env!("CARGO_MANIFEST_DIR")).join("kube/cluster")
}

/// Builds what is not in the cache yet and says where it is; from cold that takes minutes, and it shows.
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

/// `target/e2e/PID-NUMBER`: stopped and removed when dropped. A failed one is kept until the next run, and with
/// `FAIRLEAD_E2E_KEEP` set every one.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
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

impl Drop for Folder {
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

/// Removes what test processes that are gone have left; a shared cluster has nobody to remove its logs.
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
