//! Health of the objects of a deployment, read with the token of its run.

use std::{collections::HashSet, time::Duration};

use fairlead_manifests::{Health, HealthState, HealthSummary, ObjectKey, health};
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::executor::AppliedObject;
use crate::kube::{Discovery, KubeClient, KubeError, Query};

/// Objects read at the same time.
const CONCURRENT_READS: usize = 8;
/// First interval between two reads; later ones are longer.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Longest interval between two reads.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Kinds that are ready once they exist.
const KINDS_WITHOUT_HEALTH: [(&str, &str); 14] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "LimitRange"),
    ("", "ResourceQuota"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("storage.k8s.io", "StorageClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("batch", "CronJob"),
    ("networking.k8s.io", "IngressClass"),
];

/// True if the health of the kind is more than its existence.
pub(crate) fn has_health(key: &ObjectKey) -> bool {
    let is_key = |(group, kind): &(&str, &str)| key.is(group, kind);
    !KINDS_WITHOUT_HEALTH.iter().any(is_key)
}

/// Polls the health of objects until all are ready.
pub(crate) struct HealthPoll<'a> {
    kube: &'a KubeClient,
    discovery: &'a Discovery,
    total: usize,
    /// Objects that were not ready at the last read.
    unready: Vec<&'a AppliedObject>,
    waiting_classes: Option<HashSet<Option<String>>>,
    interval: Duration,
}

impl<'a> HealthPoll<'a> {
    pub(crate) fn new(
        kube: &'a KubeClient,
        discovery: &'a Discovery,
        objects: impl IntoIterator<Item = &'a AppliedObject>,
    ) -> Self {
        let objects: Vec<_> = objects.into_iter().collect();
        let total = objects.len();
        let unready = objects.into_iter().filter(|it| has_health(&it.key));
        Self {
            kube,
            discovery,
            total,
            unready: unready.collect(),
            waiting_classes: None,
            interval: POLL_INTERVAL_MIN,
        }
    }

    /// Reads the objects that were not ready at the last read.
    pub(crate) async fn read(&mut self) -> Result<HealthSummary, KubeError> {
        self.read_classes().await?;
        let classes = self.waiting_classes.take().unwrap_or_default();
        let table = self.discovery.table().await?;
        let (kube, objects) = (self.kube, std::mem::take(&mut self.unready));
        let mut reads = Vec::with_capacity(objects.len());
        for object in objects {
            let resource = table.get_any_version(&object.kind).cloned();
            reads.push(async move {
                let live = match resource {
                    Some(resource) => kube.get(&resource.object_path(&object.key)).await?,
                    None => None,
                };
                Ok::<_, KubeError>((object, live))
            });
        }
        let mut reads = stream::iter(reads).buffered(CONCURRENT_READS);
        let mut worst = Health::READY;
        let mut unready = Vec::new();
        while let Some(read) = reads.next().await {
            let (object, live) = read?;
            let waits = |class: Option<&str>| classes.contains(&class.map(str::to_owned));
            let state = match &live {
                Some(live) => health(live, &waits),
                None => Health::missing(&object.key),
            };
            if state.state != HealthState::Ready {
                unready.push(object);
            }
            if state.state > worst.state {
                worst = state;
            }
        }
        drop(reads);
        self.unready = unready;
        self.waiting_classes = Some(classes);
        Ok(HealthSummary {
            total: self.total,
            ready: self.total - self.unready.len(),
            worst,
        })
    }

    /// Waits before the next read.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.interval).await;
        self.interval = (self.interval * 3 / 2).min(POLL_INTERVAL_MAX);
    }

    /// Storage classes that bind a volume when its first pod starts. Without the right to list them there are none.
    async fn read_classes(&mut self) -> Result<(), KubeError> {
        let is_claim = |object: &&AppliedObject| object.key.is("", "PersistentVolumeClaim");
        if self.waiting_classes.is_some() || !self.unready.iter().any(is_claim) {
            return Ok(());
        }
        let path = "/apis/storage.k8s.io/v1/storageclasses";
        let list = match self.kube.list(path, &Query::default()).await {
            Err(KubeError::Status { status: 403, .. }) => None,
            other => other?,
        };
        let mut classes = HashSet::new();
        for class in list.unwrap_or_default().items {
            let text = |pointer| class.pointer(pointer).and_then(Value::as_str);
            if text("/volumeBindingMode") != Some("WaitForFirstConsumer") {
                continue;
            }
            classes.insert(text("/metadata/name").map(str::to_owned));
            let default = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
            if text(default) == Some("true") {
                classes.insert(None);
            }
        }
        self.waiting_classes = Some(classes);
        Ok(())
    }
}
