//! Custom resource definitions of a chart: created or replaced before Helm, and awaited.

use std::time::Duration;

use fairlead_api::{Code, delivery::CrdPolicy};
use fairlead_manifests::{
    HealthState, ObjectKey, ObjectKind, Prepared, clean, health, yaml::Manifest,
};
use tokio::time::{Instant, sleep};

use super::release::Release;
use crate::{
    engine::{FailureClass, RunFailure},
    manifests::{refusal, run_failure},
};

/// Time until a definition is served.
const ESTABLISHED_DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

impl Release<'_> {
    /// Applies the definitions by the policy of the bundle.
    pub(crate) async fn apply_definitions(
        &self,
        definitions: Vec<Manifest>,
    ) -> Result<(), RunFailure> {
        let policy = self.run.spec.helm.as_ref().map(|it| it.crds);
        let policy = policy.unwrap_or_default();
        if policy == CrdPolicy::Skip || definitions.is_empty() {
            return Ok(());
        }
        let step = format!("apply {} definitions", definitions.len());
        self.run.begin_step(&step).await?;
        let mut paths = Vec::new();
        for Manifest { mut object, place } in definitions {
            let _ = clean(&mut object);
            let (Some(key), Some(kind)) = (ObjectKey::of(&object), ObjectKind::of(&object)) else {
                continue;
            };
            self.run.site.check_object(&key)?;
            let prepared = Prepared {
                key,
                kind,
                object,
                place,
            };
            paths.extend(self.apply_definition(&prepared, policy).await?);
        }
        for (key, path) in paths {
            self.await_definition(&key, &path).await?;
        }
        self.run.discovery.invalidate().await;
        Ok(())
    }

    /// Path of an applied definition; none for one that existed before and stays.
    async fn apply_definition(
        &self,
        definition: &Prepared,
        policy: CrdPolicy,
    ) -> Result<Option<(ObjectKey, String)>, RunFailure> {
        let (kube, key) = (&self.run.kube, &definition.key);
        let resource = self.run.discovery.resource(&definition.kind).await;
        let resource = resource.map_err(|error| self.records().failure(&error))?;
        let Some(resource) = resource else {
            let cause = format!("waits for the kind of {key}, which the cluster has not");
            return Err(self.failure(FailureClass::Waiting, Code::DeploymentWaits, cause));
        };
        let path = resource.object_path(key);
        if policy == CrdPolicy::Create {
            let live = kube.get_metadata(&path).await;
            let live = live.map_err(|error| self.records().failure(&error))?;
            if live.is_some() {
                return Ok(None);
            }
        }
        let manager = format!("fairlead/{}", self.run.bundle());
        let force = policy == CrdPolicy::Replace;
        let applied = kube
            .apply(&path, &manager, force, false, &definition.object)
            .await;
        match applied {
            Ok(_) => Ok(Some((key.clone(), path))),
            Err(error) => {
                let failure = refusal(self.run, definition, &resource, "patch", &error)?;
                Err(run_failure(&failure))
            }
        }
    }

    async fn await_definition(&self, key: &ObjectKey, path: &str) -> Result<(), RunFailure> {
        let deadline = Instant::now() + ESTABLISHED_DEADLINE;
        loop {
            self.run.cancel.check()?;
            let live = self.run.kube.get(path).await;
            let live = live.map_err(|error| self.records().failure(&error))?;
            let state = live.map(|live| health(&live, &|_| false));
            match state {
                Some(health) if health.state == HealthState::Ready => return Ok(()),
                Some(health) if Instant::now() >= deadline => {
                    return Err(self.failure(
                        FailureClass::Retry,
                        Code::NotReadyInTime,
                        health.reason,
                    ));
                }
                None if Instant::now() >= deadline => {
                    let cause = format!("{key} was deleted by somebody else");
                    return Err(self.failure(FailureClass::Retry, Code::NotReadyInTime, cause));
                }
                _ => sleep(POLL_INTERVAL).await,
            }
        }
    }
}
