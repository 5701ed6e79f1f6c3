//! Whole delivery with a fake hub and a fake API server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::http::Method;
use bytes::Bytes;
use fairlead_api::{
    BundleId,
    delivery::{
        ARTIFACTS_PATH, BundleKind, CLAIM_PATH, CancelMode, ClaimedRun, ConflictPolicy,
        DELIVERY_PATH, DeploymentReceipt, DeploymentReport, DeploymentReports, DeploymentState,
        DesiredBundle, DesiredState, DriftPolicy, IgnoreRule, REPORTS_PATH, RunLeaseStatus,
        RunOutcome, SPECS_PATH, Spec,
    },
};
use fairlead_bundle::{
    folder::{FileEntry, Folder},
    spec_id,
};
use http::{Request, Response, StatusCode};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use super::*;
use crate::{
    HubUnreachable, ManifestExecutor, Runner,
    engine::Executor,
    helm::HelmExecutor,
    testing::{FakeApi, status},
};

mod beside;
mod commands;
mod lease;
mod lost;
mod programs;
mod refusals;
mod releases;
mod returns;
mod standstill;

const NAMESPACES: [&str; 2] = ["fairlead-delivery", "shop"];
const JOURNAL: &str = "/api/v1/namespaces/fairlead-delivery/secrets/release-b-shop";
const LOCK: &str = "/api/v1/namespaces/fairlead-delivery/secrets/run-b-shop";
const LOCKS: &str = "/api/v1/namespaces/fairlead-delivery/secrets/run-";
const OBJECTS: &str = "/api/v1/namespaces/shop/configmaps/";

/// Hub that serves a desired state with its content, and keeps the reports.
#[derive(Default)]
struct FakeHub {
    state: Mutex<DesiredState>,
    content: Mutex<HashMap<String, Bytes>>,
    reports: Mutex<HashMap<BundleId, DeploymentReport>>,
    gone: Mutex<Vec<BundleId>>,
    /// Reports without a base: those of all states.
    whole_reports: Mutex<u32>,
    runs: Mutex<Vec<String>>,
    /// Commands to claim.
    claims: Mutex<Vec<ClaimedRun>>,
    /// Answer to heartbeats of claimed commands.
    cancel: Mutex<Option<CancelMode>>,
    outcomes: Mutex<Vec<RunOutcome>>,
    is_away: Mutex<bool>,
}

#[async_trait]
impl HubConnection for FakeHub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        if *self.is_away.lock().unwrap() {
            return Err(HubUnreachable("away".to_owned()));
        }
        let path = request.uri().path().to_owned();
        let (code, body) = match path.as_str() {
            DELIVERY_PATH => {
                let state = serde_json::to_vec(&*self.state.lock().unwrap()).unwrap();
                let etag = format!("\"{}\"", state.len());
                let answer = Response::builder().header("etag", etag);
                return Ok(answer.body(state.into()).unwrap());
            }
            REPORTS_PATH => (200, self.take(request.body())),
            CLAIM_PATH => match self.claims.lock().unwrap().pop() {
                Some(claimed) => (200, serde_json::to_vec(&claimed).unwrap().into()),
                None => (204, Bytes::new()),
            },
            _ if path.starts_with("/agent/v1/runs/") => (200, self.take_run(&request)),
            _ => match self.content.lock().unwrap().get(&path) {
                Some(bytes) => (200, bytes.clone()),
                None => (404, Bytes::new()),
            },
        };
        let answer = Response::builder().status(StatusCode::from_u16(code).unwrap());
        Ok(answer.body(body).unwrap())
    }
}

impl FakeHub {
    fn take(&self, body: &Bytes) -> Bytes {
        let reports: DeploymentReports = serde_json::from_slice(body).unwrap();
        let mut known = self.reports.lock().unwrap();
        *self.whole_reports.lock().unwrap() += u32::from(reports.base.is_none());
        for report in reports.reports {
            known.insert(report.bundle.clone(), report);
        }
        for bundle in reports.gone {
            known.remove(&bundle);
            self.gone.lock().unwrap().push(bundle);
        }
        let receipt = DeploymentReceipt {
            etag: Some("1".to_owned()),
        };
        serde_json::to_vec(&receipt).unwrap().into()
    }

    fn take_run(&self, request: &Request<Bytes>) -> Bytes {
        let path = request.uri().path();
        let line = format!("{} {path}", request.method());
        self.runs.lock().unwrap().push(line);
        if path.ends_with("/heartbeat") {
            let status = RunLeaseStatus {
                lease_seconds: 60,
                cancel: *self.cancel.lock().unwrap(),
            };
            return serde_json::to_vec(&status).unwrap().into();
        }
        if path.ends_with("/result") {
            let outcome = serde_json::from_slice(request.body()).unwrap();
            self.outcomes.lock().unwrap().push(outcome);
        }
        Bytes::from_static(br#"{"logOffset": 0}"#)
    }

    /// Releases a generation with ConfigMaps of these names.
    fn release(&self, generation: u64, names: &[&str]) {
        self.release_with(generation, names, |_| {});
    }

    /// As [`FakeHub::release`], with changes of the spec.
    fn release_with(&self, generation: u64, names: &[&str], change: impl FnOnce(&mut Spec)) {
        self.release_value(generation, names, &generation.to_string(), change);
    }

    /// As [`FakeHub::release_with`], with this value in the ConfigMaps.
    fn release_value(
        &self,
        generation: u64,
        names: &[&str],
        value: &str,
        change: impl FnOnce(&mut Spec),
    ) {
        let files = names.iter().map(|name| FileEntry {
            path: format!("{name}.yaml"),
            mode: 0o100_644,
            content: format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{g: \"{value}\"}}\n").into_bytes(),
        });
        let artifact = Folder::from_files(files).unwrap().pack().unwrap();
        let mut spec = Spec {
            bundle: "b-shop".parse().unwrap(),
            tenant: "t-acme".parse().unwrap(),
            kind: BundleKind::Manifests,
            artifact: artifact.id.clone(),
            namespace: "shop".to_owned(),
            service_account: "deployer".to_owned(),
            helm: None,
            variables: Default::default(),
            patches: Vec::new(),
            secrets: Vec::new(),
            depends_on: Vec::new(),
            drift: DriftPolicy::Ignore,
            ignore: Vec::new(),
            conflicts: ConflictPolicy::Fail,
            adopt: false,
            prune: true,
            timeout_seconds: 30,
            retries: 5,
        };
        change(&mut spec);
        let (id, json) = spec_id(&spec);
        let mut content = self.content.lock().unwrap();
        content.insert(format!("{SPECS_PATH}{id}"), json.into());
        content.insert(
            format!("{ARTIFACTS_PATH}{}", artifact.id),
            artifact.packed.into(),
        );
        self.name(DesiredBundle {
            bundle: spec.bundle,
            generation,
            spec: Some(id),
            remove: false,
            suspended: false,
        });
    }

    fn name(&self, bundle: DesiredBundle) {
        self.state.lock().unwrap().bundles = vec![bundle];
    }

    fn bury(&self, generation: u64) {
        self.name(DesiredBundle {
            bundle: "b-shop".parse().unwrap(),
            generation,
            spec: None,
            remove: true,
            suspended: false,
        });
    }

    fn report(&self) -> Option<DeploymentReport> {
        let bundle: BundleId = "b-shop".parse().unwrap();
        self.reports.lock().unwrap().get(&bundle).cloned()
    }
}

/// Running delivery. Dropping it is like a kill.
struct Agent {
    wanted: watch::Sender<Option<String>>,
    task: tokio::task::JoinHandle<()>,
    _stop: oneshot::Sender<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    fn start(api: &FakeApi, hub: &Arc<FakeHub>) -> Self {
        Self::start_with(api, hub, Arc::new(ManifestExecutor))
    }

    fn start_with(api: &FakeApi, hub: &Arc<FakeHub>, manifests: Arc<dyn Executor>) -> Self {
        // No test reaches its runner.
        let helm = HelmExecutor::new(Runner::at("no-runner.sock"), api.upstream());
        let executors = Executors {
            manifests,
            helm: Some(Arc::new(helm)),
        };
        Self::start_executors(api, hub, executors)
    }

    fn start_executors(api: &FakeApi, hub: &Arc<FakeHub>, executors: Executors) -> Self {
        let (wanted, receiver) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let parts = DeliveryParts {
            upstream: api.upstream(),
            hub: hub.clone(),
            wanted: receiver,
            process: ProcessIdentity::of_pod("pod"),
            cache: None,
            executors,
            waits: FenceWaits {
                unknown_process: Duration::from_millis(20),
                dead_process: Duration::from_millis(10),
                gone: Duration::from_secs(5),
            },
        };
        let draining = async move {
            let _ = stopped.await;
        };
        let task = tokio::spawn(run(parts, draining));
        Self {
            wanted,
            task,
            _stop: stop,
        }
    }

    fn nudge(&self, hub: &FakeHub) {
        let length = serde_json::to_vec(&*hub.state.lock().unwrap())
            .unwrap()
            .len();
        self.wanted.send_replace(Some(length.to_string()));
    }
}

async fn api() -> FakeApi {
    let api = FakeApi::start().await;
    for namespace in NAMESPACES {
        let path = format!("/api/v1/namespaces/{namespace}");
        api.put(&path, json!({"metadata": {"name": namespace}}));
    }
    let account = "/api/v1/namespaces/fairlead-delivery/serviceaccounts/deployer";
    api.put(account, json!({"metadata": {"name": "deployer"}}));
    api
}

async fn until(what: &str, is_done: impl Fn() -> bool) {
    until_async(what, async || is_done()).await;
}

async fn until_async(what: &str, is_done: impl AsyncFn() -> bool) {
    let polling = async {
        while !is_done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), polling).await;
    assert!(waited.is_ok(), "not reached: {what}");
}

async fn until_ready(hub: &FakeHub, generation: u64) {
    until("Ready", || {
        hub.report().is_some_and(|report| {
            report.state == DeploymentState::Ready && report.applied == generation
        })
    })
    .await;
}

/// A later start is no renewal of the Lease: it is free at once.
fn free_lease(api: &FakeApi) {
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/fairlead-delivery/leases/fairlead-delivery";
    api.change(lease, |lease| lease["spec"]["holderIdentity"] = json!(""));
}

#[tokio::test]
async fn bundle_is_applied_updated_pruned_and_removed() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a", "b", "c"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    assert_eq!(api.paths(OBJECTS).len(), 3);
    until("lock gone", || api.get(LOCK).is_none()).await;
    hub.release(12, &["a", "b"]);
    agent.nudge(&hub);
    until_ready(&hub, 12).await;
    assert_eq!(
        api.paths(OBJECTS),
        [format!("{OBJECTS}a"), format!("{OBJECTS}b")]
    );
    hub.bury(113);
    agent.nudge(&hub);
    until("gone", || !hub.gone.lock().unwrap().is_empty()).await;
    assert_eq!(api.paths(OBJECTS), Vec::<String>::new());
    assert_eq!(api.paths(JOURNAL), Vec::<String>::new());
    let runs = hub.runs.lock().unwrap().clone();
    assert!(
        runs.iter().any(|line| line.ends_with("/result")),
        "{runs:?}"
    );
}

#[tokio::test]
async fn sync_keeps_the_live_values_of_ignored_fields() {
    let ignore = |spec: &mut Spec| {
        spec.ignore.push(IgnoreRule {
            kind: Some("ConfigMap".to_owned()),
            group: None,
            namespace: None,
            name: Some("a".to_owned()),
            pointers: vec!["/data/g".to_owned()],
        });
    };
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release_with(1, &["a", "b"], ignore);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    let value = |name: &str| api.get(&format!("{OBJECTS}{name}")).unwrap()["data"]["g"].clone();
    assert_eq!(value("a"), "1", "a new object has the value of the bundle");
    for name in ["a", "b"] {
        api.change(&format!("{OBJECTS}{name}"), |it| {
            it["data"]["g"] = json!("theirs");
        });
    }
    hub.release_with(12, &["a", "b"], ignore);
    agent.nudge(&hub);
    until_ready(&hub, 12).await;
    assert_eq!(value("a"), "theirs");
    assert_eq!(value("b"), "12");
}

#[tokio::test]
async fn empty_hub_deletes_nothing_and_an_old_one_is_refused() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(8, &["a"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 8).await;
    hub.state.lock().unwrap().bundles.clear();
    agent.nudge(&hub);
    until("Orphaned", || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::Orphaned)
    })
    .await;
    assert_eq!(api.paths(OBJECTS).len(), 1);
    hub.release(7, &["other"]);
    agent.nudge(&hub);
    until("FL-6305", || {
        hub.report()
            .is_some_and(|it| it.code.as_deref() == Some("FL-6305"))
    })
    .await;
    assert_eq!(api.paths(OBJECTS), [format!("{OBJECTS}a")]);
}

#[tokio::test]
async fn deletion_of_most_objects_waits_for_a_person() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a", "b", "c"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    hub.release(12, &["a"]);
    agent.nudge(&hub);
    until("Blocked", || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::Blocked)
    })
    .await;
    let report = hub.report().unwrap();
    assert_eq!(report.code.as_deref(), Some("FL-6204"));
    assert!(report.reason.unwrap().contains("2 of 3 objects"));
    assert_eq!(api.paths(OBJECTS).len(), 3);
}

#[tokio::test]
async fn restarted_agent_goes_on_without_the_hub() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    drop(agent);
    free_lease(&api);
    *hub.is_away.lock().unwrap() = true;
    hub.reports.lock().unwrap().clear();
    api.take_requests();
    let _agent = Agent::start(&api, &hub);
    let journals = "GET /api/v1/namespaces/fairlead-delivery/secrets";
    until("journals read", || {
        api.take_requests().iter().any(|it| it == journals)
    })
    .await;
    assert_eq!(api.paths(OBJECTS).len(), 1);
    *hub.is_away.lock().unwrap() = false;
    until_ready(&hub, 1).await;
    assert_eq!(api.paths(OBJECTS).len(), 1);
}

/// Stops the agent at each request that changes something, and starts it again: the end is always the same.
#[tokio::test]
async fn kill_at_any_write_leaves_nothing_behind() {
    for kill_at in 1..14 {
        let (api, hub) = (api().await, Arc::new(FakeHub::default()));
        hub.release(1, &["a", "b", "c"]);
        let agent = Agent::start(&api, &hub);
        until_ready(&hub, 1).await;
        until("lock gone", || api.get(LOCK).is_none()).await;
        // From this write on nothing reaches the API server until the kill.
        let writes = Arc::new(Mutex::new(0));
        let counter = writes.clone();
        api.set_fault(move |method, path, _| {
            let is_write = *method != Method::GET && !path.contains("/leases/");
            let mut count = counter.lock().unwrap();
            *count += u32::from(is_write);
            (*count >= kill_at).then(|| status(503, "", ""))
        });
        hub.release(12, &["a", "b", "d"]);
        agent.nudge(&hub);
        let is_killed = || *writes.lock().unwrap() >= kill_at;
        let is_done = || {
            hub.report()
                .is_some_and(|it| it.applied == 12 && it.state == DeploymentState::Ready)
        };
        until("kill or end", || is_killed() || is_done()).await;
        drop(agent);
        api.clear_fault();
        free_lease(&api);
        let _agent = Agent::start(&api, &hub);
        until_ready(&hub, 12).await;
        until("lock gone", || api.get(LOCK).is_none()).await;
        let names = ["a", "b", "d"].map(|name| format!("{OBJECTS}{name}"));
        assert_eq!(api.paths(OBJECTS), names, "killed at write {kill_at}");
        let journal = api.get(JOURNAL).unwrap();
        let record = journal["data"]["record"].as_str().unwrap();
        let record = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, record);
        let record: serde_json::Value = serde_json::from_slice(&record.unwrap()).unwrap();
        assert!(
            record["pending"].is_null(),
            "killed at write {kill_at}: {record}"
        );
    }
}
