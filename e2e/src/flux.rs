//! Flux's real source-controller, as a process beside a cluster.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::ensure;
use tokio::process::{Child, Command};

use crate::kube::Cluster;

/// Namespace of Flux.
pub const NAMESPACE: &str = "flux-system";

/// A running source-controller. It ends when this is dropped.
#[derive(Debug)]
pub struct SourceController {
    log: PathBuf,
    _process: Child,
}

impl SourceController {
    /// Builds the controller, unless it is cached, and returns its folder.
    ///
    /// # Errors
    /// It cannot be built on this machine; the error quotes the script.
    pub async fn build() -> anyhow::Result<PathBuf> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("flux/build");
        let built = Command::new(script).stdin(Stdio::null()).output().await?;
        let reason = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "{}", reason.trim());
        Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
    }

    /// Creates the definitions of its resources.
    ///
    /// # Errors
    /// kubectl refuses.
    pub async fn create_definitions(built: &Path, cluster: &Cluster) -> anyhow::Result<()> {
        let crds = built.join("crds").display().to_string();
        for words in [
            &["create", "-f", &crds][..],
            &["wait", "--for=condition=Established", "crd", "--all"],
        ] {
            cluster.kubectl().args(words).run().await?.success()?;
        }
        Ok(())
    }

    /// Starts the controller, with its artifacts and its log in `folder`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(built: &Path, cluster: &Cluster, folder: &Path) -> anyhow::Result<Self> {
        let storage = folder.join("artifacts");
        fs::create_dir_all(&storage)?;
        let log = folder.join("source-controller.log");
        let output = File::create(&log)?;
        let process = Command::new(built.join("source-controller"))
            .env_clear()
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("RUNTIME_NAMESPACE", NAMESPACE)
            .env("HOME", folder)
            .arg(format!("--storage-path={}", storage.display()))
            .args(["--storage-addr=127.0.0.1:0", "--storage-adv-addr=127.0.0.1"])
            .args(["--metrics-addr=0", "--health-addr=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::from(output.try_clone()?))
            .stderr(Stdio::from(output))
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            log,
            _process: process,
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
