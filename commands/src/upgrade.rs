//! `fairlead agent upgrade` and `fairlead upgrade`: versions of agents, wave by wave.

use std::time::Duration;

use fairlead_api::{
    Code, Failure, Selector, percent,
    resources::{
        AgentUpgrade, AgentUpgradeState, ClusterUpgrade, ClusterUpgradeState, CreateAgentUpgrade,
        List,
    },
};
use fairlead_client::{Environment, HubClient, HubError, lookup::id_of};
use tokio::time::{Instant, sleep};

use crate::{
    args::{self, AgentUpgradeArgs},
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
};

const UPGRADES_PATH: &str = "/v1/agent-upgrades";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(command: args::UpgradeArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::UpgradeArgs::List(asked) => list(&hub, &asked.output).await,
            args::UpgradeArgs::Get(asked) => get(&hub, asked).await,
            args::UpgradeArgs::Pause(one) => order(&hub, &one, "pause").await,
            args::UpgradeArgs::Resume(one) => order(&hub, &one, "resume").await,
            args::UpgradeArgs::Cancel(one) => order(&hub, &one, "cancel").await,
        }
    })?
}

/// Starts an upgrade (`fairlead agent upgrade`).
///
/// # Errors
/// The failures of the hub; with `--wait` also `FL-4185` for an upgrade with failed clusters, and `FL-4113` for one that is
/// not done in time.
pub fn start(asked: AgentUpgradeArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let create = request(&hub, &asked).await?;
        let started: AgentUpgrade = hub.post(UPGRADES_PATH, &create).await?;
        if !asked.wait {
            return show(&asked.output.output, &started);
        }
        output::note(&format!("started {}: {}", started.id, summary(&started)));
        follow(&hub, &started.id, asked.timeout.0, &asked.output.output).await
    })?
}

async fn request(hub: &HubClient, asked: &AgentUpgradeArgs) -> Result<CreateAgentUpgrade, Failure> {
    let selector = match (&asked.selector, asked.all) {
        (Some(text), _) => Some(text.parse::<Selector>()),
        (None, true) => Some("".parse()),
        (None, false) => None,
    };
    let selector = selector.transpose();
    let selector = selector.map_err(|error| Failure::because(Code::Invalid, error))?;
    let mut clusters = Vec::with_capacity(asked.clusters.len());
    for name in &asked.clusters {
        clusters.push(id_of(hub, name).await?);
    }
    let seconds = u32::try_from(asked.ready_timeout.0.as_secs()).unwrap_or(u32::MAX);
    Ok(CreateAgentUpgrade {
        version: asked.version.clone(),
        image: asked.image.clone(),
        selector,
        clusters,
        timeout_seconds: Some(seconds),
        max_failed: Some(asked.max_failed),
    })
}

async fn list(hub: &HubClient, format: &OutputFormat) -> Result<(), Failure> {
    let upgrades: List<AgentUpgrade> = hub.get(UPGRADES_PATH).await?;
    Ok(output::show_list(
        format,
        &upgrades,
        "upgrades",
        &columns(),
        cells,
    )?)
}

async fn get(hub: &HubClient, asked: args::UpgradeGet) -> Result<(), Failure> {
    let format = &asked.output.output;
    if asked.watch {
        return follow(hub, &asked.one.id, asked.timeout.0, format).await;
    }
    show(format, &hub.get(&path_of(&asked.one.id)).await?)
}

async fn order(hub: &HubClient, one: &args::OneUpgrade, verb: &str) -> Result<(), Failure> {
    let path = format!("{}/{verb}", path_of(&one.id));
    let upgrade: AgentUpgrade = hub.post_empty(&path).await?;
    let (id, state) = (&upgrade.id, upgrade.state);
    Ok(output::print(&format!(
        "{id} is {state}: {}.\n",
        summary(&upgrade)
    ))?)
}

/// Notes each change until the upgrade ends, and shows it.
async fn follow(
    hub: &HubClient,
    id: &str,
    within: Duration,
    format: &OutputFormat,
) -> Result<(), Failure> {
    let deadline = Instant::now() + within;
    let mut last = String::new();
    loop {
        let step = match hub.get::<AgentUpgrade>(&path_of(id)).await {
            Ok(upgrade) if has_ended(&upgrade) => {
                show(format, &upgrade)?;
                return result(&upgrade);
            }
            Ok(upgrade) => summary(&upgrade),
            // The hub may be restarting; the upgrade continues with it.
            Err(error) if error.is_temporary() => error.failure().cause.clone(),
            Err(error) => return Err(HubError::into(error)),
        };
        if Instant::now() >= deadline {
            let next = format!("It continues; follow it with `fairlead upgrade get {id} -w`.");
            return Err(Failure::because(Code::NotReady, format_args!("{id}: {step}")).next(next));
        }
        if step != last {
            output::note(&step);
            last = step;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// True if nothing of it happens any more: clusters in progress end by themselves.
fn has_ended(upgrade: &AgentUpgrade) -> bool {
    let is_open = matches!(
        upgrade.state,
        AgentUpgradeState::Running | AgentUpgradeState::Paused
    );
    !is_open && count(upgrade, ClusterUpgradeState::Upgrading) == 0
}

fn result(upgrade: &AgentUpgrade) -> Result<(), Failure> {
    let failed = upgrade.clusters.iter().any(|it| it.state.is_failure());
    let is_done = upgrade.state == AgentUpgradeState::Done;
    if is_done && !failed {
        return Ok(());
    }
    let cause =
        format_args!("{} is {}: {}", upgrade.id, upgrade.state, summary(upgrade)).to_string();
    Err(Failure::with_cause(Code::UpgradeStopped, cause))
}

fn path_of(id: &str) -> String {
    format!("{UPGRADES_PATH}/{}", percent::encode(id))
}

fn count(upgrade: &AgentUpgrade, state: ClusterUpgradeState) -> usize {
    let clusters = upgrade.clusters.iter();
    clusters.filter(|it| it.state == state).count()
}

/// Number of clusters by state.
fn summary(upgrade: &AgentUpgrade) -> String {
    use ClusterUpgradeState::{Done, Failed, Refused, RolledBack, Skipped, Upgrading};
    let all = upgrade.clusters.len();
    let mut text = format!("{} of {all} clusters are done", count(upgrade, Done));
    for (state, what) in [
        (Upgrading, "in progress"),
        (RolledBack, "rolled back"),
        (Refused, "refused"),
        (Failed, "without a report"),
        (Skipped, "skipped"),
    ] {
        let number = count(upgrade, state);
        if number > 0 {
            text += &format!(", {number} {what}");
        }
    }
    text
}

fn show(format: &OutputFormat, upgrade: &AgentUpgrade) -> Result<(), Failure> {
    Ok(output::show(format, upgrade, |upgrade| {
        let AgentUpgrade {
            id,
            version,
            image,
            state,
            ..
        } = upgrade;
        let mut text = format!(
            "{id}: {state}, {}\nversion {version}, image {}\n\n",
            summary(upgrade),
            output::plain(image)
        );
        let clusters = upgrade.clusters.iter().map(cluster_cells);
        text += &output::table(format, &cluster_columns(), clusters);
        if let Some(reason) = &upgrade.reason {
            text += &format!("\nreason: {}\n", output::plain(reason));
        }
        text
    })?)
}

fn columns() -> [TableColumn; 8] {
    [
        TableColumn::key("ID"),
        TableColumn::word("STATE"),
        TableColumn::word("VERSION"),
        TableColumn::word("DONE"),
        TableColumn::word("FAILED"),
        TableColumn::id("BY"),
        TableColumn::word("AGE"),
        TableColumn::text("IMAGE").wide(),
    ]
}

fn cells(upgrade: &AgentUpgrade) -> [Cell; 8] {
    let done = count(upgrade, ClusterUpgradeState::Done);
    let failed = upgrade.clusters.iter().filter(|it| it.state.is_failure());
    [
        upgrade.id.clone().into(),
        upgrade.state.to_string().into(),
        upgrade.version.clone().into(),
        format!("{done}/{}", upgrade.clusters.len()).into(),
        failed.count().to_string().into(),
        upgrade.created_by.clone().into(),
        Cell::Since(upgrade.created),
        upgrade.image.clone().into(),
    ]
}

fn cluster_columns() -> [TableColumn; 4] {
    [
        TableColumn::id("CLUSTER"),
        TableColumn::word("WAVE"),
        TableColumn::word("STATE"),
        TableColumn::text("CAUSE"),
    ]
}

fn cluster_cells(cluster: &ClusterUpgrade) -> [Cell; 4] {
    let wave = match cluster.wave {
        0 => String::new(),
        wave => wave.to_string(),
    };
    [
        cluster.cluster.to_string().into(),
        wave.into(),
        cluster.state.to_string().into(),
        cluster.cause.clone().into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upgrade(state: &str, clusters: &[&str]) -> AgentUpgrade {
        let clusters = clusters.iter().enumerate();
        let clusters: Vec<_> = clusters
            .map(|(at, state)| json!({ "cluster": format!("c-{at}"), "wave": 1, "state": state }))
            .collect();
        serde_json::from_value(json!({
            "id": "au-1", "version": "0.1.0", "image": "x:0.1.0", "state": state, "timeoutSeconds": 300,
            "maxFailed": 0, "created": "2026-11-21T12:00:00Z", "createdBy": "ann", "clusters": clusters,
        }))
        .unwrap()
    }

    #[test]
    fn upgrade_with_failed_clusters_is_a_failure() {
        result(&upgrade("Done", &["Done", "Skipped"])).unwrap();
        for (state, cluster) in [
            ("Done", "RolledBack"),
            ("Stopped", "Refused"),
            ("Stopped", "Failed"),
            ("Cancelled", "Done"),
        ] {
            let failure = result(&upgrade(state, &["Done", cluster])).unwrap_err();
            assert_eq!(failure.code, Code::UpgradeStopped, "{state} {cluster}");
        }
    }

    #[test]
    fn ended_upgrade_has_no_cluster_in_progress() {
        assert!(!has_ended(&upgrade("Running", &["Done"])));
        assert!(!has_ended(&upgrade("Paused", &["Done"])));
        assert!(!has_ended(&upgrade(
            "Stopped",
            &["RolledBack", "Upgrading"]
        )));
        assert!(has_ended(&upgrade("Stopped", &["RolledBack", "Waiting"])));
    }

    #[test]
    fn summary_counts_clusters_by_state() {
        let states = ["Done", "Done", "Upgrading", "RolledBack", "Waiting"];
        assert_eq!(
            summary(&upgrade("Running", &states)),
            "2 of 5 clusters are done, 1 in progress, 1 rolled back"
        );
    }
}
