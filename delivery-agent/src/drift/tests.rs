mod fake;
mod followed;
mod health;
mod repairs;
mod watches;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fairlead_api::delivery::DriftPolicy;
use fairlead_manifests::{
    ObjectKey,
    drift::{Baseline, FieldOwner},
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

pub(crate) use fake::{FakeCluster, refused, resource};

use super::*;

const MANAGER: &str = "fairlead/b-shop";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/web";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": "web", "labels": {"fairlead/bundle": "b-shop"}},
        "data": {"a": "1", "b": "2"},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web", "labels": {"fairlead/bundle": "b-shop"}, "generation": 1},
        "spec": {"replicas": 2},
    })
}

/// A cluster with an applied deployment under drift detection.
struct Rig {
    cluster: FakeCluster,
    monitor: DriftMonitor,
    events: mpsc::Receiver<DriftReport>,
}

impl Rig {
    async fn start(policy: DriftPolicy) -> Self {
        let cluster = FakeCluster::default();
        let (monitor, events) = DriftMonitor::new(Arc::new(cluster.clone()));
        let rig = Rig {
            cluster,
            monitor,
            events,
        };
        rig.follow(policy).await;
        rig
    }

    async fn follow(&self, policy: DriftPolicy) {
        self.follow_with(policy, false).await;
    }

    async fn follow_with(&self, policy: DriftPolicy, reports_only: bool) {
        let owner = FieldOwner::apply(MANAGER);
        let object = |path: &str, resource, manifest: Value| {
            let answer = self.cluster.apply_now(path, MANAGER, &manifest);
            let baseline = Baseline::of_answer(&answer, &owner);
            let key = ObjectKey::of(&manifest).unwrap();
            let text = manifest.to_string().into();
            FollowedObject::new(key, resource, text, baseline.map(Arc::new))
        };
        let bundle: fairlead_api::BundleId = "b-shop".parse().unwrap();
        let objects = vec![
            object(MAP, resource("", "ConfigMap", "configmaps"), config_map()),
            object(
                WEB,
                resource("apps", "Deployment", "deployments"),
                deployment(),
            ),
        ];
        self.monitor
            .follow(FollowedDeployment {
                reports_only,
                owner: DeliveryOwner::Bundle(bundle.clone()),
                bundle,
                account: "deployer".to_owned(),
                user: "system:serviceaccount:fairlead-delivery:deployer".to_owned(),
                policy,
                ignore: Vec::new(),
                objects,
                rollbacks: RollbackNote::default(),
            })
            .await;
    }

    /// The next event of some kind.
    async fn next<T>(&mut self, wanted: impl Fn(&DriftEvent) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let report = self.events.recv().await.unwrap();
                if let Some(found) = wanted(&report.event) {
                    return found;
                }
            }
        };
        timeout(Duration::from_secs(7200), waiting).await.unwrap()
    }

    /// The next non-empty drift, as `OBJECT FIELDS MANAGER` texts.
    async fn drift(&mut self) -> Vec<String> {
        let objects = self.next(|event| match event {
            DriftEvent::Drifted { objects, .. } if !objects.is_empty() => Some(objects.clone()),
            _ => None,
        });
        let objects = objects.await;
        let text = |it: &fairlead_api::delivery::DriftedObject| {
            let manager = it.manager.as_deref().unwrap_or("nobody");
            format!("{} {} {manager}", it.object, it.fields.join(","))
        };
        objects.iter().map(text).collect()
    }

    /// The number of objects of the next correction that was no silent one.
    async fn corrected(&mut self) -> usize {
        self.next(|event| match event {
            DriftEvent::Corrected { objects, .. } if !objects.is_empty() => Some(objects.len()),
            _ => None,
        })
        .await
    }

    /// Lets the first checks pass, and drops their events.
    async fn settle(&mut self) {
        sleep(Duration::from_secs(60)).await;
        while self.events.try_recv().is_ok() {}
        self.cluster.take_requests();
    }

    fn edit_map(&self, value: &str) {
        self.cluster
            .edit(MAP, "kubectl-edit", |it| it["data"]["a"] = json!(value));
    }

    fn value(&self) -> Value {
        self.cluster.get_now(MAP).unwrap()["data"]["a"].clone()
    }

    fn corrections(&self) -> usize {
        self.cluster.corrections.load(Ordering::SeqCst)
    }
}
