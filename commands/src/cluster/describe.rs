//! `fairlead cluster describe`: one cluster with its status, sessions, facts, configuration and last changes.

use fairlead_api::{
    ClusterId, Code, Failure,
    config::AgentConfigStatus,
    facts::ClusterFact,
    resources::{AgentSession, BootstrapToken, Cluster, ClusterState, List},
};
use fairlead_client::{HubClient, HubError, lookup::find};
use serde::de::DeserializeOwned;

use super::views;
use crate::{
    describe::{Changed, ClusterDescription, at, changes, describe_changes, other_fields},
    facts, output,
};

pub(super) async fn run(hub: &HubClient, name: &str) -> Result<(), Failure> {
    let cluster = find(hub, name).await?;
    let id = &cluster.id;
    let path = |of: &str| format!("/v1/clusters/{id}/{of}");
    let sessions: List<AgentSession> = hub.get(&path("sessions")).await?;
    let facts: List<ClusterFact> = hub.get(&path("facts")).await?;
    let configured: Option<List<AgentConfigStatus>> = allowed(hub, "agents", id).await?;
    let tokens: Option<List<BootstrapToken>> = allowed(hub, "bootstrap-tokens", id).await?;
    let last = changes(hub, Changed::Cluster(id.as_str())).await?;

    let mut it = ClusterDescription::default();
    it.fields(0, identity(&cluster));
    it.heading("Status");
    it.fields(2, status(&cluster));
    let configured = configured.and_then(|it| it.items.into_iter().find(|it| it.cluster == *id));
    let token = tokens.and_then(|it| it.items.into_iter().find(|it| it.cluster == *id));
    it.fields(
        0,
        [
            ("Configuration", configured.as_ref().map(configuration)),
            ("Bootstrap token", token.as_ref().map(bootstrap)),
        ],
    );
    let other = other_fields(&cluster);
    if !other.is_empty() {
        it.heading("Fields");
        let fields = other
            .iter()
            .map(|(name, it)| (name.as_str(), Some(it.clone())));
        it.fields(2, fields);
    }
    let rows = sessions.items.iter().map(views::session_cells).collect();
    it.table("Agent sessions", &views::session_columns(), rows);
    let rows = facts.items.iter().map(facts::cells).collect();
    it.table("Facts", &facts::columns(), rows);
    describe_changes(&mut it, last.as_deref());
    Ok(it.print()?)
}

/// List about this cluster; `None` if the caller may not read it.
async fn allowed<T: DeserializeOwned>(
    hub: &HubClient,
    list: &str,
    id: &ClusterId,
) -> Result<Option<T>, HubError> {
    match hub.get(&format!("/v1/{list}?text={id}")).await {
        Ok(found) => Ok(Some(found)),
        Err(HubError::NotAllowed(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity(cluster: &Cluster) -> [(&'static str, Option<String>); 5] {
    [
        ("Name", Some(cluster.display_name.clone())),
        ("ID", Some(cluster.id.to_string())),
        ("Tenant", Some(cluster.tenant.to_string())),
        ("Created", Some(at(cluster.created))),
        ("UID", cluster.uid.as_ref().map(ToString::to_string)),
    ]
}

fn status(cluster: &Cluster) -> Vec<(&'static str, Option<String>)> {
    let status = &cluster.status;
    let state = format!("{} since {}", status.state, at(status.since));
    let connected = status.state == ClusterState::Connected;
    let error = status.last_error.as_ref().filter(|_| !connected);
    let of_error = error.map(|error| error.code);
    let next = match status.state {
        ClusterState::Connected => None,
        ClusterState::Never => Some(of_error.unwrap_or(Code::NeverConnected).next_step()),
        ClusterState::ApiUnreachable => Some(of_error.unwrap_or(Code::ApiUnreachable).next_step()),
        ClusterState::Lost => Some(status.next_step_if_lost()),
    };
    let mut fields = vec![
        ("State", Some(state)),
        ("Last seen", status.last_seen.map(at)),
        ("Last good probe", status.last_good_probe.map(at)),
        ("Hub", status.hub.as_ref().map(ToString::to_string)),
        (
            "Error",
            error.map(|error| format!("{} ({})", error.cause, error.code)),
        ),
        ("Next", next.map(str::to_owned)),
    ];
    if let Some(clone) = &cluster.clone {
        let code = Code::IdentityCloned;
        let text = format!(
            "refused at {}, from {}; its kube-system has the UID {} ({code})",
            at(clone.last_seen),
            clone.from,
            clone.uid
        );
        fields.push(("Clone", Some(text)));
        fields.push(("Next", Some(code.next_step().to_owned())));
    }
    fields
}

fn configuration(configured: &AgentConfigStatus) -> String {
    let desired = &configured.desired;
    match &configured.applied {
        None => format!("not applied yet; {desired} is desired"),
        Some(applied) if configured.outdated => {
            format!("outdated: the agent applies {applied}, {desired} is desired")
        }
        Some(applied) => format!("applied ({applied})"),
    }
}

fn bootstrap(token: &BootstrapToken) -> String {
    let state = format!("{:?}", token.state).to_lowercase();
    format!("{state}, valid until {}", output::time(token.expires))
}
