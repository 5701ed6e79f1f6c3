//! Columns and lines for clusters in tables.

use fairlead_api::{
    Code,
    resources::{Cluster, ClusterState, RepoPhase},
};
use serde_json::Value;

use super::agent_columns::AgentColumns;
use crate::{
    output::{self, Cell, TableColumn},
    watch::Row,
};

pub(super) fn columns() -> [TableColumn; 13] {
    [
        TableColumn::id("NAME").spare(3),
        TableColumn::key("ID"),
        TableColumn::id("TENANT").spare(2),
        TableColumn::word("STATE"),
        TableColumn::word("SINCE").spare(5),
        TableColumn::word("AGE").spare(1),
        TableColumn::word("KUBERNETES").wide(),
        TableColumn::word("AGENT").wide(),
        TableColumn::word("REPLICAS").wide(),
        TableColumn::word("RTT").wide(),
        TableColumn::word("LAST SEEN").wide(),
        TableColumn::word("CONFIG").wide(),
        TableColumn::text("LAST ERROR").spare(4),
    ]
}

pub(super) fn row(cluster: &Cluster, agents: &AgentColumns) -> Row<13> {
    Row {
        id: cluster.id.to_string(),
        cells: cells(cluster, agents),
        value: serde_json::to_value(cluster).unwrap_or_default(),
    }
}

pub(super) fn cells(c: &Cluster, agents: &AgentColumns) -> [Cell; 13] {
    [
        c.display_name.clone().into(),
        c.id.to_string().into(),
        c.tenant.to_string().into(),
        c.status.state.to_string().into(),
        Cell::Since(c.status.since),
        Cell::Since(c.created),
        kubernetes_version(c).into(),
        agents.versions(&c.id).into(),
        agents.replicas(&c.id).into(),
        agents.rtt(&c.id).into(),
        Cell::since(c.status.last_seen),
        agents.configuration(&c.id).into(),
        last_error(c).into(),
    ]
}

/// Version of Kubernetes, as reported by the agent.
fn kubernetes_version(c: &Cluster) -> Option<String> {
    let version = c.dynamic_facts.get("kubernetesVersion")?;
    let text = |name: &str| version.get(name).and_then(Value::as_str);
    let short = || Some(format!("{}.{}", text("major")?, text("minor")?));
    text("gitVersion").map(str::to_owned).or_else(short)
}

/// Last error of a disconnected cluster, or of a refused clone.
fn last_error(c: &Cluster) -> Option<String> {
    let error = c.status.last_error.as_ref();
    let error = error.filter(|_| c.status.state != ClusterState::Connected);
    match (error, &c.clone) {
        (Some(e), _) => Some(format!("{}: {}", e.code, e.cause)),
        (None, Some(clone)) => {
            let seen = output::time(clone.last_seen);
            let code = Code::IdentityCloned;
            Some(format!("{code}: a clone was refused, last seen {seen}"))
        }
        (None, None) => None,
    }
}

/// Line with the hub that has the best session, if there are several hubs.
pub(super) fn place_line(cluster: &Cluster) -> String {
    let hub = cluster.status.hub.as_ref();
    hub.map_or(String::new(), |hub| format!("\nhub:   {hub}\n"))
}

/// Line with the reason for which the Git repository is not in its desired state.
pub(super) fn repository_line(cluster: &Cluster) -> String {
    let repository = cluster.fields.git_repo.as_ref();
    let state = repository.and_then(|it| it.state.as_ref());
    match state.filter(|state| state.phase == RepoPhase::Failed) {
        Some(state) => format!(
            "\nrepository: failed since {}: {}\n",
            state.since.map(output::time).unwrap_or_default(),
            state.reason.as_deref().unwrap_or_default()
        ),
        None => String::new(),
    }
}

/// Line about a clone that uses the cluster's identity, with the next step.
pub(super) fn clone_line(cluster: &Cluster) -> String {
    let Some(clone) = &cluster.clone else {
        return String::new();
    };
    let own = (cluster.uid.as_ref()).map_or(String::new(), |uid| format!(", this one's has {uid}"));
    format!(
        "\n{}: a clone was refused: last seen {}, from {}; its kube-system has the UID {}{own}\nnext:  {}\n",
        Code::IdentityCloned,
        output::time(clone.last_seen),
        clone.from,
        clone.uid,
        Code::IdentityCloned.next_step()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failed_repository_is_shown_with_the_reason() {
        let of = |state: Value| -> Cluster {
            let at = "2026-11-21T12:00:00Z";
            let status = json!({ "state": "Never", "since": at });
            serde_json::from_value(json!({
                "id": "c-a", "tenant": "t-a", "displayName": "a", "created": at, "version": 1,
                "status": status, "gitRepo": { "state": state },
            }))
            .unwrap()
        };
        let failed = json!({ "phase": "failed", "reason": "no such group", "since": "2026-11-22T12:00:00Z" });
        assert_eq!(
            repository_line(&of(failed)),
            "\nrepository: failed since 2026-11-22T12:00:00Z: no such group\n"
        );
        let unknown = json!({ "phase": "unknown", "reason": "nobody could tell" });
        assert_eq!(repository_line(&of(unknown)), "");
    }
}
