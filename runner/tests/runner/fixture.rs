use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use fairlead_runner::{
    ClusterAccess, Operation, Refusal, RunFile, RunKey, RunRequest, RunStatus, Runner, RunnerError,
    UpgradeInstall,
};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fairlead-runner-rig");

/// A runner in a folder of its own, killed at the end.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) child: Child,
    pub(crate) client: Runner,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags).await
    }

    pub(crate) async fn start_in(dir: TempDir, flags: &[&str]) -> Self {
        // The shell leaves a descriptor open, as careless parents do.
        let runner = command(dir.path(), flags);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec 9</dev/null; exec \"$@\"", "sh"]);
        shell
            .arg(runner.get_program())
            .args(runner.get_args())
            .stdin(Stdio::null());
        let changes = runner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let child = shell.envs(changes).spawn().unwrap();
        let client = Runner::at(dir.path().join("run/socket"));
        let rig = Rig { dir, child, client };
        eventually(async || rig.client.info().await.is_ok()).await;
        rig
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) async fn run(&self, attempt: u32, script: &str) -> RunStatus {
        let (request, files) = upgrade(script);
        self.client
            .start(&key(attempt), request, files)
            .await
            .unwrap()
    }

    pub(crate) async fn ended(&self, attempt: u32) -> RunStatus {
        eventually(async || {
            let status = self.client.status(&key(attempt)).await.unwrap();
            status.ending().is_some()
        })
        .await;
        self.client.status(&key(attempt)).await.unwrap()
    }

    pub(crate) async fn text_so_far(&self, attempt: u32) -> String {
        let piece = self
            .client
            .output(&key(attempt), 0, Duration::ZERO)
            .await
            .unwrap();
        String::from_utf8(piece.bytes.to_vec()).unwrap()
    }

    pub(crate) async fn text(&self, attempt: u32) -> String {
        self.ended(attempt).await;
        self.text_so_far(attempt).await
    }

    /// Process ids that the program has printed, once there are so many.
    pub(crate) async fn pids(&self, attempt: u32, count: usize) -> Vec<u32> {
        let read = async || {
            let text = self.text_so_far(attempt).await;
            let pids = text
                .lines()
                .filter_map(|line| line.strip_prefix("pid ")?.parse().ok());
            pids.collect::<Vec<u32>>()
        };
        eventually(async || read().await.len() == count).await;
        read().await
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// A runner with a canary in its own environment.
pub(crate) fn command(dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg("runner")
        .arg("--socket")
        .arg(dir.join("run/socket"))
        .arg("--work")
        .arg(dir.join("work"))
        .args(["--helm", PROGRAM])
        .args(flags)
        .env("FAIRLEAD_JOIN", "canary")
        .env("KUBERNETES_SERVICE_HOST", "canary")
        .env("HTTPS_PROXY", "http://canary")
        .stdin(Stdio::null());
    command
}

pub(crate) fn key(attempt: u32) -> RunKey {
    format!("run-01ARZ3NDEKTSV4RRFFQ69G5FAV.{attempt}")
        .parse()
        .unwrap()
}

/// An upgrade by the fake Helm, which follows this script.
pub(crate) fn upgrade(script: &str) -> (RunRequest, Vec<RunFile>) {
    let operation = Operation::UpgradeInstall(UpgradeInstall {
        release: "shop".parse().unwrap(),
        namespace: "shop".parse().unwrap(),
        chart: "chart".parse().unwrap(),
        values: vec!["values.yaml".parse().unwrap()],
        bundle: "b-shop".parse().unwrap(),
        spec: format!("sha256:{}", "0".repeat(64)).parse().unwrap(),
        timeout_seconds: 300,
        history_max: 10,
        create_namespace: false,
        take_ownership: false,
        skip_crds: false,
        force_conflicts: false,
        dry_run: false,
        kept: None,
    });
    let file = |path: &str, content: &str| RunFile {
        path: path.parse().unwrap(),
        content: content.to_owned().into(),
    };
    let files = vec![
        file("chart/Chart.yaml", "name: shop"),
        file("values.yaml", script),
    ];
    (request(operation), files)
}

pub(crate) fn version() -> RunRequest {
    request(Operation::Version)
}

fn request(operation: Operation) -> RunRequest {
    RunRequest {
        program: "helm".into(),
        operation,
        cluster: Some(ClusterAccess {
            server: "https://127.0.0.1:6443".into(),
            ca: Some("ca".into()),
            tls_server_name: None,
            token: "token-one".into(),
        }),
        timeout_seconds: 120,
        files: Vec::new(),
    }
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, RunnerError>) -> Refusal {
    match result {
        Err(RunnerError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

pub(crate) async fn eventually(condition: impl AsyncFn() -> bool) {
    for _ in 0..1500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("condition not met in 30 s");
}
