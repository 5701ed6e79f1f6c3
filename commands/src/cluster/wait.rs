//! Waiting for the state of a cluster; each step is a line on stderr.

use std::time::Duration;

use fairlead_api::{
    ClusterId, Code, Failure,
    resources::{Cluster, ClusterState, JoinInfo},
};
use fairlead_client::{HubClient, HubError, lookup::find};
use tokio::time::{Instant, sleep, timeout_at};

use crate::output;

const AWAITS_AGENT: &str = "waiting for the agent to enrol";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until each of these clusters is in this state.
///
/// # Errors
/// As [`one`].
pub(super) async fn all(
    hub: &HubClient,
    names: &[String],
    wanted: ClusterState,
    within: Duration,
) -> Result<(), Failure> {
    let deadline = Instant::now() + within;
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(find(hub, name).await?.id);
    }
    let label = |id: &ClusterId| match ids.len() {
        1 => String::new(),
        _ => format!("{id}: "),
    };
    for id in &ids {
        until(hub, id, wanted, deadline, &label(id)).await?;
    }
    Ok(())
}

/// Waits until a cluster is in this state.
///
/// # Errors
/// `FL-4113` after `within`, or as soon as no agent can enrol.
pub(super) async fn one(
    hub: &HubClient,
    id: &ClusterId,
    wanted: ClusterState,
    within: Duration,
) -> Result<(), Failure> {
    until(hub, id, wanted, Instant::now() + within, "").await
}

async fn until(
    hub: &HubClient,
    id: &ClusterId,
    wanted: ClusterState,
    deadline: Instant,
    label: &str,
) -> Result<(), Failure> {
    let mut last = String::new();
    loop {
        let now = timeout_at(deadline, look(hub, id, wanted)).await;
        let step = match now.map_err(|_| not_ready(id, &last))? {
            Ok(Seen::Reached(step)) => {
                output::note(&format!("{label}{step}"));
                return Ok(());
            }
            Ok(Seen::Waiting(step)) => step,
            Ok(Seen::Failed(failure)) => return Err(failure),
            // The hub may be restarting, so the wait continues; other errors are final.
            Err(HubError::Unreachable(failure)) => failure.cause,
            Err(error) => return Err(error.into()),
        };
        if step != last {
            output::note(&format!("{label}{step}"));
            last = step;
        }
        if Instant::now() >= deadline {
            return Err(not_ready(id, &last));
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn not_ready(id: &ClusterId, step: &str) -> Failure {
    Failure::because(Code::NotReady, format_args!("{id}: {step}"))
}

enum Seen {
    Reached(String),
    Waiting(String),
    /// The state cannot be reached any more.
    Failed(Failure),
}

async fn look(hub: &HubClient, id: &ClusterId, wanted: ClusterState) -> Result<Seen, HubError> {
    let cluster: Cluster = hub.get(&format!("/clusters/{id}")).await?;
    let state = cluster.status.state;
    if state == wanted {
        return Ok(Seen::Reached(match state {
            ClusterState::Connected => {
                "connected: the API server answers through the tunnel".to_owned()
            }
            other => format!("the cluster is {other}"),
        }));
    }
    let step = match state {
        ClusterState::Never if cannot_enrol(&cluster) => {
            return check_bootstrap_token(hub, &cluster).await;
        }
        _ => step(&cluster),
    };
    Ok(Seen::Waiting(step))
}

/// True if no agent has enrolled, and the cluster document shows no valid bootstrap token.
fn cannot_enrol(cluster: &Cluster) -> bool {
    !cluster.enrolled && cluster.install_url.is_none()
}

/// Checks the bootstrap token of a cluster that waits for its agent. Without a valid token the wait fails with `FL-4113`.
async fn check_bootstrap_token(hub: &HubClient, cluster: &Cluster) -> Result<Seen, HubError> {
    let path = format!("/v1/clusters/{}/bootstrap-token", cluster.id);
    match hub.get::<JoinInfo>(&path).await {
        // The token was renewed, or the caller may not read it.
        Ok(_) | Err(HubError::NotAllowed(_)) => Ok(Seen::Waiting(AWAITS_AGENT.to_owned())),
        Err(HubError::NotFound(failure)) => {
            let next = failure.next_step().to_owned();
            let not_ready = Failure::because(Code::NotReady, failure.cause);
            Ok(Seen::Failed(not_ready.next(next)))
        }
        Err(error) => Err(error),
    }
}

fn step(cluster: &Cluster) -> String {
    let error = cluster.status.last_error.as_ref();
    let why = error.map_or(String::new(), |e| format!(": {} ({})", e.cause, e.code));
    match cluster.status.state {
        ClusterState::ApiUnreachable => {
            format!("the agent is connected, its API server does not answer{why}")
        }
        ClusterState::Lost => format!("the agent has lost its connection{why}"),
        ClusterState::Connected => "connected".to_owned(),
        ClusterState::Never if cluster.enrolled => {
            "enrolled; waiting for the agent's session".to_owned()
        }
        ClusterState::Never => AWAITS_AGENT.to_owned(),
    }
}
