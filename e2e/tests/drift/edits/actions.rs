//! Ways to edit an object.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ANSWER_DEADLINE,
    world::{Case, World},
};

/// Reads, changes and replaces an object, as `kubectl replace` does. A controller may write its status in between: then it
/// is read again.
pub(super) async fn put(
    world: &World,
    case: &Case,
    change: impl Fn(&mut Value),
) -> anyhow::Result<()> {
    let deadline = Instant::now() + ANSWER_DEADLINE;
    loop {
        let mut live = world.live(case).await?;
        change(&mut live);
        let replaced = world
            .kubectl_with(case, &["replace", "-f", "-"], &live)
            .await;
        match replaced {
            Err(error) if error.to_string().contains("(Conflict)") && Instant::now() < deadline => {
            }
            replaced => return replaced,
        }
    }
}

/// Merge patch of the object.
pub(super) async fn merge(world: &World, case: &Case, patch: Value) -> anyhow::Result<()> {
    let kind = case.resource.plural.as_str();
    let (name, patch) = (case.name(), patch.to_string());
    world
        .kubectl(case, &["patch", kind, name, "--type=merge", "-p", &patch])
        .await
}

pub(super) async fn json_patch(world: &World, case: &Case, patch: Value) -> anyhow::Result<()> {
    let kind = case.resource.plural.as_str();
    let (name, patch) = (case.name(), patch.to_string());
    world
        .kubectl(case, &["patch", kind, name, "--type=json", "-p", &patch])
        .await
}

/// Strategic patch of the container.
pub(super) async fn container(world: &World, case: &Case, fields: Value) -> anyhow::Result<()> {
    let mut container = json!({"name": "web"});
    container
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    pod(world, case, json!({"containers": [container]})).await
}

/// Strategic patch of the pod's template.
pub(super) async fn pod(world: &World, case: &Case, spec: Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"template": {"spec": spec}}}).to_string();
    world
        .kubectl(case, &["patch", "deployment", "web", "-p", &patch])
        .await
}

/// Server-side apply under a manager name.
pub(super) async fn apply(
    world: &World,
    case: &Case,
    manager: &str,
    change: impl FnOnce(&mut Value),
) -> anyhow::Result<()> {
    let mut object = case.manifest.clone();
    change(&mut object);
    world
        .client
        .apply(&case.path, manager, true, false, &object)
        .await?;
    Ok(())
}

pub(super) async fn edited(world: &World, case: &Case, script: &str) -> anyhow::Result<()> {
    let kind = case.resource.plural.as_str();
    let call = world
        .cluster
        .kubectl()
        .env("KUBE_EDITOR", format!("sed -i {script}"));
    let call = call.args(["-n", &case.namespace, "edit", kind, "web"]);
    call.run().await?.success()?;
    Ok(())
}
