//! A real API server, the built `fairlead runner`, the real Helm, and the token of a ServiceAccount.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, eventually, helm, setting};
use fairlead_runner::{
    ClusterAccess, Launch, LaunchedRunner, Operation, RunFile, RunKey, RunRequest, RunStatus,
    Runner, UpgradeInstall,
    release::{Record, Revision, history},
};
use fairlead_testkit::wait::build_folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const RELEASE: &str = "shop";
pub(crate) const NAMESPACE: &str = "shop";

const OBJECTS: &str = "
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Namespace, metadata: {name: shop}},
  {apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: shop}},
  {apiVersion: v1, kind: Secret, metadata: {name: run, namespace: shop}},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: deployer},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
   subjects: [{kind: ServiceAccount, name: deployer, namespace: shop}]},
]}";

const CHART: [(&str, &str); 4] = [
    ("chart/Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
    (
        "chart/templates/config.yaml",
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  text: {{ .Values.text | quote }}
",
    ),
    (
        "chart/templates/web.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
",
    ),
    // No pod runs here, so this hook never ends.
    (
        "chart/templates/hook.yaml",
        "{{ if .Values.hang }}
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: hook, image: hook}]}
{{ end }}
",
    ),
];

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) runner: LaunchedRunner,
    pub(crate) helm: PathBuf,
    access: ClusterAccess,
    launch: Launch,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let helm = helm::program()?;
        let cluster = Cluster::start_lite().await?;
        let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(OBJECTS);
        apply.run().await?.success()?;
        let bound = [
            "--bound-object-kind",
            "Secret",
            "--bound-object-name",
            "run",
        ];
        let token = ["create", "token", "deployer", "-n", NAMESPACE]
            .into_iter()
            .chain(bound);
        let token = cluster.kubectl().args(token).run().await?.success()?;
        let folder = tempfile::tempdir()?;
        let program = match setting("FAIRLEAD_BIN") {
            Some(path) => path.into(),
            None => build_folder()?.join("fairlead"),
        };
        let launch = Launch {
            command: vec![program.into(), "runner".into()],
            folder: folder.path().join("runner"),
            work: folder.path().join("work"),
            helm: helm.clone(),
        };
        let access = ClusterAccess {
            server: cluster.api_url(),
            ca: Some(cluster.ca_pem().to_owned()),
            tls_server_name: None,
            token: token.trim().to_owned(),
        };
        Ok(World {
            cluster,
            runner: Runner::spawn(&launch).await?,
            helm,
            access,
            launch,
            _folder: folder,
        })
    }

    /// Kills the runner, waits for the end of its program, and starts another runner on its folders.
    pub(crate) async fn kill_runner(&mut self, program: u32) -> anyhow::Result<()> {
        let old = self.client().info().await?;
        signal(old.pid, Signal::KILL)?;
        eventually(STEP_DEADLINE, "end of the program", async || {
            let state = std::fs::read_to_string(format!("/proc/{program}/stat"));
            let is_alive = state.is_ok_and(|state| !state.contains(") Z "));
            (!is_alive).then_some(())
        })
        .await?;
        self.runner = Runner::spawn(&self.launch).await?;
        let new = self.client().info().await?;
        ensure!(new.instance != old.instance && self.client().runs().await?.is_empty());
        Ok(())
    }

    /// Ends the runner.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let pid = self.client().info().await?.pid;
        signal(pid, Signal::TERM)
    }

    pub(crate) fn client(&self) -> &Runner {
        self.runner.client()
    }

    /// Starts the chart's upgrade with these values.
    pub(crate) async fn upgrade(&self, key: &RunKey, values: &str) -> anyhow::Result<()> {
        let upgrade = UpgradeInstall {
            release: RELEASE.parse()?,
            namespace: NAMESPACE.parse()?,
            chart: "chart".parse()?,
            values: vec!["values.yaml".parse()?],
            bundle: "b-shop".parse()?,
            spec: spec().parse()?,
            timeout_seconds: 120,
            history_max: 10,
            create_namespace: false,
            take_ownership: false,
            skip_crds: true,
            force_conflicts: false,
            dry_run: values.contains("dry"),
            kept: None,
        };
        let files = CHART.into_iter().chain([("values.yaml", values)]);
        let files = files.map(|(path, content)| {
            let content = content.to_owned().into();
            Ok(RunFile {
                path: path.parse()?,
                content,
            })
        });
        let files = files.collect::<anyhow::Result<Vec<_>>>()?;
        self.begin(key, Operation::UpgradeInstall(upgrade), files)
            .await
    }

    pub(crate) async fn begin(
        &self,
        key: &RunKey,
        operation: Operation,
        files: Vec<RunFile>,
    ) -> anyhow::Result<()> {
        let request = RunRequest {
            program: "helm".into(),
            operation,
            cluster: Some(self.access.clone()),
            timeout_seconds: 120,
            files: Vec::new(),
        };
        self.client().start(key, request, files).await?;
        Ok(())
    }

    /// Waits for the end, and returns the state with the whole output. The runner forgets the run.
    pub(crate) async fn ended(&self, key: &RunKey) -> anyhow::Result<(RunStatus, String)> {
        let (mut output, mut next) = (Vec::new(), 0);
        loop {
            let piece = self.client().output(key, next, STEP_DEADLINE).await?;
            output.extend_from_slice(&piece.bytes);
            next = piece.next();
            if piece.is_last() {
                self.client().acknowledge(key).await?;
                return Ok((piece.status, String::from_utf8(output)?));
            }
        }
    }

    /// As [`World::ended`], of a run that must succeed.
    pub(crate) async fn succeeded(&self, key: &RunKey) -> anyhow::Result<String> {
        let (status, output) = self.ended(key).await?;
        let succeeded = status
            .ending()
            .is_some_and(fairlead_runner::Ending::is_success);
        ensure!(succeeded, "{status:?}: {output}");
        Ok(output)
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = args.iter().copied().chain(["-n", NAMESPACE]);
        self.cluster.kubectl().args(args).run().await?.success()
    }

    async fn records(&self) -> anyhow::Result<Vec<Value>> {
        let list = self
            .kubectl(&["get", "secrets", "-l", "owner=helm,name=shop", "-o", "json"])
            .await?;
        let mut list: Value = serde_json::from_str(&list)?;
        let items = list.get_mut("items").and_then(Value::as_array_mut);
        Ok(std::mem::take(items.context("items")?))
    }

    pub(crate) async fn history(&self) -> anyhow::Result<Vec<Revision>> {
        Ok(history(&RELEASE.parse()?, &self.records().await?))
    }

    /// The newest revision with its record.
    pub(crate) async fn newest(&self) -> anyhow::Result<(Revision, Record)> {
        let revision = self.history().await?.pop().context("no revision")?;
        let records = self.records().await?;
        let of_revision = |record: &&Value| record["metadata"]["name"] == revision.secret.as_str();
        let secret = records.iter().find(of_revision).context("no record")?;
        let record = Record::of_secret(secret)?;
        Ok((record.complete(revision), record))
    }

    /// Waits for a pending revision of this number.
    pub(crate) async fn pending(&self, number: u32) -> anyhow::Result<()> {
        eventually(STEP_DEADLINE, "pending revision", async || {
            let newest = self.history().await.ok()?.pop()?;
            (newest.number == number && newest.status.is_pending()).then_some(())
        })
        .await
    }
}

fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).context("no process id")?;
    Ok(kill_process(pid, signal)?)
}

pub(crate) fn spec() -> String {
    format!("sha256:{}", "ab".repeat(32))
}

/// Key of the attempt of the run with this number.
pub(crate) fn key(run: u32) -> RunKey {
    let run = format!("run-01ARZ3NDEKTSV4RRFFQ69G5{run:03}");
    RunKey {
        run: run.parse().expect("an id"),
        attempt: 1,
    }
}
