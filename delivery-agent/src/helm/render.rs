//! Dry run of an upgrade in the cluster: the objects that it would apply.

use std::sync::Arc;

use fairlead_api::{Code, delivery::RunDiff};
use fairlead_manifests::{Prepared, yaml::Place};
use fairlead_runner::{Ending, Operation, UpgradeInstall};
use serde_json::Value;

use super::{
    program::ProgramEnd,
    release::Release,
    sync::{Content, values_file},
};
use crate::{
    engine::{AppliedObject, FailureClass, RunFailure},
    manifests::{DiffWriter, diff},
};

/// Field manager of Helm.
const FIELD_MANAGER: &str = "helm";

impl Release<'_> {
    /// Compares the release with the cluster: a dry run of each object that an upgrade would apply.
    pub(crate) async fn diff(&self) -> Result<RunDiff, RunFailure> {
        let values = self.values()?;
        let content = self.content(&values).await?;
        let (manifest, _) = self.render_manifests(&content).await?;
        let file: Arc<str> = "release".into();
        let objects = self.objects(&manifest).await?.into_iter();
        let prepared = objects.enumerate().map(|(at, object)| Prepared {
            key: object.key,
            kind: object.kind,
            object: object.manifest,
            place: Place {
                file: file.clone(),
                document: at + 1,
                line: 1,
            },
        });
        let writer = DiffWriter {
            manager: FIELD_MANAGER,
            ignore: &self.run.spec.ignore,
            is_exclusive: false,
            prunes: true,
        };
        diff(self.run, &prepared.collect::<Vec<_>>(), &writer).await
    }

    /// Objects that an upgrade would apply, those of hooks too.
    pub(crate) async fn render(&self, content: &Content) -> Result<Vec<AppliedObject>, RunFailure> {
        let (manifest, hooks) = self.render_manifests(content).await?;
        let mut objects = self.objects(&manifest).await?;
        for hook in hooks {
            objects.extend(self.objects(&hook).await?);
        }
        Ok(objects)
    }

    /// Manifest that an upgrade would apply, and those of its hooks.
    pub(crate) async fn render_manifests(
        &self,
        content: &Content,
    ) -> Result<(String, Vec<String>), RunFailure> {
        let mut files = content.chart.files.clone();
        files.push(values_file(&content.values)?);
        let upgrade = UpgradeInstall {
            dry_run: true,
            ..self.upgrade(content.chart.path.clone())
        };
        let operation = Operation::UpgradeInstall(upgrade);
        let (end, answer) = self.query(operation, &files).await?;
        let succeeded = match &end {
            ProgramEnd::Ended(status) => status.ending().is_some_and(Ending::is_success),
            ProgramEnd::Lost { .. } => false,
        };
        if !succeeded {
            return Err(self.program_failure(&end, None).await);
        }
        let release: Value = serde_json::from_slice(&answer).map_err(|error| {
            let cause = format!("Helm printed no JSON: {error}");
            self.failure(FailureClass::Retry, Code::HelmFailed, cause)
        })?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let hooks = release.get("hooks").and_then(Value::as_array);
        let hooks = hooks.into_iter().flatten();
        let hooks = hooks.filter_map(|hook| hook.get("manifest").map(text));
        let manifest = release.get("manifest").map(text).unwrap_or_default();
        Ok((manifest, hooks.collect()))
    }
}
