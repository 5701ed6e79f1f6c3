//! Plans for people: the clusters of a change by target, and each cluster that loses or cannot get the bundle.

use std::{collections::BTreeSet, fmt::Write as _};

use fairlead_api::{
    ClusterId, Code, Failure,
    delivery::{Bundle, Plan, Share, UntargetPolicy, Wave},
    resources::{ClusterState, ClusterStatusUpdate},
};
use fairlead_client::HubClient;
use serde::Serialize;

/// Number of clusters that a plan names in one list.
const SHOWN_CLUSTERS: usize = 20;

/// Connected clusters that the caller sees.
pub(super) async fn connected(hub: &HubClient) -> Result<BTreeSet<ClusterId>, Failure> {
    let update: ClusterStatusUpdate = hub.get("/v1/status").await?;
    let items = update.items.into_iter();
    let connected = items.filter(|it| it.status.state == ClusterState::Connected);
    Ok(connected.map(|it| it.id).collect())
}

/// Plan of a changed bundle.
pub(super) async fn of<B: Serialize>(hub: &HubClient, id: &str, body: &B) -> Result<Plan, Failure> {
    Ok(hub.post(&format!("/v1/bundles/{id}/plan"), body).await?)
}

/// Lines about targets, waves and clusters.
pub(super) fn text(bundle: &Bundle, plan: &Plan, connected: &BTreeSet<ClusterId>) -> String {
    let mut out = String::new();
    let names = plan.targets.iter().enumerate().map(|(index, target)| {
        let selector = bundle
            .fields
            .targets
            .get(index)
            .and_then(|it| it.selector.as_ref());
        let selector = selector.map(|it| format!("`{it}`"));
        let name = target.name.clone().or(selector);
        (name.unwrap_or_else(|| format!("{}", index + 1)), target)
    });
    for (name, target) in names {
        let skip = if target.skip {
            ", which do not get it"
        } else {
            ""
        };
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  target {name}: {}{skip}", clusters(target.clusters));
    }
    let rollout = bundle.fields.rollout.as_ref();
    match rollout.map(|it| it.waves.as_slice()) {
        None | Some([]) => {
            out += "  waves: one connected cluster, then 25% at a time; halts above 10% failures\n";
        }
        Some(waves) => out.extend(waves.iter().map(wave)),
    }
    let _ = writeln!(
        out,
        "  {} added, {} changed, {} removed, {} blocked, {} unchanged",
        plan.added.len(),
        plan.changed.len(),
        plan.removed.len(),
        plan.blocked.len(),
        plan.unchanged
    );
    let released = plan.added.iter().chain(&plan.changed);
    match released.filter(|it| !connected.contains(it)).count() {
        0 => {}
        offline => {
            let _ = writeln!(
                out,
                "  {offline} of them offline; they get it when they return"
            );
        }
    }
    for blocked in plan.blocked.iter().take(SHOWN_CLUSTERS) {
        let _ = writeln!(
            out,
            "  blocked {}: {}",
            blocked.cluster,
            blocked.reasons.join("; ")
        );
    }
    out += &more(plan.blocked.len());
    if !plan.removed.is_empty() {
        let objects = match bundle.fields.on_untarget {
            UntargetPolicy::Keep => "their objects stay",
            UntargetPolicy::Remove => "THEIR OBJECTS ARE DELETED",
        };
        let _ = writeln!(out, "  removed ({objects}): {}", listed(&plan.removed));
    }
    out
}

/// Names of the first clusters.
pub(super) fn listed(ids: &[ClusterId]) -> String {
    let shown = ids.iter().take(SHOWN_CLUSTERS).map(ToString::to_string);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ids.len() > SHOWN_CLUSTERS {
        // Writing into a text cannot fail.
        let _ = write!(text, " and {} more", ids.len() - SHOWN_CLUSTERS);
    }
    text
}

fn more(count: usize) -> String {
    match count.saturating_sub(SHOWN_CLUSTERS) {
        0 => String::new(),
        more => {
            format!("  and {more} more blocked; `-o json` of `fairlead bundle plan` lists all\n")
        }
    }
}

fn clusters(count: u32) -> String {
    match count {
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    }
}

fn wave(wave: &Wave) -> String {
    let size = match (wave.count, wave.percent, &wave.selector) {
        (Some(count), _, _) => clusters(count),
        (_, Some(percent), _) => format!("{percent}% of the clusters"),
        (_, _, Some(selector)) => format!("clusters with `{selector}`"),
        _ if !wave.groups.is_empty() => {
            let groups: Vec<_> = wave.groups.iter().map(ToString::to_string).collect();
            format!("clusters of {}", groups.join(", "))
        }
        _ => "all others".to_owned(),
    };
    let at_once = wave.max_unavailable.unwrap_or(Share::Percent(25));
    let failures = wave.max_failures.unwrap_or(Share::Percent(10));
    let soak = wave.soak.filter(|it| !it.0.is_zero());
    let soak = soak.map_or(String::new(), |it| format!(", then {it} of health"));
    format!(
        "  wave {}: {size}, {at_once} at a time{soak}; halts above {failures} failures\n",
        wave.name
    )
}

/// Question before a change, with all that it takes away.
pub(super) fn question(bundle: &Bundle, plan: &Plan) -> String {
    match (plan.removed.len(), bundle.fields.on_untarget) {
        (0, _) => "Continue?".to_owned(),
        (count, UntargetPolicy::Keep) => {
            let count = clusters(u32::try_from(count).unwrap_or(u32::MAX));
            format!(
                "This takes {} from {count}; its objects there stay. Continue?",
                bundle.id
            )
        }
        (count, UntargetPolicy::Remove) => {
            let count = clusters(u32::try_from(count).unwrap_or(u32::MAX));
            format!(
                "This takes {} from {count}, and DELETES its objects there. Continue?",
                bundle.id
            )
        }
    }
}

/// First connected cluster whose objects change.
///
/// # Errors
/// `FL-1402` if no such cluster is connected.
pub(super) fn example(plan: &Plan, connected: &BTreeSet<ClusterId>) -> Result<ClusterId, Failure> {
    let mut released = plan.changed.iter().chain(&plan.added);
    let found = released.find(|it| connected.contains(it)).cloned();
    found.ok_or_else(|| {
        let cause = "no cluster of the plan is connected, so there is nothing to compare with";
        Failure::with_cause(Code::Lost, cause).next("Omit `--diff`, or wait for a cluster.")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plan_names_targets_waves_and_each_cluster_that_loses_the_bundle() {
        let bundle: Bundle = serde_json::from_value(json!({
            "id": "b-shop", "tenant": "t-a", "onUntarget": "remove",
            "targets": [{ "name": "edge", "selector": "site=edge" }, { "selector": "env=prod" }, { "clusters": ["c-x"], "skip": true }],
            "rollout": { "waves": [
                { "name": "canary", "count": 1, "soak": "2m" },
                { "name": "south", "groups": ["g-south"], "maxUnavailable": 3, "maxFailures": 0 },
                { "name": "rest" },
            ] },
        }))
        .unwrap();
        let plan: Plan = serde_json::from_value(json!({
            "targets": [{ "name": "edge", "clusters": 1 }, { "clusters": 2 }, { "skip": true, "clusters": 1 }],
            "added": ["c-a", "c-b"], "changed": ["c-c"], "removed": ["c-d"],
            "blocked": [{ "cluster": "c-e", "reasons": ["${vars.x} has no value"] }], "unchanged": 4,
        }))
        .unwrap();
        let connected = BTreeSet::from(["c-b".parse().unwrap()]);
        assert_eq!(
            text(&bundle, &plan, &connected),
            "  target edge: 1 cluster\n\
             \x20 target `env=prod`: 2 clusters\n\
             \x20 target 3: 1 cluster, which do not get it\n\
             \x20 wave canary: 1 cluster, 25% at a time, then 2m of health; halts above 10% failures\n\
             \x20 wave south: clusters of g-south, 3 at a time; halts above 0 failures\n\
             \x20 wave rest: all others, 25% at a time; halts above 10% failures\n\
             \x20 2 added, 1 changed, 1 removed, 1 blocked, 4 unchanged\n\
             \x20 2 of them offline; they get it when they return\n\
             \x20 blocked c-e: ${vars.x} has no value\n\
             \x20 removed (THEIR OBJECTS ARE DELETED): c-d\n"
        );
        assert!(question(&bundle, &plan).contains("takes b-shop from 1 cluster, and DELETES"));
        assert_eq!(example(&plan, &connected).unwrap().as_str(), "c-b");
        assert!(example(&plan, &BTreeSet::new()).is_err());
    }

    #[test]
    fn long_lists_of_clusters_are_cut() {
        let ids: Vec<ClusterId> = (0..23)
            .map(|it| format!("c-{it}").parse().unwrap())
            .collect();
        let text = listed(&ids);
        assert!(
            text.starts_with("c-0, c-1, ") && text.ends_with("c-19 and 3 more"),
            "{text}"
        );
    }
}
