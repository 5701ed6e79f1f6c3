//! State of a GitOps tool, from its objects and the pods of its workloads.

use std::sync::Arc;

use fairlead_manifests::{
    HealthState, ObjectKey,
    repair::{SyncFailure, is_starting, is_sync_object},
};
use serde_json::Value;

use super::{
    super::{super::api::ObjectApi, Worker},
    decide::ToolState,
};
use crate::kube::Query;

/// Kinds with pods.
const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

impl Worker<'_> {
    /// State of the tool now. Workloads that are not ready are read with their pods.
    pub(super) async fn tool_state(&self, observer: &Arc<dyn ObjectApi>) -> ToolState {
        let (unready, syncs) = {
            let objects = self.follower.lock();
            let mut unready = Vec::new();
            let mut syncs = Vec::new();
            for (index, (state, object)) in objects
                .iter()
                .zip(&self.follower.deployment.objects)
                .enumerate()
            {
                let Some(health) = &state.health else {
                    return ToolState::Unknown;
                };
                if is_sync_object(&object.key) {
                    syncs.extend(state.sync.as_deref().cloned());
                } else if health.state != HealthState::Ready && matters(&object.key) {
                    unready.push((index, health.reason.clone()));
                }
            }
            (unready, syncs)
        };
        let mut starting = None;
        for (index, reason) in unready {
            match self.workload_state(observer, index, reason).await {
                broken @ ToolState::Broken(_) => return broken,
                other => starting = Some(other),
            }
        }
        for sync in &syncs {
            if let Some(SyncFailure::Tool(message)) = &sync.failure {
                return ToolState::Broken(message.clone());
            }
        }
        let marks = syncs.iter().map(|it| it.mark.as_str());
        starting.unwrap_or_else(|| ToolState::Working {
            mark: marks.collect::<Vec<_>>().join("\n"),
            is_synced: syncs.iter().all(|it| it.is_ready),
            has_syncs: !syncs.is_empty(),
        })
    }

    async fn workload_state(
        &self,
        observer: &Arc<dyn ObjectApi>,
        index: usize,
        reason: String,
    ) -> ToolState {
        let Some(target) = self.target(observer, index) else {
            return ToolState::Unknown;
        };
        let live = match target.live().await {
            Ok(Some(live)) if is_workload(&target.object.key) => live,
            _ => return ToolState::Broken(reason),
        };
        let namespace = target.object.key.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let query = Query::of_labels(selector(&live));
        // Without the right to list pods, the status of the workload decides.
        let pods = observer.list(&path, &query).await.ok().flatten();
        let pods = pods.map(|it| it.items).unwrap_or_default();
        let is_broken = match pods.is_empty() {
            true => !is_available(&live),
            false => !is_starting(&pods),
        };
        if is_broken {
            ToolState::Broken(reason)
        } else {
            ToolState::Starting(reason)
        }
    }
}

fn is_workload(key: &ObjectKey) -> bool {
    key.group == "apps" && WORKLOADS.contains(&key.kind.as_str())
}

/// True for objects without which the tool does not work.
fn matters(key: &ObjectKey) -> bool {
    is_workload(key) || key.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn selector(workload: &Value) -> String {
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    labels.collect::<Vec<_>>().join(",")
}

/// True if a replica serves.
fn is_available(workload: &Value) -> bool {
    let count = |name: &str| {
        workload
            .pointer(&format!("/status/{name}"))
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    count("availableReplicas") > 0 || count("numberAvailable") > 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workload_is_available_with_one_serving_replica() {
        assert!(is_available(&json!({"status": {"availableReplicas": 1}})));
        assert!(is_available(&json!({"status": {"numberAvailable": 2}})));
        assert!(!is_available(
            &json!({"status": {"replicas": 1, "availableReplicas": 0}})
        ));
        assert!(!is_available(&json!({})));
    }

    #[test]
    fn pods_are_selected_by_the_labels_of_the_workload() {
        let workload = json!({"spec": {"selector": {"matchLabels": {"app": "a", "b": "c"}}}});
        assert_eq!(selector(&workload), "app=a,b=c");
    }
}
