//! Reads of the tool's health and of its last repairs, at most every 15 seconds.

use std::time::Duration;

use fairlead_api::gitops::Repair;
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::debug;

use crate::{
    health::{Health, HealthCheck},
    kube::{ObjectError, Objects},
    repairs,
    tool::Layout,
};

/// Shortest time between two reads: steps of a rotation are faster.
const READ_INTERVAL: Duration = Duration::from_secs(15);

/// Last read state.
#[derive(Debug, Default)]
pub(crate) struct ToolWatch {
    read_at: Option<Instant>,
    /// True: the next refresh reads in any case.
    pub(crate) is_outdated: bool,
    pub(crate) health: Option<Health>,
    pub(crate) repairs: Vec<Repair>,
}

impl ToolWatch {
    /// Reads again if the last read is old. A failed read leaves the health unknown.
    pub(crate) async fn refresh(&mut self, objects: &Objects, layout: &Layout) {
        let is_fresh = self.read_at.is_some_and(|at| at.elapsed() < READ_INTERVAL);
        if is_fresh && !self.is_outdated {
            return;
        }
        self.read_at = Some(Instant::now());
        self.is_outdated = false;
        self.health = match health(objects, layout).await {
            Ok(health) => health,
            Err(error) => {
                debug!(%error, "health of the GitOps tool not read");
                None
            }
        };
        self.repairs = repairs::read(objects).await;
    }
}

async fn health(objects: &Objects, layout: &Layout) -> Result<Option<Health>, ObjectError> {
    let mut check = HealthCheck::default();
    for (kind, plural) in [
        ("Deployment", "deployments"),
        ("StatefulSet", "statefulsets"),
    ] {
        let path = format!("/apis/apps/v1/namespaces/{}/{plural}", layout.namespace);
        let add = |workload: &Value| check.add_workload(kind, workload);
        objects.for_each(&path, add).await?;
    }
    for name in layout.definitions {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3D{name}"
        );
        let add = |definition: &Value| check.add_definition(definition);
        objects.for_each(&path, add).await?;
    }
    let add = |object: &Value| check.add_sync(layout.tool, object);
    objects.for_each(layout.syncs, add).await?;
    let add = |namespace: &Value| check.add_namespace(namespace);
    objects.for_each(&namespace_path(layout), add).await?;
    Ok(check.finish(layout.definitions, OffsetDateTime::now_utc()))
}

/// True if an annotation of the tool's namespace pauses repairs. Without an answer it is not.
pub(crate) async fn is_paused(objects: &Objects, layout: &Layout) -> bool {
    let mut check = HealthCheck::default();
    let add = |namespace: &Value| check.add_namespace(namespace);
    match objects.for_each(&namespace_path(layout), add).await {
        Ok(()) => check.is_paused(),
        Err(error) => {
            debug!(%error, "annotations of the namespace not read");
            false
        }
    }
}

/// List of the one namespace: the agent may list namespaces, and get none.
fn namespace_path(layout: &Layout) -> String {
    let name = layout.namespace;
    format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{name}")
}
