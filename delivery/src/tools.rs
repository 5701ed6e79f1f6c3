//! GitOps tools as bundles: one for each cluster whose settings have `gitops.install`. The leading hub makes them.
//!
//! The first generation waits for the agent's report about a tool in the cluster. A tool of others gets no bundle, unless
//! it is to be adopted: then the bundle has the source of the catalog only.

mod manifests;

use std::{collections::HashMap, time::Duration};

use fairlead_api::{
    BundleId, ClusterId, Code, Failure, TimeSpan,
    delivery::{BundleFields, ConflictPolicy, DriftPolicy},
    gitops::{DesiredTool, FoundState, FoundTool, GitOpsTool},
};
use fairlead_bundle::folder::FileEntry;
use fairlead_gitops_install::{Installation, RenderError, embedded_version, namespace, render};
use fairlead_registry::{Effective, LeaderPasses, template_of};
use fairlead_store::{
    Actor, Draft, Record, StoreError, View, millis,
    model::{BundleRecord, Cluster, Generation, ToolOrigin, hex},
};
use serde::Serialize;
use serde_json::Value;
use tracing::{info, warn};

pub use manifests::ToolManifests;

use crate::{
    generations::GenerationOptions,
    hub_bundles::{self, HubBundle},
    parts::DeliveryParts,
};

/// Reaction to changes of the installation by others.
const TOOL_DRIFT: DriftPolicy = DriftPolicy::Repair;
/// Reaction to changes of an adopted tool. Its objects return as soon as the settings change. A correction before the end
/// of the bundle would fight with that.
const ADOPTED_DRIFT: DriftPolicy = DriftPolicy::Report;
/// Account of these bundles in `fairlead-delivery`. The install manifest binds it.
pub const INSTALLER: &str = "gitops-installer";
/// Number of the form of rendered objects and of their fields. Another number renders all bundles again.
const RENDERER_VERSION: u32 = 3;
const FILE_NAME: &str = "gitops.json";
/// Time to become ready: images are pulled first.
const READY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Interval at which failed changes are repeated, and at which a hub learns that it leads.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Change of the bundle of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolChange {
    /// The installation is not delivered yet in this form.
    Write(ClusterId),
    /// The tool is not installed by the hub any more. Its objects stay.
    Delete(BundleId),
}

/// Inputs of a bundle, as far as they are not in the code.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inputs<'a> {
    renderer: u32,
    desired: &'a DesiredTool,
    url: &'a str,
    with_controllers: bool,
    embedded: Option<&'static str>,
}

/// Installation that is due in a cluster.
struct Due {
    desired: DesiredTool,
    url: String,
    origin: ToolOrigin,
}

/// Versions of the records that a bundle is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    cluster: u64,
    tenant: Option<u64>,
    bundle: Option<u64>,
}

impl Versions {
    fn of(view: &View, record: &Record<Cluster>) -> Self {
        let cluster = &record.value;
        let bundle = HubBundle::Tool.id_of(&cluster.id).ok();
        Versions {
            cluster: record.version,
            tenant: view.tenant(&cluster.tenant).map(|it| it.version),
            bundle: bundle.and_then(|id| view.bundle(&id)).map(|it| it.version),
        }
    }
}

/// Clusters without a change that is due: a pass after each change of the store must not render them all again.
pub(crate) type Checked = HashMap<ClusterId, Versions>;

/// Keeps the bundles; never returns.
pub(crate) async fn run(parts: &DeliveryParts) {
    let mut checked = Checked::new();
    let mut passes = LeaderPasses::new(&parts.store, POLL_INTERVAL);
    loop {
        passes.due().await;
        pass(parts, &mut checked).await;
    }
}

/// Makes all changes that are due. A failed one is repeated by the next pass.
pub(crate) async fn pass(parts: &DeliveryParts, checked: &mut Checked) {
    let changes = due(&parts.store.view(), checked);
    for change in changes {
        let done = match &change {
            ToolChange::Write(cluster) => write(parts, cluster).await,
            ToolChange::Delete(bundle) => delete(parts, bundle).await,
        };
        match done {
            Ok(()) => info!(?change, "bundle of a GitOps tool changed"),
            Err(failure) => {
                let (code, next) = (failure.code, failure.code.next_step());
                warn!(?change, %code, cause = %failure, next, "bundle of a GitOps tool not changed");
            }
        }
    }
}

fn due(view: &View, checked: &mut Checked) -> Vec<ToolChange> {
    let mut written = Vec::new();
    for record in view.clusters() {
        let cluster = &record.value;
        let versions = Versions::of(view, record);
        if checked.get(&cluster.id) == Some(&versions) {
            continue;
        }
        match installation(view, cluster) {
            Some(due) if !is_current(view, cluster, &due) => {
                written.push(ToolChange::Write(cluster.id.clone()));
            }
            _ => {
                checked.insert(cluster.id.clone(), versions);
            }
        }
    }
    checked.retain(|id, _| view.cluster(id).is_some());
    let bundles = view.bundles().map(|it| &it.value);
    let ended = bundles.filter(|bundle| {
        let origin = bundle.tool.as_ref();
        origin.is_some_and(|origin| {
            let cluster = view.cluster(&origin.cluster);
            cluster.is_none_or(|it| installation(view, &it.value).is_none())
        })
    });
    let ended = ended.map(|it| ToolChange::Delete(it.id.clone()));
    written.into_iter().chain(ended).collect()
}

/// Desired tool of a cluster with the template of its tenant.
#[must_use]
pub fn desired_tool(view: &View, cluster: &Cluster) -> Option<DesiredTool> {
    let of_all = template_of(view, &cluster.tenant).and_then(|it| it.agent.gitops.as_ref());
    DesiredTool::over(cluster.agent.gitops.as_ref(), of_all)
}

/// URL of the catalog's repository, of the cluster or of its tenant's template.
#[must_use]
pub fn catalog_url<'a>(view: &'a View, cluster: &'a Cluster) -> Option<&'a str> {
    Effective::of(cluster, template_of(view, &cluster.tenant)).repo_url()
}

/// The installation that the settings and the agent's report ask for.
fn installation(view: &View, cluster: &Cluster) -> Option<Due> {
    let desired = desired_tool(view, cluster)?;
    let url = catalog_url(view, cluster)?.to_owned();
    let known = HubBundle::Tool.id_of(&cluster.id).ok()?;
    let known = view.bundle(&known).and_then(|it| it.value.tool.as_ref());
    let has_controllers = known.is_some_and(|it| it.with_controllers);
    let found = found(cluster, desired.tool);
    let with_controllers = match &found {
        Some(found) if found.state == FoundState::Foreign && !has_controllers => {
            // Nothing is changed before the agent has saved it.
            if !desired.adopt || !found.saved {
                return None;
            }
            false
        }
        Some(_) => true,
        None => known?.with_controllers,
    };
    let inputs = Inputs {
        renderer: RENDERER_VERSION,
        desired: &desired,
        url: &url,
        with_controllers,
        embedded: embedded_version(desired.tool),
    };
    let origin = ToolOrigin {
        cluster: cluster.id.clone(),
        inputs: hex::hash_of(&inputs),
        with_controllers,
    };
    Some(Due {
        desired,
        url,
        origin,
    })
}

/// True if the agent has found a tool of others in the cluster.
#[must_use]
pub fn is_tool_of_others(cluster: &Cluster, tool: GitOpsTool) -> bool {
    found(cluster, tool).is_some_and(|it| it.state == FoundState::Foreign)
}

/// The agent's report about this tool in the cluster.
fn found(cluster: &Cluster, wanted: GitOpsTool) -> Option<FoundTool> {
    let fact = &cluster.dynamic_facts.get("gitops")?.value;
    let tool = fact.get("tool").and_then(Value::as_str);
    let found = fact.get(FoundTool::FIELD)?.clone();
    let found: FoundTool = serde_json::from_value(found).ok()?;
    (tool == Some(wanted.as_str())).then_some(found)
}

fn is_current(view: &View, cluster: &Cluster, due: &Due) -> bool {
    let bundle = HubBundle::Tool.id_of(&cluster.id).ok();
    let bundle = bundle.and_then(|id| view.bundle(&id)).map(|it| &it.value);
    bundle.is_some_and(|it| it.tenant == cluster.tenant && it.tool.as_ref() == Some(&due.origin))
}

async fn write(parts: &DeliveryParts, cluster: &ClusterId) -> Result<(), Failure> {
    let view = parts.store.view();
    let due = view
        .cluster(cluster)
        .and_then(|it| installation(&view, &it.value));
    let Some(due) = due else {
        return Ok(());
    };
    let packed = parts.artifacts.pack_files(vec![FileEntry {
        path: FILE_NAME.to_owned(),
        mode: 0o100_644,
        content: content(parts, &due)?,
    }])?;
    let now = parts.clock.now();
    let artifact = parts.artifacts.store(packed, millis(now)).await?.id;
    let facts = parts.artifacts.facts(&artifact).await?;
    let fields = fields_of(cluster, &due);
    let options = GenerationOptions {
        fields: fields.clone(),
        used: facts.used.clone(),
        has_chart: false,
    };
    let options = parts
        .generations
        .store_options(&options, millis(now))
        .await?;
    let generation = Generation {
        number: 0,
        artifact,
        options,
        at: now,
        by: format!("settings of {}", due.desired.tool.as_str()),
    };
    let id = HubBundle::Tool.id_of(cluster);
    let id = id.map_err(|error| Failure::because(Code::Internal, error))?;
    let decide = move |draft: &mut Draft| put(draft, &id, &due, &fields, &generation);
    parts.store.change(Actor::Hub, decide).await?;
    Ok(())
}

/// Documents of JSON, which is YAML.
fn content(parts: &DeliveryParts, due: &Due) -> Result<Vec<u8>, Failure> {
    let unusable = |error: String| Failure::with_cause(Code::GitOpsManifestUnusable, error);
    let manifest = parts.tools.load(&due.desired);
    let manifest = manifest.map_err(|error| unusable(error.to_string()))?;
    let installation = Installation {
        desired: &due.desired,
        url: &due.url,
        with_controllers: due.origin.with_controllers,
    };
    let objects = render(&installation, &manifest).map_err(|error| match error {
        RenderError::Keys(_) => Failure::because(Code::GitOpsKeysUnusable, error),
        RenderError::Tool => unusable(error.to_string()),
    })?;
    let documents = objects.iter().map(|it| format!("{it}\n"));
    Ok(documents.collect::<String>().into_bytes())
}

fn fields_of(cluster: &ClusterId, due: &Due) -> BundleFields {
    BundleFields {
        namespace: namespace(due.desired.tool).map(str::to_owned),
        service_account: Some(INSTALLER.to_owned()),
        drift: match due.origin.with_controllers {
            true => TOOL_DRIFT,
            false => ADOPTED_DRIFT,
        },
        // The source of an adopted tool belongs to another manager, and a tool that manages itself owns its own fields.
        conflicts: ConflictPolicy::Force,
        // The end of a definition would be the end of all its objects.
        prune: Some(false),
        timeout: Some(TimeSpan(READY_TIMEOUT)),
        ..hub_bundles::fields_of(cluster)
    }
}

/// Writes the bundle, unless its inputs have changed since they were read.
fn put(
    draft: &mut Draft,
    id: &BundleId,
    due: &Due,
    fields: &BundleFields,
    generation: &Generation,
) -> Result<(), StoreError> {
    let Some(cluster) = draft
        .cluster(&due.origin.cluster)
        .map(|it| it.value.clone())
    else {
        return Ok(());
    };
    let now = installation(draft, &cluster);
    if now.is_none_or(|it| it.origin != due.origin) {
        return Ok(());
    }
    let known = draft.bundle(id).map(|it| it.value.clone());
    if known.as_ref().is_some_and(|it| it.tool.is_none()) {
        return Err(StoreError::Conflict);
    }
    let new = || BundleRecord::new(id.clone(), cluster.tenant.clone(), fields.clone());
    let mut bundle = known.unwrap_or_else(new);
    let has_moved = bundle.tenant != cluster.tenant;
    hub_bundles::push(&mut bundle, has_moved, generation);
    bundle.fields = fields.clone();
    bundle.tenant = cluster.tenant;
    bundle.tool = Some(due.origin.clone());
    draft.put_bundle(bundle)
}

async fn delete(parts: &DeliveryParts, bundle: &BundleId) -> Result<(), Failure> {
    let id = bundle.clone();
    let decide = move |draft: &mut Draft| {
        let is_due = due(draft, &mut Checked::new()).contains(&ToolChange::Delete(id.clone()));
        match is_due {
            true => draft.delete_bundle(&id),
            false => Ok(()),
        }
    };
    parts.store.change(Actor::Hub, decide).await?;
    Ok(())
}
