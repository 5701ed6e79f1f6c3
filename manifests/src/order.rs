//! Order of objects: definitions and namespaces, accounts and rights, configuration, workloads, custom objects, webhooks.

use std::collections::BTreeMap;

use crate::object::ObjectKey;

/// Kinds in the order of their creation. Other kinds come between them and [`LAST`].
const FIRST: &[(&str, &str)] = &[
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("", "Namespace"),
    ("node.k8s.io", "RuntimeClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    ("networking.k8s.io", "IngressClass"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("", "ResourceQuota"),
    ("", "LimitRange"),
    ("", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("policy", "PodDisruptionBudget"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("networking.k8s.io", "Ingress"),
];

/// Kinds that can block requests of others while their server starts.
const LAST: &[(&str, &str)] = &[
    ("apiregistration.k8s.io", "APIService"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ),
];

/// Objects that may be applied or deleted in parallel, as indexes of the given keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// True: all of them must be healthy before the next stage.
    pub awaited: bool,
    /// Indexes, in the given order.
    pub members: Vec<usize>,
}

/// Stages of an apply. Definitions and namespaces come first and are awaited.
pub fn apply_stages<'a>(keys: impl IntoIterator<Item = &'a ObjectKey>) -> Vec<Stage> {
    let mut ranks = BTreeMap::<usize, Vec<usize>>::new();
    for (index, key) in keys.into_iter().enumerate() {
        ranks.entry(rank(key)).or_default().push(index);
    }
    let stage = |(rank, members)| Stage {
        awaited: rank < AWAITED_RANKS,
        members,
    };
    ranks.into_iter().map(stage).collect()
}

/// Stages of a deletion: the reverse of [`apply_stages`], and none is awaited.
pub fn delete_stages<'a>(keys: impl IntoIterator<Item = &'a ObjectKey>) -> Vec<Stage> {
    let mut stages = apply_stages(keys);
    stages.reverse();
    for stage in &mut stages {
        stage.awaited = false;
    }
    stages
}

/// Definitions and namespaces share no stage, because a namespace may wait for a webhook.
const AWAITED_RANKS: usize = 2;

fn rank(key: &ObjectKey) -> usize {
    let find = |kinds: &[(&str, &str)]| kinds.iter().position(|(group, kind)| key.is(group, kind));
    if let Some(rank) = find(FIRST) {
        return rank;
    }
    find(LAST).map_or(FIRST.len(), |rank| FIRST.len() + 1 + rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "a".to_owned(),
        }
    }

    #[test]
    fn definitions_come_first_and_webhooks_last() {
        let keys = [
            key(
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
            ),
            key("example.org", "Thing"),
            key("serving.knative.dev", "Service"),
            key("apps", "Deployment"),
            key("", "ConfigMap"),
            key("apps", "Deployment"),
            key("", "Namespace"),
            key("", "ServiceAccount"),
            key("apiextensions.k8s.io", "CustomResourceDefinition"),
        ];
        let stages = apply_stages(&keys);
        let members: Vec<_> = stages.iter().map(|it| it.members.clone()).collect();
        assert_eq!(
            members,
            [
                vec![8],
                vec![6],
                vec![7],
                vec![4],
                vec![3, 5],
                vec![1, 2],
                vec![0]
            ]
        );
        let awaited: Vec<_> = stages.iter().map(|it| it.awaited).collect();
        assert_eq!(awaited, [true, true, false, false, false, false, false]);
        let deleted = delete_stages(&keys);
        assert_eq!(deleted[0].members, [0]);
        assert_eq!(deleted[6].members, [8]);
        assert!(deleted.iter().all(|it| !it.awaited));
    }

    #[test]
    fn each_kind_has_one_rank() {
        let mut kinds: Vec<_> = FIRST.iter().chain(LAST).collect();
        kinds.sort_unstable();
        let count = kinds.len();
        kinds.dedup();
        assert_eq!(kinds.len(), count);
    }
}
