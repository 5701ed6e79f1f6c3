//! One file for each kind of fact.

mod additional;
mod annotations;
mod components;
mod definitions;
mod gitops;
mod hosts;
mod nodes;
mod openshift;
mod service_accounts;
mod services;
mod version;

use fairlead_api::config::{CollectorKind, FactCollection};
use fairlead_gitops::GitOpsStatus;
use serde::Deserialize;

use super::collector::Collector;

/// Collector for one round; `namespace` is the agent's own, `gitops` the state of its GitOps key.
pub(super) fn of(
    kind: CollectorKind,
    settings: &FactCollection,
    namespace: &str,
    gitops: Option<GitOpsStatus>,
) -> Box<dyn Collector> {
    match kind {
        CollectorKind::Version => Box::new(version::ServerVersion::default()),
        CollectorKind::OpenShift => Box::new(openshift::OpenShift::default()),
        CollectorKind::Nodes => Box::new(nodes::Nodes::default()),
        CollectorKind::Hosts => Box::new(hosts::Hosts::default()),
        CollectorKind::Services => Box::new(services::ServiceVersions::default()),
        CollectorKind::Helm => Box::new(services::Helm::default()),
        CollectorKind::Definitions => Box::new(definitions::Definitions::default()),
        CollectorKind::GitOps => Box::new(gitops::GitOpsKey::new(gitops)),
        CollectorKind::Components => Box::new(components::Components::default()),
        CollectorKind::ServiceAccounts => Box::new(service_accounts::ServiceAccountKeys::default()),
        CollectorKind::Annotations => Box::new(annotations::Annotations::new(settings)),
        CollectorKind::Additional => Box::new(additional::Additional::new(namespace)),
    }
}

/// Relevant metadata of an object.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectMetadata<Labels: Default> {
    name: String,
    namespace: String,
    labels: Labels,
}

/// Object with its metadata only.
#[derive(Deserialize)]
struct Object<Labels: Default> {
    #[serde(bound(deserialize = "Labels: Deserialize<'de>"))]
    metadata: ObjectMetadata<Labels>,
}

impl<Labels: Default> ObjectMetadata<Labels> {
    /// `namespace/name`
    fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Facts of `collector` for these objects.
#[cfg(test)]
fn facts_of(
    mut collector: Box<dyn Collector>,
    objects: &[(usize, serde_json::Value)],
) -> serde_json::Value {
    for (source, object) in objects {
        assert!(*source < collector.sources().len());
        collector
            .take(*source, object.to_string().as_bytes())
            .unwrap();
    }
    let facts = collector.finish().into_iter();
    facts
        .map(|facts| (facts.name, facts.value))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
