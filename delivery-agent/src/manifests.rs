//! Executor of manifests: server-side apply in stages, prune by inventory, removal.

mod adopt;
mod apply;
mod diff;
mod found;
mod load;
mod prune;
mod stage;

pub(crate) use self::{
    apply::{refusal, run_failure},
    diff::{DiffWriter, diff},
    load::content_failure,
    prune::delete,
};

use async_trait::async_trait;
use fairlead_api::{Code, delivery::RunDiff};
use fairlead_manifests::{
    BundleContext, Inventory, InventoryEntry, ObjectKind, PrepareError, Prepared, PrunePlan,
    apply_stages, decide_delete, plan_prune, plan_removal, prepare, yaml::Manifest,
};
use found::Traces;

use crate::engine::{Applied, Executor, FailureClass, RunContext, RunFailure};

/// Executor of bundles with the kind `manifests`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ManifestExecutor;

#[async_trait]
impl Executor for ManifestExecutor {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        let prepared = prepared(run).await?;
        for object in &prepared {
            run.site.check_object(&object.key)?;
        }
        let before = run.journal.state().await;
        let old = before.inventory;
        let new: Inventory = prepared.iter().map(entry).collect();
        run.cancel.check()?;
        // Old and new objects are known before the first apply, so that a killed run leaves none behind.
        let step = format!("apply {} objects", prepared.len());
        let union = old.union(&new);
        run.journal.set_step(&step, Some(union.clone())).await?;
        run.log.set_step(&step);
        let mut objects = Vec::with_capacity(prepared.len());
        let traces = Traces::default();
        let stages = apply_stages(prepared.iter().map(|it| &it.key));
        for stage in stages {
            let members = stage.members.iter().filter_map(|at| prepared.get(*at));
            let members: Vec<_> = members.collect();
            let applied = stage::apply(run, members, &union, &traces, stage.awaited);
            objects.extend(applied.await?);
        }
        let mut inventory = new;
        for object in &objects {
            inventory.insert(InventoryEntry {
                key: object.key.clone(),
                version: object.kind.version.clone(),
                uid: object.baseline.as_ref().map(|it| it.uid.clone()),
            });
        }
        let blocked = self.prune(run, &old, &mut inventory).await?;
        // A journal that was lost is no first delivery: its objects are known again, and none is deleted because of it.
        if before.record.applied.is_none() && traces.are_found() {
            found::add_to(run, &mut inventory).await?;
        }
        Ok(Applied {
            objects,
            inventory,
            blocked,
        })
    }

    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure> {
        let inventory = run.journal.state().await.inventory;
        let plan = plan_removal(&inventory);
        run.begin_step(&format!("delete {} objects", inventory.len()))
            .await?;
        delete_labelled(run, &plan).await
    }

    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure> {
        let prepared = prepared(run).await?;
        let manager = format!("fairlead/{}", run.bundle());
        let writer = DiffWriter {
            manager: &manager,
            ignore: &run.spec.ignore,
            is_exclusive: !run.spec.adopt,
            prunes: run.spec.prune,
        };
        diff::diff(run, &prepared, &writer).await
    }
}

impl ManifestExecutor {
    /// Deletes objects that the new content has no longer. Returns the sentence of a block; the objects then stay in the
    /// inventory.
    async fn prune(
        &self,
        run: &RunContext,
        old: &Inventory,
        inventory: &mut Inventory,
    ) -> Result<Option<String>, RunFailure> {
        let confirmed: Vec<_> = match run.confirmed {
            true => old.iter().map(|it| it.key.clone()).collect(),
            false => Vec::new(),
        };
        let plan = plan_prune(old, inventory, &confirmed);
        if plan.is_empty() {
            return Ok(None);
        }
        if plan.blocked.is_some() || !run.spec.prune {
            for entry in plan.entries() {
                inventory.insert(entry.clone());
            }
            if let Some(blocked) = plan.blocked.filter(|_| run.spec.prune) {
                run.log.line(&blocked);
                return Ok(Some(blocked));
            }
            return Ok(None);
        }
        let count = plan.entries().count();
        run.begin_step(&format!("delete {count} objects")).await?;
        delete_labelled(run, &plan).await?;
        Ok(None)
    }
}

/// Deletes the objects of a plan that carry the label of the bundle.
async fn delete_labelled(run: &RunContext, plan: &PrunePlan) -> Result<(), RunFailure> {
    let bundle = run.bundle().as_str();
    delete(run, plan, &|entry, live| decide_delete(entry, live, bundle)).await
}

fn entry(object: &Prepared) -> InventoryEntry {
    InventoryEntry {
        key: object.key.clone(),
        version: object.kind.version.clone(),
        uid: None,
    }
}

/// Objects of the bundle as they are applied.
///
/// # Errors
/// The content cannot be read, or the cluster has not a kind yet.
pub(crate) async fn prepared(run: &RunContext) -> Result<Vec<Prepared>, RunFailure> {
    let manifests = load::manifests(run).await?;
    let kinds = manifests.iter().filter_map(|it| ObjectKind::of(&it.object));
    let kinds: Vec<_> = kinds.collect();
    let table = run.discovery.table_of(&kinds).await;
    let table = table.map_err(|error| RunFailure::of_kube(&error))?;
    let scope = move |kind: &ObjectKind| table.scope(kind);
    let (spec, generation) = (run.spec.clone(), run.generation);
    let preparing = move || prepare_all(manifests, &spec, generation, &scope);
    let prepared = tokio::task::spawn_blocking(preparing).await;
    prepared.map_err(|error| invalid(error.to_string()))?
}

fn prepare_all(
    manifests: Vec<Manifest>,
    spec: &fairlead_api::delivery::Spec,
    generation: u64,
    scope: &dyn Fn(&ObjectKind) -> Option<fairlead_manifests::Scope>,
) -> Result<Vec<Prepared>, RunFailure> {
    let context = BundleContext {
        bundle: spec.bundle.as_str(),
        generation,
        namespace: &spec.namespace,
        patches: &spec.patches,
    };
    prepare(manifests, &context, scope).map_err(|error| match &error {
        PrepareError::UnknownKind { .. } => RunFailure::new(
            FailureClass::Waiting,
            Code::DeploymentWaits,
            format!("waits: {error}; another bundle may bring it"),
        ),
        _ => invalid(error.to_string()),
    })
}

fn invalid(sentence: impl Into<String>) -> RunFailure {
    RunFailure::new(FailureClass::Permanent, Code::InvalidManifests, sentence)
}
