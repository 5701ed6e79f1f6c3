//! `fairlead cluster delete --purge`: the agent removes all delivered objects, and the command waits for that.

use std::time::Duration;

use fairlead_api::{
    ClusterId, Code, Failure, TimeSpan,
    delivery::{Deployment, DeploymentState},
    resources::{Cluster, List},
};
use fairlead_client::{HubClient, HubError};
use tokio::time::{Instant, sleep};

use crate::output;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Deployments that a line names.
const MAX_NAMED: usize = 5;

fn path(cluster: &ClusterId) -> String {
    format!("/v1/clusters/{cluster}/purge")
}

/// Ends the purges; the clusters stay.
///
/// # Errors
/// Failures of the hub.
pub(super) async fn cancel(hub: &HubClient, clusters: &[Cluster]) -> Result<(), Failure> {
    for cluster in clusters {
        hub.delete(&path(&cluster.id)).await?;
        output::print(&format!("The purge of {} has ended.\n", cluster.id))?;
    }
    Ok(())
}

/// Orders the removal, and waits until no delivered object is left.
///
/// # Errors
/// `FL-6818` without an agent: nothing was removed. `FL-6819` after `timeout`.
pub(super) async fn run(
    hub: &HubClient,
    cluster: &ClusterId,
    timeout: TimeSpan,
) -> Result<(), Failure> {
    let path = path(cluster);
    let deadline = Instant::now() + timeout.0;
    let started: Result<List<Deployment>, HubError> = hub.post_empty(&path).await;
    let (mut left, mut last) = (started?.items, String::new());
    while !left.is_empty() {
        let line = line(cluster, &left);
        if line != last {
            output::note(&line);
            last = line;
        }
        if Instant::now() >= deadline {
            return Err(unfinished(cluster, &left));
        }
        sleep(POLL_INTERVAL).await;
        left = hub.get::<List<Deployment>>(&path).await?.items;
    }
    output::note(&format!("{cluster}: no delivered objects are left."));
    Ok(())
}

/// Progress: `c-edge: 2 deployments are left: b-shop, b-web`.
fn line(cluster: &ClusterId, left: &[Deployment]) -> String {
    let names = left.iter().take(MAX_NAMED).map(|it| it.bundle.to_string());
    let mut names: Vec<String> = names.collect();
    if left.len() > MAX_NAMED {
        names.push("...".to_owned());
    }
    let count = match left.len() {
        1 => "1 deployment is left".to_owned(),
        more => format!("{more} deployments are left"),
    };
    let away = match left.iter().any(|it| it.offline) {
        true => "; the agent is offline",
        false => "",
    };
    format!("{cluster}: {count}: {}{away}", names.join(", "))
}

/// The first deployment with a failure gives the cause.
fn unfinished(cluster: &ClusterId, left: &[Deployment]) -> Failure {
    let is_failed =
        |it: &&Deployment| matches!(it.state, DeploymentState::Failed | DeploymentState::Blocked);
    let first = left.iter().find(is_failed).or(left.first());
    let reason = first.and_then(|it| Some(format!("; {}: {}", it.bundle, it.reason.as_ref()?)));
    let cause = format!("{}{}", line(cluster, left), reason.unwrap_or_default());
    Failure::with_cause(Code::PurgeUnfinished, cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(bundle: &str, state: &str) -> Deployment {
        let mut document = json!({
            "cluster": "c-edge", "bundle": bundle, "kind": "manifests", "state": state, "reason": "FL-6207: no right",
            "since": "2026-11-24T12:00:00Z", "offline": false, "suspended": false, "attempt": 0,
            "generation": { "wanted": 0, "released": 1, "applied": 1 }, "objects": { "total": 1, "ready": 1 },
        });
        document["offline"] = json!(bundle == "b-off");
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn progress_names_deployments_and_an_agent_that_is_away() {
        let cluster: ClusterId = "c-edge".parse().unwrap();
        let one = [deployment("b-shop", "Removing")];
        assert_eq!(line(&cluster, &one), "c-edge: 1 deployment is left: b-shop");
        let two = [
            deployment("b-off", "Removing"),
            deployment("b-web", "Failed"),
        ];
        let expected = "c-edge: 2 deployments are left: b-off, b-web; the agent is offline";
        assert_eq!(line(&cluster, &two), expected);
        let failure = unfinished(&cluster, &two);
        assert_eq!(failure.code, Code::PurgeUnfinished);
        assert_eq!(
            failure.cause,
            format!("{expected}; b-web: FL-6207: no right")
        );
    }
}
