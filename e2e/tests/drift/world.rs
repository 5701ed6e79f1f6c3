//! A real API server, and drift detection of many bundles on it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use fairlead_api::{
    BundleId, RunId,
    delivery::{DriftPolicy, DriftedObject, IgnoreRule},
};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_delivery_agent::{
    drift::{
        AccessError, CorrectionOutcome, CorrectionRun, DeliveryOwner, DriftAccess, DriftEvent,
        DriftMonitor, DriftReport, FollowedDeployment, FollowedObject, ObjectApi, RollbackNote,
    },
    kube::{ApiResource, Discovery, KubeClient, RequestRate},
};
use fairlead_e2e::{Cluster, eventually};
use fairlead_manifests::{
    BundleContext, ObjectKey, ObjectKind, Scope,
    drift::{Baseline, FieldOwner},
    prepare, yaml,
};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::edits::Edit;

/// Clients of an administrator.
struct Access(KubeClient);

struct Run(KubeClient);

#[async_trait]
impl CorrectionRun for Run {
    fn api(&self) -> Arc<dyn ObjectApi> {
        Arc::new(self.0.clone())
    }

    async fn end(self: Box<Self>, _outcome: CorrectionOutcome, _sentence: &str) -> Option<RunId> {
        None
    }
}

#[async_trait]
impl DriftAccess for Access {
    async fn observer(&self, _account: &str) -> Result<Arc<dyn ObjectApi>, AccessError> {
        Ok(Arc::new(self.0.clone()))
    }

    async fn begin_correction(
        &self,
        _bundle: &BundleId,
        _objects: &[DriftedObject],
    ) -> Result<Box<dyn CorrectionRun>, AccessError> {
        Ok(Box::new(Run(self.0.clone())))
    }
}

/// A bundle with one object, in a namespace of its own.
pub(crate) struct Case {
    pub(crate) edit: &'static Edit,
    pub(crate) bundle: BundleId,
    pub(crate) namespace: String,
    pub(crate) manifest: Value,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) path: String,
    baseline: Arc<Baseline>,
}

impl Case {
    pub(crate) fn manager(&self) -> String {
        format!("fairlead/{}", self.bundle)
    }

    pub(crate) fn name(&self) -> &str {
        self.manifest["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
    }
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) client: KubeClient,
    pub(crate) discovery: Discovery,
    pub(crate) monitor: DriftMonitor,
    events: Arc<Mutex<Vec<DriftReport>>>,
}

impl World {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start_lite().await?;
        let target = ApiServerConfig::Kubeconfig {
            path: cluster.kubeconfig(),
            context: None,
        };
        let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
        let client = KubeClient::new(upstream).with_rate(RequestRate::new(200, 200));
        let (monitor, received) = DriftMonitor::new(Arc::new(Access(client.clone())));
        let events = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(collect(received, events.clone()));
        Ok(World {
            discovery: Discovery::new(client.clone()),
            cluster,
            client,
            monitor,
            events,
        })
    }

    /// Applies the object of an edit.
    pub(crate) async fn case(&self, number: usize, edit: &'static Edit) -> anyhow::Result<Case> {
        let namespace = format!("e{number:02}");
        let bundle: BundleId = format!("b-{namespace}").parse()?;
        let made = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let path = format!("/api/v1/namespaces/{namespace}");
        self.client
            .apply(&path, "test", false, false, &made)
            .await?;
        let mut object = (edit.object)();
        if object["metadata"].get("namespace").is_none() {
            object["metadata"]["name"] = format!("web-{namespace}").into();
        } else {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        let kind = ObjectKind::of(&object).context("kind")?;
        let resource = self.discovery.resource(&kind).await?.context("resource")?;
        let manifests = yaml::parse("web.yaml", object.to_string().as_bytes())?;
        let context = BundleContext {
            bundle: bundle.as_str(),
            generation: 1,
            namespace: &namespace,
            patches: &[],
        };
        let scope = resource.scope;
        let prepared = prepare(manifests, &context, &|_: &ObjectKind| -> Option<Scope> {
            Some(scope)
        })?;
        let prepared = prepared.into_iter().next().context("object")?;
        let path = resource.object_path(&prepared.key);
        let manager = format!("fairlead/{bundle}");
        let answer = self
            .client
            .apply(&path, &manager, false, false, &prepared.object)
            .await
            .with_context(|| edit.name)?;
        let owner = FieldOwner::apply(&manager);
        Ok(Case {
            edit,
            bundle,
            namespace,
            manifest: prepared.object,
            resource,
            path,
            baseline: Arc::new(Baseline::of_answer(&answer, &owner).context("baseline")?),
        })
    }

    pub(crate) async fn follow(&self, case: &Case, policy: DriftPolicy) {
        let rule = |pointer: &&str| (*pointer).to_owned();
        let ignored: Vec<_> = case.edit.ignored.iter().map(rule).collect();
        let object = ObjectKey::of(&case.manifest).map(|key| {
            let text = case.manifest.to_string().into();
            FollowedObject::new(
                key,
                case.resource.clone(),
                text,
                Some(case.baseline.clone()),
            )
        });
        self.monitor
            .follow(FollowedDeployment {
                reports_only: false,
                bundle: case.bundle.clone(),
                account: "deployer".to_owned(),
                user: "admin".to_owned(),
                owner: DeliveryOwner::Bundle(case.bundle.clone()),
                policy,
                ignore: vec![IgnoreRule {
                    kind: None,
                    group: None,
                    name: None,
                    namespace: None,
                    pointers: ignored,
                }],
                objects: object.into_iter().collect(),
                rollbacks: RollbackNote::default(),
            })
            .await;
    }

    pub(crate) fn forget_events(&self) {
        self.events.lock().unwrap().clear();
    }

    pub(crate) fn events(&self, case: &Case) -> Vec<DriftEvent> {
        self.events_of(&case.bundle)
    }

    pub(crate) fn events_of(&self, bundle: &BundleId) -> Vec<DriftEvent> {
        let events = self.events.lock().unwrap();
        let own = events.iter().filter(|it| it.bundle == *bundle);
        own.map(|it| it.event.clone()).collect()
    }

    /// Waits for an event.
    pub(crate) async fn until<T>(
        &self,
        case: &Case,
        deadline: Duration,
        name: &str,
        wanted: impl Fn(&DriftEvent) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.until_of(&case.bundle, deadline, name, wanted).await
    }

    pub(crate) async fn until_of<T>(
        &self,
        bundle: &BundleId,
        deadline: Duration,
        name: &str,
        wanted: impl Fn(&DriftEvent) -> Option<T>,
    ) -> anyhow::Result<T> {
        let found = eventually(deadline, name, async || {
            self.events_of(bundle).iter().find_map(&wanted)
        });
        let found = found.await;
        found.with_context(|| format!("{:?}", self.events_of(bundle)))
    }

    pub(crate) async fn live(&self, case: &Case) -> anyhow::Result<Value> {
        self.client.get(&case.path).await?.context("it is gone")
    }

    /// An apply of the manifest that is not forced would change nothing.
    pub(crate) async fn equals_its_manifest(&self, case: &Case) -> anyhow::Result<()> {
        if !case.edit.ignored.is_empty() || case.edit.is_autoscaled {
            return Ok(());
        }
        let manager = case.manager();
        let live = self.live(case).await?;
        let applied = self
            .client
            .apply(&case.path, &manager, false, true, &case.manifest)
            .await?;
        let field = |object: &Value, name: &str| {
            let mut object = object.get(name).cloned().unwrap_or_default();
            if let Some(metadata) = object.as_object_mut() {
                for name in ["managedFields", "resourceVersion"] {
                    metadata.remove(name);
                }
            }
            object
        };
        for name in ["metadata", "spec", "data", "rules", "webhooks"] {
            let (live, applied) = (field(&live, name), field(&applied, name));
            ensure!(live == applied, "{name} is {live} instead of {applied}");
        }
        Ok(())
    }

    pub(crate) async fn kubectl(&self, case: &Case, args: &[&str]) -> anyhow::Result<()> {
        let args = ["-n", &case.namespace]
            .into_iter()
            .chain(args.iter().copied());
        self.cluster.kubectl().args(args).run().await?.success()?;
        Ok(())
    }

    /// Runs kubectl with an object as its standard input.
    pub(crate) async fn kubectl_with(
        &self,
        case: &Case,
        args: &[&str],
        object: &Value,
    ) -> anyhow::Result<()> {
        let args = ["-n", &case.namespace]
            .into_iter()
            .chain(args.iter().copied());
        let call = self.cluster.kubectl().args(args).stdin(object.to_string());
        call.run().await?.success()?;
        Ok(())
    }

    /// Requests of the agent's client so far, beside watches.
    pub(crate) fn requests(&self) -> anyhow::Result<usize> {
        let events = self.cluster.audit()?;
        let is_ours =
            |event: &&Value| event["userAgent"] == "fairlead-delivery" && event["verb"] != "watch";
        Ok(events.iter().filter(is_ours).count())
    }
}

async fn collect(mut received: mpsc::Receiver<DriftReport>, events: Arc<Mutex<Vec<DriftReport>>>) {
    while let Some(report) = received.recv().await {
        events.lock().unwrap().push(report);
    }
}
