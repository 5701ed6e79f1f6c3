//! State of the components of clusters, from the facts of their agents: `fairlead cluster catalog status`, and the filter
//! `--out-of-sync` of `fairlead cluster list`.

use std::collections::BTreeSet;

use fairlead_api::{
    Code, Failure,
    facts::{ClusterFact, ClusterMatch, FIND_PATH},
    resources::List,
};
use fairlead_client::{HubClient, lookup::find};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    args,
    output::{self, Cell, OutputFormat, TableColumn},
};

const COMPONENTS: &str = "components";
const KEY: &str = "gitops";
/// States of a component that follows its source. `Suspended` is a choice of people.
const IN_SYNC: [&str; 2] = ["Synced", "Suspended"];
/// Clusters per page.
const PAGE_CLUSTERS: usize = 100;

/// Components of one cluster, and the state of its agent's SSH key.
#[derive(Debug, Serialize)]
struct CatalogStatus {
    /// State of the SSH key, with the problem of the last sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    gitops: Option<Value>,
    /// By `KIND/NAMESPACE/NAME`.
    components: Map<String, Value>,
}

pub(super) async fn status(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let id = find(hub, &asked.name).await?.id;
    let facts: List<ClusterFact> = hub.get(&format!("/v1/clusters/{id}/facts")).await?;
    let named = |name: &str| {
        let fact = facts.items.iter().find(|it| it.name == name);
        fact.map(|it| it.value.clone())
    };
    let components = match named(COMPONENTS) {
        Some(Value::Object(components)) => components,
        _ => Map::new(),
    };
    let gitops = named(KEY);
    if components.is_empty() && gitops.is_none() {
        let cause = format!("the agent of {id} has reported no component of Argo CD or Flux");
        let next = format!(
            "List the facts with `fairlead facts {id}`: `incomplete` names a missing right."
        );
        return Err(Failure::with_cause(Code::NotFound, cause).next(next));
    }
    let status = CatalogStatus { gitops, components };
    let names = |status: &CatalogStatus| {
        status
            .components
            .keys()
            .map(|it| format!("{it}\n"))
            .collect()
    };
    let format = &asked.output.output;
    Ok(output::show_named(format, &status, names, |status| {
        table(format, status)
    })?)
}

fn table(format: &OutputFormat, status: &CatalogStatus) -> String {
    let columns = [
        TableColumn::id("COMPONENT"),
        TableColumn::text("SYNCED"),
        TableColumn::text("WANTED"),
        TableColumn::word("SYNC"),
        TableColumn::word("HEALTH"),
        TableColumn::text("MESSAGE"),
    ];
    let rows = status.components.iter().map(|(name, component)| {
        let field = |name: &str| {
            let text = component.get(name).and_then(Value::as_str);
            Cell::from(text.unwrap_or_default().to_owned())
        };
        [
            Cell::from(name.clone()),
            field("version"),
            field("wanted"),
            field("sync"),
            field("health"),
            field("message"),
        ]
    });
    output::table(format, &columns, rows) + &problem_line(status)
}

/// Problem of key or last sync, below the table.
fn problem_line(status: &CatalogStatus) -> String {
    let field = |name: &str| status.gitops.as_ref()?.get(name)?.as_str();
    match (field("code"), field("cause")) {
        (Some(code), Some(cause)) => format!("{code}: {cause}\n"),
        _ => String::new(),
    }
}

/// Ids of the visible clusters with a component that is not in sync, or with a problem of the last sync.
pub(super) async fn out_of_sync(hub: &HubClient) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    for name in [COMPONENTS, KEY] {
        let mut next = Some(format!("{FIND_PATH}?fact={name}&limit={PAGE_CLUSTERS}"));
        while let Some(path) = next {
            let (page, behind): (List<ClusterMatch>, _) = hub.get_page(&path).await?;
            for cluster in page.items {
                if cluster.matches.iter().any(|it| differs(name, &it.value)) {
                    found.insert(cluster.id.to_string());
                }
            }
            next = behind;
        }
    }
    Ok(found)
}

fn differs(fact: &str, value: &Value) -> bool {
    if fact == KEY {
        return value.get("code").is_some();
    }
    let components = value.as_object().into_iter().flatten();
    let mut states = components.filter_map(|(_, it)| it.get("sync")?.as_str());
    states.any(|state| !IN_SYNC.contains(&state))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cluster_differs_by_one_component_or_by_its_key() {
        let synced = json!({ "Application/a/b": { "sync": "Synced" }, "HelmRelease/a/c": { "sync": "Suspended" } });
        assert!(!differs(COMPONENTS, &synced));
        let mut other = synced;
        other["Kustomization/a/d"] = json!({ "sync": "OutOfSync" });
        assert!(differs(COMPONENTS, &other));
        assert!(differs(
            KEY,
            &json!({ "state": "settled", "code": "FL-6805" })
        ));
        assert!(!differs(KEY, &json!({ "state": "settled" })));
    }

    #[test]
    fn table_shows_both_revisions_and_the_problem_of_the_key() {
        let components = json!({ "Kustomization/flux-system/flux-system": {
            "version": "main@sha1:a", "wanted": "main@sha1:b", "sync": "OutOfSync", "health": "Degraded", "message": "no such kind",
        } });
        let Value::Object(components) = components else {
            panic!("an object");
        };
        let gitops = json!({ "code": "FL-6805", "cause": "knownhosts: key mismatch" });
        let status = CatalogStatus {
            gitops: Some(gitops),
            components,
        };
        let shown = table(&OutputFormat::Wide, &status);
        for part in [
            "main@sha1:a",
            "main@sha1:b",
            "OutOfSync",
            "no such kind",
            "FL-6805: knownhosts: key mismatch",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}
