//! Flux's real source-controller and kustomize-controller, as processes beside a cluster.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::ensure;
use fairlead_testkit::reserved_port::ReservedPort;
use tokio::process::{Child, Command};

use crate::kube::Cluster;

/// Namespace of Flux.
pub const NAMESPACE: &str = "flux-system";

/// A running source-controller. It ends when this is dropped.
#[derive(Debug)]
pub struct SourceController {
    log: PathBuf,
    _port: ReservedPort,
    _process: Child,
}

impl SourceController {
    /// Builds the controller, unless it is cached, and returns its folder.
    ///
    /// # Errors
    /// It cannot be built on this machine; the error quotes the script.
    pub async fn build() -> anyhow::Result<PathBuf> {
        build("flux/build").await
    }

    /// Creates the definitions of its resources.
    ///
    /// # Errors
    /// kubectl refuses.
    pub async fn create_definitions(built: &Path, cluster: &Cluster) -> anyhow::Result<()> {
        let crds = built.join("crds").display().to_string();
        let create = cluster.kubectl().args(["create", "-f", &crds]);
        create.run().await?.success()?;
        cluster.until_defined().await
    }

    /// Starts the controller, with its artifacts and its log in `folder`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(built: &Path, cluster: &Cluster, folder: &Path) -> anyhow::Result<Self> {
        Self::start_by(built, &cluster.kubeconfig(), folder)
    }

    /// As [`SourceController::start`], with a kubeconfig of the caller's.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_by(built: &Path, kubeconfig: &Path, folder: &Path) -> anyhow::Result<Self> {
        let storage = folder.join("artifacts");
        fs::create_dir_all(&storage)?;
        // It makes the URLs of its artifacts from this address.
        let port = ReservedPort::new()?;
        let address = port.address();
        let mut command = command(built, "source-controller", kubeconfig, folder);
        command
            .arg(format!("--storage-path={}", storage.display()))
            .arg(format!("--storage-addr={address}"))
            .arg(format!("--storage-adv-addr={address}"));
        let log = folder.join("source-controller.log");
        Ok(Self {
            _process: spawn(command, &log)?,
            _port: port,
            log,
        })
    }

    /// Failed syncs so far, one line of the log each.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn failures(&self) -> anyhow::Result<Vec<String>> {
        let log = fs::read_to_string(&self.log)?;
        let lines = log
            .lines()
            .filter(|line| line.contains("\"level\":\"error\""));
        Ok(lines.map(str::to_owned).collect())
    }
}

/// A running kustomize-controller. It ends when this is dropped.
#[derive(Debug)]
pub struct KustomizeController {
    _process: Child,
}

impl KustomizeController {
    /// Builds the controller, unless it is cached, and returns its folder.
    ///
    /// # Errors
    /// It cannot be built on this machine; the error quotes the script.
    pub async fn build() -> anyhow::Result<PathBuf> {
        build("../bench/flux/build").await
    }

    /// Creates the definition of its resources, and starts it with its log in `folder`.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start(built: &Path, cluster: &Cluster, folder: &Path) -> anyhow::Result<Self> {
        let crd = built.join("crds/kustomize.toolkit.fluxcd.io_kustomizations.yaml");
        let crd = crd.display().to_string();
        let create = cluster.kubectl().args(["create", "-f", &crd]);
        create.run().await?.success()?;
        cluster.until_defined().await?;
        Self::start_by(built, &cluster.kubeconfig(), folder)
    }

    /// Starts it with a kubeconfig of the caller's. The definition of its resources must exist.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_by(built: &Path, kubeconfig: &Path, folder: &Path) -> anyhow::Result<Self> {
        let command = command(built, "kustomize-controller", kubeconfig, folder);
        let _process = spawn(command, &folder.join("kustomize-controller.log"))?;
        Ok(Self { _process })
    }
}

/// Runs a script that prints the folder of a program.
async fn build(script: &str) -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let built = Command::new(script).stdin(Stdio::null()).output().await?;
    let reason = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{}", reason.trim());
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

/// Command of a controller, without ports of its own.
fn command(built: &Path, name: &str, kubeconfig: &Path, folder: &Path) -> Command {
    let mut command = Command::new(built.join(name));
    command
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("RUNTIME_NAMESPACE", NAMESPACE)
        .env("HOME", folder)
        .args(["--metrics-addr=0", "--health-addr=0"]);
    command
}

fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let output = File::create(log)?;
    let process = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output))
        .kill_on_drop(true)
        .spawn()?;
    Ok(process)
}
