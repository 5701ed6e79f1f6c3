//! New upgrades: checks version and image, selects clusters, forms the waves.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, Code, Failure, Selector,
    resources::{AgentUpgradeState, ClusterUpgradeState, CreateAgentUpgrade},
    upgrade::UPGRADE_TIMEOUT,
};
use fairlead_registry::{
    RegistryError, allow_in, allow_somewhere, has_labels, sees_cluster, visible,
};
use fairlead_routes::{Right, invalid};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft, View,
    model::{FleetUpgrade, UpgradeProgress, hex},
    random,
};
use time::OffsetDateTime;

use super::{UpgradeParts, driver::is_connected, version, waves};

/// Maximum number of clusters in one upgrade.
const MAX_CLUSTERS: usize = 10_000;
/// Maximum number of ended upgrades that are kept.
const MAX_ENDED: usize = 50;
const MIN_TIMEOUT_SECONDS: u32 = 10;
const MAX_TIMEOUT_SECONDS: u32 = 3600;
const MAX_IMAGE_BYTES: usize = 512;

/// Clusters of a new upgrade, each with its connection.
type Selected = Vec<(ClusterId, bool)>;

/// A new upgrade, checked.
pub(super) fn prepared(
    parts: &UpgradeParts,
    caller: &Caller,
    asked: &CreateAgentUpgrade,
) -> Result<FleetUpgrade, RegistryError> {
    let view = parts.store.view();
    let selected = select(parts, &view, caller, asked)?;
    version::check(&parts.version, &asked.version)?;
    let image = image(parts, asked)?;
    let timeout_seconds = timeout(asked.timeout_seconds)?;
    let suffix: [u8; 8] = random::bytes()?;
    let now = parts.now();
    let connected = selected.iter().filter(|(_, connected)| *connected);
    let connected: Vec<ClusterId> = connected.map(|(id, _)| id.clone()).collect();
    let (state, finished) = match connected.is_empty() {
        true => (AgentUpgradeState::Done, Some(now)),
        false => (AgentUpgradeState::Running, None),
    };
    Ok(FleetUpgrade {
        id: format!("au-{}", hex::encode(&suffix)),
        version: asked.version.clone(),
        image,
        selector: asked.selector.clone(),
        state,
        reason: None,
        timeout_seconds,
        max_failed: asked.max_failed.unwrap_or(0),
        created: now,
        created_by: caller.name.clone(),
        finished,
        waves: waves::cut(&connected),
        clusters: progress(selected, now),
    })
}

fn progress(selected: Selected, now: OffsetDateTime) -> BTreeMap<ClusterId, UpgradeProgress> {
    let start = |connected: bool| match connected {
        true => UpgradeProgress::new(ClusterUpgradeState::Waiting, None),
        false => UpgradeProgress {
            finished: Some(now),
            ..UpgradeProgress::new(
                ClusterUpgradeState::Skipped,
                Some("no agent was connected at the start".to_owned()),
            )
        },
    };
    let selected = selected.into_iter();
    selected
        .map(|(id, connected)| (id, start(connected)))
        .collect()
}

/// Selects the clusters, in the order of the request or of their ids, and checks the right on each of them.
fn select(
    parts: &UpgradeParts,
    view: &View,
    caller: &Caller,
    asked: &CreateAgentUpgrade,
) -> Result<Selected, RegistryError> {
    let found = match (&asked.selector, asked.clusters.as_slice()) {
        (Some(_), [_, ..]) => {
            return Err(invalid("clusters and selector: give one of them").into());
        }
        (None, []) => return Err(invalid("clusters or selector: one is needed").into()),
        (Some(selector), []) => {
            allow_somewhere(caller, Right::WRITE_CLUSTER)?;
            matching(view, caller, selector)
        }
        (None, ids) => {
            let mut known = BTreeSet::new();
            let unique = ids.iter().filter(|id| known.insert(*id));
            unique.cloned().collect()
        }
    };
    if found.is_empty() {
        return Err(invalid("selector: no visible cluster matches").into());
    }
    if found.len() > MAX_CLUSTERS {
        let cause = format_args!("clusters: {MAX_CLUSTERS} at most; select fewer");
        return Err(invalid(cause).into());
    }
    let mut selected = Vec::with_capacity(found.len());
    for id in found {
        let cluster = visible(view, caller, id.as_str())?;
        allow_in(view, caller, &cluster.value, Right::WRITE_CLUSTER)?;
        let state = parts.store.observed_of(&cluster).status.state;
        selected.push((id, is_connected(state)));
    }
    Ok(selected)
}

fn matching(view: &View, caller: &Caller, selector: &Selector) -> Vec<ClusterId> {
    let seen = view
        .clusters()
        .filter(|it| sees_cluster(view, caller, &it.value));
    let matching = seen.filter(|it| has_labels(view, &it.value, selector));
    matching.map(|it| it.value.id.clone()).collect()
}

fn image(parts: &UpgradeParts, asked: &CreateAgentUpgrade) -> Result<String, RegistryError> {
    let Some(image) = &asked.image else {
        let image = version::image_of(&parts.version, &parts.image, &asked.version)?;
        return Ok(image);
    };
    let is_good = (1..=MAX_IMAGE_BYTES).contains(&image.len())
        && image.bytes().all(|byte| byte.is_ascii_graphic());
    match is_good {
        true => Ok(image.clone()),
        false => Err(invalid("image: expected a name like registry.example/fairlead:0.1.0").into()),
    }
}

fn timeout(asked: Option<u32>) -> Result<u32, RegistryError> {
    let default = u32::try_from(UPGRADE_TIMEOUT.as_secs()).unwrap_or(u32::MAX);
    let seconds = asked.unwrap_or(default);
    if !(MIN_TIMEOUT_SECONDS..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        let cause =
            format_args!("timeoutSeconds: expected {MIN_TIMEOUT_SECONDS} to {MAX_TIMEOUT_SECONDS}");
        return Err(invalid(cause).into());
    }
    Ok(seconds)
}

/// Stores a new upgrade, and removes the oldest ended ones.
///
/// # Errors
/// `FL-4181` if one of its clusters is in another upgrade.
pub(super) fn put(draft: &mut Draft, upgrade: &FleetUpgrade) -> Result<(), RegistryError> {
    let others = draft.fleet_upgrades().map(|it| &it.value);
    let others = others.filter(|it| it.is_active());
    for other in others {
        let ids = upgrade.waves.iter().flatten();
        if let Some(id) = ids.clone().find(|id| other.occupies(id)) {
            let cause = format_args!("{id} is in {}", other.id);
            return Err(Failure::because(Code::UpgradeBusy, cause).into());
        }
    }
    let ended = draft.fleet_upgrades().map(|it| &it.value);
    let ended = ended.filter(|it| !it.is_active());
    let mut ended: Vec<_> = ended.map(|it| (it.created, it.id.clone())).collect();
    ended.sort();
    let excess = (ended.len() + 1).saturating_sub(MAX_ENDED);
    for (_, id) in ended.into_iter().take(excess) {
        draft.delete_fleet_upgrade(&id)?;
    }
    draft.put_fleet_upgrade(upgrade.clone());
    Ok(())
}

/// Failure of an unknown or hidden upgrade.
pub(super) fn missing(id: &str) -> Failure {
    Failure::because(
        Code::NoSuchUpgrade,
        format_args!("no upgrade has the id {id:?}"),
    )
}
