//! Argo CD's real application-controller and repo-server, as processes beside a cluster, with a redis in memory.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use fairlead_testkit::reserved_port::ReservedPort;
use tokio::process::{Child, Command};

/// Namespace of Argo CD.
pub const NAMESPACE: &str = "argocd";
/// Account of the application-controller.
pub const CONTROLLER: &str = "argocd-application-controller";
/// Program and Deployment.
pub const REPO_SERVER: &str = "argocd-repo-server";
/// Seconds between comparisons. Pushed commits are found by them alone.
const RESYNC_SECONDS: &str = "5";
/// Becomes the program `$2` with the programs of folder `$1`.
const ENTER_SCRIPT: &str = r#"PATH=$1:$PATH; shift; exec "$@""#;
const FILE_PREFIX: &str = "argocd-";

/// Built programs, and the manifest of their version.
#[derive(Debug)]
pub struct ArgoCdBuild {
    folder: PathBuf,
    version: String,
}

impl ArgoCdBuild {
    /// Builds the programs, unless they are cached.
    ///
    /// # Errors
    /// They cannot be built on this machine; the error quotes the script.
    pub async fn make() -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("argocd/build");
        let built = Command::new(script).stdin(Stdio::null()).output().await?;
        let reason = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "{}", reason.trim());
        let folder = PathBuf::from(String::from_utf8(built.stdout)?.trim());
        let mut version = None;
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".yaml");
            if let Some(found) = stem.and_then(|it| it.strip_prefix(FILE_PREFIX)) {
                version = Some(found.to_owned());
            }
        }
        let version = version.context("the build has no manifest")?;
        Ok(ArgoCdBuild { folder, version })
    }

    /// Version without `v`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Folder with the manifest, for `--gitops-manifests`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// SHA-256 of the manifest, in hexadecimal.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn manifest_sha256(&self) -> anyhow::Result<String> {
        let manifest = self
            .folder
            .join(format!("{FILE_PREFIX}{}.yaml", self.version));
        let summed = Command::new("sha256sum").arg(&manifest).output().await?;
        ensure!(summed.status.success(), "{summed:?}");
        let text = String::from_utf8(summed.stdout)?;
        let sum = text.split_whitespace().next().context("no sum")?;
        Ok(sum.to_owned())
    }
}

/// A running Argo CD. It ends when this is dropped.
#[derive(Debug)]
pub struct ArgoCd {
    logs: [PathBuf; 2],
    _ports: [ReservedPort; 3],
    _processes: [Child; 3],
}

impl ArgoCd {
    /// Starts all parts, with their state and logs in `folder`. `kubeconfig`: that of the controller's account. `known_hosts`: the
    /// lines of the ConfigMap, which the kubelet would write.
    ///
    /// # Errors
    /// A part cannot be started.
    pub fn start(
        built: &ArgoCdBuild,
        kubeconfig: &Path,
        folder: &Path,
        known_hosts: &str,
    ) -> anyhow::Result<Self> {
        let (redis, redis_address) = start_redis(&built.folder)?;
        let settings = folder.join("argocd");
        let (hosts, temporary) = (settings.join("ssh"), settings.join("tmp"));
        for folder in [&hosts, &temporary, &settings.join("tls")] {
            fs::create_dir_all(folder)?;
        }
        fs::write(hosts.join("ssh_known_hosts"), known_hosts)?;
        // A listener of its own cannot be passed on.
        let ports = [
            ReservedPort::new()?,
            ReservedPort::new()?,
            ReservedPort::new()?,
        ];
        let [repo_server_port, metrics_ports @ ..] = &ports;
        let repo_server_address = repo_server_port.address();
        let parts = [
            (
                REPO_SERVER,
                vec![
                    "--address=127.0.0.1".to_owned(),
                    format!("--port={}", repo_server_address.port()),
                    "--metrics-address=127.0.0.1".to_owned(),
                    "--disable-tls".to_owned(),
                    "--client-ca-path=".to_owned(),
                    // Otherwise a comparison uses references that were read up to three minutes before.
                    "--revision-cache-expiration=1s".to_owned(),
                ],
            ),
            (
                CONTROLLER,
                vec![
                    format!("--kubeconfig={}", kubeconfig.display()),
                    format!("--repo-server={repo_server_address}"),
                    "--repo-server-plaintext".to_owned(),
                    format!("--app-resync={RESYNC_SECONDS}"),
                    "--app-resync-jitter=0".to_owned(),
                ],
            ),
        ];
        let mut processes = Vec::new();
        for ((name, flags), metrics) in parts.into_iter().zip(metrics_ports) {
            let mut command = Command::new("sh");
            command
                .args(["-c", ENTER_SCRIPT, "sh"])
                .args([&built.folder, &built.folder.join(name)])
                .env("HOME", folder)
                .env("TMPDIR", &temporary)
                .env("ARGOCD_SSH_DATA_PATH", &hosts)
                .env("ARGOCD_TLS_DATA_PATH", settings.join("tls"))
                .env("ARGOCD_GPG_ENABLED", "false")
                // The controller is no pod: the cluster itself is that of the kubeconfig.
                .env("ARGOCD_FAKE_IN_CLUSTER", "true")
                .env("KUBECONFIG", kubeconfig)
                .args(flags)
                .arg(format!("--metrics-port={}", metrics.port()))
                .arg(format!("--redis={redis_address}"));
            processes.push(spawn(command, &log_of(folder, name))?);
        }
        let [repo_server, controller] = <[Child; 2]>::try_from(processes)
            .map_err(|_| anyhow::anyhow!("two programs were started"))?;
        Ok(ArgoCd {
            logs: [log_of(folder, REPO_SERVER), log_of(folder, CONTROLLER)],
            _ports: ports,
            _processes: [redis, repo_server, controller],
        })
    }

    /// Warnings and errors of both programs.
    #[must_use]
    pub fn problems(&self) -> String {
        let logs = self
            .logs
            .iter()
            .filter_map(|it| fs::read_to_string(it).ok());
        let lines = logs.flat_map(|log| {
            let lines = log
                .lines()
                .filter(|it| !it.contains("level\":\"info") && !it.contains("level=info"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn log_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Starts the redis, which prints its address.
fn start_redis(built: &Path) -> anyhow::Result<(Child, String)> {
    let (reader, writer) = std::io::pipe()?;
    let process = Command::new(built.join("redis"))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(writer)
        .kill_on_drop(true)
        .spawn()?;
    let mut address = String::new();
    BufReader::new(reader).read_line(&mut address)?;
    ensure!(!address.is_empty(), "the redis has no address");
    Ok((process, address.trim().to_owned()))
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
