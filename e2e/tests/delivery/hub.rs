//! Hub in the process of the test: serves a desired state with its content, and keeps reports and results.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::{
    BundleId,
    delivery::{
        ARTIFACTS_PATH, AttemptOutcome, BundleKind, ConflictPolicy, DELIVERY_PATH,
        DeploymentReceipt, DeploymentReport, DeploymentReports, DesiredBundle, DesiredState,
        DriftPolicy, REPORTS_PATH, RunOutcome, SPECS_PATH, Spec,
    },
};
use fairlead_bundle::{
    folder::{FileEntry, Folder},
    spec_id,
};
use fairlead_delivery_agent::{HubConnection, HubUnreachable};
use http::{Request, Response, StatusCode};

#[derive(Default)]
struct HubState {
    desired: BTreeMap<BundleId, DesiredBundle>,
    content: HashMap<String, Bytes>,
    reports: HashMap<BundleId, DeploymentReport>,
    gone: Vec<BundleId>,
    outcomes: Vec<RunOutcome>,
    revision: u32,
}

/// Hub with an agent of one cluster.
#[derive(Default)]
pub(crate) struct FakeHub {
    state: Mutex<HubState>,
}

impl FakeHub {
    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap()
    }

    /// Releases a generation of a bundle with these files; `change` adapts its spec. Returns the new ETag.
    pub(crate) fn release(
        &self,
        bundle: &str,
        generation: u64,
        files: &[(&str, &str)],
        change: impl FnOnce(&mut Spec),
    ) -> String {
        let files = files.iter().map(|(path, content)| FileEntry {
            path: (*path).to_owned(),
            mode: 0o100_644,
            content: content.as_bytes().to_vec(),
        });
        let artifact = Folder::from_files(files).unwrap().pack().unwrap();
        let mut spec = Spec {
            bundle: bundle.parse().unwrap(),
            tenant: "t-acme".parse().unwrap(),
            kind: BundleKind::Manifests,
            artifact: artifact.id.clone(),
            namespace: "shop".to_owned(),
            service_account: "deployer".to_owned(),
            helm: None,
            variables: BTreeMap::new(),
            patches: Vec::new(),
            secrets: Vec::new(),
            depends_on: Vec::new(),
            drift: DriftPolicy::Correct,
            ignore: Vec::new(),
            conflicts: ConflictPolicy::Fail,
            adopt: false,
            prune: true,
            timeout_seconds: 60,
            retries: 5,
        };
        change(&mut spec);
        let (id, json) = spec_id(&spec);
        let mut state = self.lock();
        let content = &mut state.content;
        content.insert(format!("{SPECS_PATH}{id}"), json.into());
        content.insert(
            format!("{ARTIFACTS_PATH}{}", artifact.id),
            artifact.packed.into(),
        );
        state.name(DesiredBundle {
            bundle: spec.bundle,
            generation,
            spec: Some(id),
            remove: false,
            suspended: false,
        })
    }

    /// Names a tombstone. Returns the new ETag.
    pub(crate) fn bury(&self, bundle: &str, generation: u64) -> String {
        self.lock().name(DesiredBundle {
            bundle: bundle.parse().unwrap(),
            generation,
            spec: None,
            remove: true,
            suspended: false,
        })
    }

    pub(crate) fn report(&self, bundle: &str) -> Option<DeploymentReport> {
        let bundle: BundleId = bundle.parse().unwrap();
        self.lock().reports.get(&bundle).cloned()
    }

    pub(crate) fn is_gone(&self, bundle: &str) -> bool {
        let bundle: BundleId = bundle.parse().unwrap();
        self.lock().gone.contains(&bundle)
    }

    /// Number of successful runs. A failed attempt before one is legal on a busy machine.
    pub(crate) fn successes(&self) -> usize {
        let state = self.lock();
        let outcomes = state.outcomes.iter();
        let successes = outcomes.filter(|it| it.outcome == AttemptOutcome::Succeeded);
        successes.count()
    }
}

impl HubState {
    fn name(&mut self, bundle: DesiredBundle) -> String {
        self.desired.insert(bundle.bundle.clone(), bundle);
        self.revision += 1;
        self.revision.to_string()
    }

    fn answer(&mut self, path: &str, body: &Bytes) -> Option<Bytes> {
        if path == REPORTS_PATH {
            let reports: DeploymentReports = serde_json::from_slice(body).unwrap();
            for report in reports.reports {
                self.reports.insert(report.bundle.clone(), report);
            }
            self.gone.extend(reports.gone);
            let receipt = DeploymentReceipt {
                etag: Some("1".to_owned()),
            };
            return Some(serde_json::to_vec(&receipt).unwrap().into());
        }
        if path.starts_with("/agent/v1/runs/") {
            if path.ends_with("/result") {
                self.outcomes.push(serde_json::from_slice(body).unwrap());
            }
            return Some(Bytes::from_static(br#"{"logOffset": 0}"#));
        }
        self.content.get(path).cloned()
    }
}

#[async_trait]
impl HubConnection for FakeHub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _limit: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let mut state = self.lock();
        let path = request.uri().path();
        if path == DELIVERY_PATH {
            let desired = DesiredState {
                bundles: state.desired.values().cloned().collect(),
                commands: 0,
            };
            let body = serde_json::to_vec(&desired).unwrap();
            let answer = Response::builder().header("etag", format!("\"{}\"", state.revision));
            return Ok(answer.body(body.into()).unwrap());
        }
        let body = state.answer(path, request.body());
        let status = match body {
            Some(_) => StatusCode::OK,
            None => StatusCode::NOT_FOUND,
        };
        let answer = Response::builder().status(status);
        Ok(answer.body(body.unwrap_or_default()).unwrap())
    }
}
