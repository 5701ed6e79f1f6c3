//! Clusters in tables.

use std::collections::BTreeSet;

use fairlead_api::{
    ClusterId, Code, Failure,
    config::Configured,
    resources::{Cluster, List, State},
};

use serde_json::Value;

use crate::{hub_client::HubClient, output, watch::Row};

pub(super) const HEADER: [&str; 7] = [
    "ID",
    "NAME",
    "TENANT",
    "STATE",
    "SINCE",
    "CONFIG",
    "LAST ERROR",
];

/// Clusters whose agents work by an older configuration than they should.
pub(super) async fn lagging(hub: &HubClient) -> Result<BTreeSet<ClusterId>, Failure> {
    let all: List<Configured> = hub.get("/v1/agents").await?;
    let lagging = all.items.into_iter().filter(|it| it.lags);
    Ok(lagging.map(|it| it.cluster).collect())
}

pub(super) fn row(cluster: &Cluster, lagging: &BTreeSet<ClusterId>) -> Row<7> {
    Row {
        id: cluster.id.to_string(),
        cells: cells(cluster, lagging),
        value: serde_json::to_value(cluster).unwrap_or_default(),
    }
}

pub(super) fn table(clusters: &[Cluster], lagging: &BTreeSet<ClusterId>) -> String {
    output::table(HEADER, clusters.iter().map(|it| cells(it, lagging)))
}

fn cells(c: &Cluster, lagging: &BTreeSet<ClusterId>) -> [String; 7] {
    let error = c
        .status
        .last_error
        .as_ref()
        .filter(|_| c.status.state != State::Connected);
    [
        c.id.to_string(),
        c.display_name.clone(),
        c.tenant.to_string(),
        c.status.state.to_string(),
        output::time(c.status.since),
        if lagging.contains(&c.id) { "lags" } else { "" }.to_owned(),
        match (error, &c.clone) {
            (Some(e), _) => format!("{}: {}", e.code, e.cause),
            (None, Some(clone)) => format!(
                "{}: a clone was refused, last seen {}",
                Code::IdentityCloned,
                output::time(clone.last_seen)
            ),
            (None, None) => String::new(),
        },
    ]
}

/// Which of several hubs has it.
pub(super) fn place_line(cluster: &Cluster) -> String {
    let hub = cluster.status.hub.as_ref();
    hub.map_or(String::new(), |hub| format!("\nhub:   {hub}\n"))
}

/// Why its Git repository is not as it is wanted, where its server says so.
pub(super) fn repository_line(cluster: &Cluster) -> String {
    let state = cluster.more.get("gitRepo").map(|repo| &repo["state"]);
    let text = |state: &Value, name: &str| state[name].as_str().unwrap_or_default().to_owned();
    match state.filter(|state| state["phase"] == "failed") {
        Some(state) => format!(
            "\nrepository: failed since {}: {}\n",
            text(state, "since"),
            text(state, "reason")
        ),
        None => String::new(),
    }
}

/// Who has the cluster's identity and should not, and what to do about it.
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
    fn a_repository_that_its_server_will_not_have_is_told_with_the_reason() {
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
