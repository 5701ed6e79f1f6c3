//! A real API server, the built `fairlead runner`, the real Helm, and the executor of the agent between them.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::{
    BundleId, RunId,
    delivery::{
        ARTIFACTS_PATH, BundleKind, CancelMode, ConflictPolicy, DriftPolicy, HelmOptions, RunKind,
        RunOrigin, Spec, SpecId,
    },
};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_bundle::{
    folder::{FileEntry, Folder},
    spec_id,
};
use fairlead_delivery_agent::{
    HubConnection, HubUnreachable, ProcessIdentity,
    content::ContentCache,
    engine::{
        Applied, CancelSignal, Executor, RunContext, RunFailure, RunLog, SecretValues, SiteLimits,
    },
    fence::{AccountName, FencedAttempt, Fences, RunFence},
    helm::HelmExecutor,
    journal::{AcceptedSpec, Journal, PendingRun},
    kube::{Discovery, KubeClient},
};
use fairlead_e2e::{Cluster, helm, setting};
use fairlead_runner::{
    Launch, LaunchedRunner, Runner,
    release::{Revision, history},
};
use fairlead_testkit::wait::build_folder;
use http::{Request, Response, StatusCode};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::watch;

pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "deployer";

const OBJECTS: &str = "
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Namespace, metadata: {name: fairlead-delivery}},
  {apiVersion: v1, kind: Namespace, metadata: {name: shop}},
  {apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: fairlead-delivery}},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: deployer},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
   subjects: [{kind: ServiceAccount, name: deployer, namespace: fairlead-delivery}]},
]}";

/// Hub that serves one artifact.
struct ArtifactHub {
    path: String,
    packed: Bytes,
}

#[async_trait]
impl HubConnection for ArtifactHub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let mut response = Response::new(Bytes::new());
        if request.uri().path() == self.path {
            *response.body_mut() = self.packed.clone();
        } else {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        Ok(response)
    }
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) runner: LaunchedRunner,
    pub(crate) helm: PathBuf,
    pub(crate) executor: HelmExecutor,
    fences: Fences,
    client: KubeClient,
    discovery: Discovery,
    process: ProcessIdentity,
    pub(crate) launch: Launch,
    _folder: tempfile::TempDir,
}

/// A bundle in the cluster.
pub(crate) struct Deployment {
    pub(crate) spec: Spec,
    pub(crate) journal: Journal,
    /// Number of the run, which names it.
    number: u32,
    pub(crate) origin: RunOrigin,
    pub(crate) secrets: SecretValues,
    pub(crate) site: Arc<SiteLimits>,
    content: ContentCache,
}

/// One attempt of a run.
pub(crate) struct Attempt {
    pub(crate) context: RunContext,
    pub(crate) cancel: watch::Sender<Option<CancelMode>>,
    fence: RunFence,
}

impl World {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::with(Cluster::start_lite().await?).await
    }

    async fn with(cluster: Cluster) -> anyhow::Result<Self> {
        let helm = helm::program()?;
        let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(OBJECTS);
        apply.run().await?.success()?;
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
        let runner = Runner::spawn(&launch).await?;
        let target = ApiServerConfig::Kubeconfig {
            path: cluster.kubeconfig(),
            context: None,
        };
        let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
        let client = KubeClient::new(upstream.clone());
        let process = ProcessIdentity::of_host();
        Ok(World {
            executor: HelmExecutor::new(runner.client().clone(), upstream),
            fences: Fences::new(client.clone(), Arc::new(process.clone())),
            discovery: Discovery::new(client.clone()),
            runner,
            cluster,
            helm,
            client,
            process,
            launch,
            _folder: folder,
        })
    }

    /// Ends the runner.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let pid = self.runner.client().info().await?.pid;
        signal(pid, rustix::process::Signal::TERM)
    }

    /// A deployment of these files, with the bundle's id as its name.
    pub(crate) fn deployment(
        &self,
        bundle: &str,
        files: &[(&str, &str)],
        values: Value,
    ) -> anyhow::Result<Deployment> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec()))
            .collect();
        self.deployment_of(bundle, files, values)
    }

    pub(crate) fn deployment_of(
        &self,
        bundle: &str,
        files: Vec<(String, Vec<u8>)>,
        values: Value,
    ) -> anyhow::Result<Deployment> {
        let bundle: BundleId = bundle.parse()?;
        let (artifact, content) = content_of(files)?;
        let spec = Spec {
            bundle: bundle.clone(),
            tenant: "t-shop".parse()?,
            kind: BundleKind::Helm,
            artifact,
            namespace: "shop".to_owned(),
            service_account: ACCOUNT.to_owned(),
            helm: Some(HelmOptions {
                values: values.as_object().cloned().unwrap_or_default(),
                ..HelmOptions::default()
            }),
            variables: BTreeMap::new(),
            patches: Vec::new(),
            secrets: Vec::new(),
            depends_on: Vec::new(),
            drift: DriftPolicy::Correct,
            ignore: Vec::new(),
            conflicts: ConflictPolicy::Fail,
            adopt: false,
            prune: true,
            timeout_seconds: 120,
            retries: 5,
        };
        Ok(Deployment {
            journal: Journal::new(self.client.clone(), bundle, &self.process),
            spec,
            number: 0,
            origin: RunOrigin::Desired,
            secrets: SecretValues::default(),
            site: Arc::default(),
            content,
        })
    }

    /// Begins an attempt, as the engine does: its fence, and its note in the journal.
    pub(crate) async fn begin(
        &self,
        deployment: &mut Deployment,
        attempt: u32,
    ) -> anyhow::Result<Attempt> {
        if attempt == 1 {
            deployment.number += 1;
        }
        let run = run_id(deployment.number);
        let bundle = deployment.spec.bundle.clone();
        let account = AccountName::parse(ACCOUNT)?;
        let fence = self
            .fences
            .acquire(
                FencedAttempt {
                    bundle: &bundle,
                    run: &run,
                    attempt,
                },
                &account,
            )
            .await?;
        let pending = PendingRun {
            run: run.clone(),
            attempt,
            kind: RunKind::Sync,
            origin: deployment.origin,
            generation: 1,
            step: String::new(),
            lock: fence.lock.clone(),
            process: self.process.clone(),
            started_at: OffsetDateTime::now_utc(),
        };
        let journal = &deployment.journal;
        journal
            .update(|state| state.record.pending = Some(pending))
            .await?;
        let (cancel, signal) = CancelSignal::new();
        let context = RunContext {
            run,
            attempt,
            generation: 1,
            spec: Arc::new(deployment.spec.clone()),
            spec_id: spec_id(&deployment.spec).0,
            confirmed: false,
            kube: fence.kube.clone(),
            token: fence.token.clone(),
            user: fence.user.clone(),
            discovery: self.discovery.clone(),
            content: deployment.content.clone(),
            journal: journal.clone(),
            interrupted: None,
            log: RunLog::default(),
            cancel: signal,
            secrets: deployment.secrets.clone(),
            site: deployment.site.clone(),
        };
        Ok(Attempt {
            context,
            cancel,
            fence,
        })
    }

    /// Ends an attempt: its fence, and its note in the journal. A success is noted as the applied spec.
    pub(crate) async fn finish(
        &self,
        deployment: &Deployment,
        attempt: Attempt,
        is_success: bool,
    ) -> anyhow::Result<()> {
        self.fences.release(attempt.fence).await?;
        let spec = attempt.context.spec_id.clone();
        deployment
            .journal
            .update(|state| {
                state.record.pending = None;
                if is_success {
                    state.record.applied = Some(AcceptedSpec {
                        generation: 1,
                        spec,
                    });
                }
            })
            .await?;
        Ok(())
    }

    /// A whole attempt of the kind `sync`, with its log.
    pub(crate) async fn sync(
        &self,
        deployment: &mut Deployment,
    ) -> anyhow::Result<(Result<Applied, RunFailure>, String)> {
        let attempt = self.begin(deployment, 1).await?;
        let result = self.executor.sync(&attempt.context).await;
        let log = log_of(&attempt.context.log);
        self.finish(deployment, attempt, result.is_ok()).await?;
        Ok((result, log))
    }

    /// As [`World::sync`], of a run that must succeed.
    pub(crate) async fn synced(&self, deployment: &mut Deployment) -> anyhow::Result<Applied> {
        let (result, log) = self.sync(deployment).await?;
        result.with_context(|| format!("the log: {log}"))
    }

    /// As [`World::sync`], of a run that must fail.
    pub(crate) async fn failed(&self, deployment: &mut Deployment) -> anyhow::Result<RunFailure> {
        let (result, log) = self.sync(deployment).await?;
        let failure = result.err();
        failure.with_context(|| format!("the run succeeded; the log: {log}"))
    }

    pub(crate) async fn remove(&self, deployment: &mut Deployment) -> anyhow::Result<()> {
        let attempt = self.begin(deployment, 1).await?;
        let result = self.executor.remove(&attempt.context).await;
        self.finish(deployment, attempt, false).await?;
        Ok(result?)
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = args.iter().copied().chain(["-n", "shop"]);
        self.cluster.kubectl().args(args).run().await?.success()
    }

    /// Revisions of a release, oldest first.
    pub(crate) async fn history(&self, release: &str) -> anyhow::Result<Vec<Revision>> {
        let selector = format!("owner=helm,name={release}");
        let list = self
            .kubectl(&["get", "secrets", "-l", &selector, "-o", "json"])
            .await?;
        let list: Value = serde_json::from_str(&list)?;
        let items = list.get("items").and_then(Value::as_array);
        Ok(history(&release.parse()?, items.context("items")?))
    }

    /// Numbers and states of the revisions of a release.
    pub(crate) async fn revisions(
        &self,
        release: &str,
    ) -> anyhow::Result<Vec<(u32, &'static str)>> {
        let history = self.history(release).await?;
        Ok(history
            .iter()
            .map(|it| (it.number, it.status.as_str()))
            .collect())
    }

    /// Waits for a pending revision with this number.
    pub(crate) async fn pending(&self, release: &str, number: u32) -> anyhow::Result<()> {
        fairlead_e2e::eventually(STEP_DEADLINE, "pending revision", async || {
            let newest = self.history(release).await.ok()?.pop()?;
            (newest.number == number && newest.status.is_pending()).then_some(())
        })
        .await
    }

    /// A person's own Helm.
    pub(crate) async fn helm_by_hand(&self, args: &[&str]) -> anyhow::Result<()> {
        let home = tempfile::tempdir()?;
        let mut helm = tokio::process::Command::new(&self.helm);
        helm.args(args)
            .args(["-n", "shop", "--kubeconfig"])
            .arg(self.cluster.kubeconfig())
            .env("HOME", home.path());
        let output = helm.output().await?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }
}

impl Deployment {
    /// Replaces the files of the bundle.
    pub(crate) fn set_files(&mut self, files: Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
        (self.spec.artifact, self.content) = content_of(files)?;
        Ok(())
    }

    pub(crate) fn options(&mut self) -> &mut HelmOptions {
        self.spec.helm.get_or_insert_default()
    }

    pub(crate) fn set_value(&mut self, key: &str, value: impl Into<Value>) {
        self.options().values.insert(key.to_owned(), value.into());
    }

    pub(crate) fn spec_id(&self) -> SpecId {
        spec_id(&self.spec).0
    }
}

fn content_of(
    files: Vec<(String, Vec<u8>)>,
) -> anyhow::Result<(fairlead_api::delivery::ArtifactId, ContentCache)> {
    let entry = |(path, content)| FileEntry {
        path,
        mode: 0o100_644,
        content,
    };
    let artifact = Folder::from_files(files.into_iter().map(entry))?.pack()?;
    let hub = ArtifactHub {
        path: format!("{ARTIFACTS_PATH}{}", artifact.id),
        packed: artifact.packed.into(),
    };
    Ok((artifact.id, ContentCache::new(Arc::new(hub), None)))
}

pub(crate) fn log_of(log: &RunLog) -> String {
    log.finish();
    String::from_utf8_lossy(&log.take(usize::MAX).1).into_owned()
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) -> anyhow::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).context("no process id")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

fn run_id(number: u32) -> RunId {
    let id = format!("run-01ARZ3NDEKTSV4RRFFQ69G5{number:03}");
    id.parse().expect("an id")
}
