//! `fairlead rollout`: releases of a bundle, wave by wave.

use fairlead_api::{
    BundleId, Code, Failure, RolloutId,
    delivery::{Rollout, RolloutState, WaveStatus},
    resources::List,
};
use fairlead_client::{Environment, HubClient, HubError, query_of};

use super::follow::{self, stopped, summary, until_stopped};
use crate::{
    args,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
};

const ROLLOUTS_PATH: &str = "/v1/rollouts";

pub(crate) fn rollout(
    command: args::RolloutArgs,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::RolloutArgs::List(asked) => list(&hub, asked).await,
            args::RolloutArgs::Status(asked) => status(&hub, asked).await,
            args::RolloutArgs::Pause(of) => order(&hub, &of.of, "pause").await,
            args::RolloutArgs::Resume(of) => order(&hub, &of.of, "resume").await,
            args::RolloutArgs::Abort(of) => order(&hub, &of.of, "abort").await,
            args::RolloutArgs::Promote(of) => order(&hub, &of.of, "promote").await,
            args::RolloutArgs::Retry(of) => order(&hub, &of.of, "retry").await,
        }
    })?
}

async fn list(hub: &HubClient, asked: args::RolloutList) -> Result<(), Failure> {
    let query = query_of([
        ("bundle", asked.bundle.map(|it| it.to_string())),
        ("state", asked.state),
    ]);
    let path = format!("{ROLLOUTS_PATH}?{query}");
    let rollouts: List<Rollout> = hub.get(path.trim_end_matches('?')).await?;
    let format = &asked.output.output;
    Ok(output::show_list(
        format,
        &rollouts,
        "rollouts",
        &columns(),
        cells,
    )?)
}

async fn status(hub: &HubClient, asked: args::RolloutStatusArgs) -> Result<(), Failure> {
    let mut rollout = find(hub, &asked.of).await?;
    let mut result = Ok(());
    if asked.watch {
        let path = format!("{ROLLOUTS_PATH}/{}", rollout.id);
        let fetch = async || hub.get::<Rollout>(&path).await.map(Some);
        match until_stopped(fetch, asked.timeout.0, &rollout.bundle).await {
            Ok(done) => rollout = done,
            Err(failure) => {
                rollout = hub.get(&path).await?;
                result = Err(failure);
            }
        }
    } else if rollout.state == RolloutState::Halted {
        result = stopped(&rollout).map_or(Ok(()), Err);
    }
    show(&asked.output.output, &rollout)?;
    result
}

async fn order(hub: &HubClient, of: &str, verb: &str) -> Result<(), Failure> {
    let id = find(hub, of).await?.id;
    let path = format!("{ROLLOUTS_PATH}/{id}/{verb}");
    let rollout: Rollout = hub.post_empty(&path).await?;
    let summary = summary(&rollout);
    Ok(output::print(&format!(
        "{id} is {:?}: {summary}.\n",
        rollout.state
    ))?)
}

/// The rollout with this id, or the newest one of this bundle.
async fn find(hub: &HubClient, of: &str) -> Result<Rollout, Failure> {
    if of.starts_with(RolloutId::PREFIX) {
        let id: RolloutId = of.parse().map_err(|error| invalid(of, &error))?;
        let found = hub.get(&format!("{ROLLOUTS_PATH}/{id}")).await;
        return found.map_err(|error| match error {
            HubError::NotFound(_) => missing(&format!("the rollout {id}")),
            other => other.into(),
        });
    }
    let bundle = BundleId::from_name(of).map_err(|error| invalid(of, &error))?;
    let found = follow::rollouts(hub, &bundle).await?;
    let newest = found.into_iter().next();
    newest.ok_or_else(|| missing(&format!("a rollout of {bundle}")))
}

fn invalid(of: &str, error: &fairlead_api::IdError) -> Failure {
    Failure::because(Code::Invalid, format_args!("{of:?}: {error}"))
}

fn missing(what: &str) -> Failure {
    Failure::because(Code::NotFound, what).next("List the rollouts with `fairlead rollout list`.")
}

fn show(format: &OutputFormat, rollout: &Rollout) -> Result<(), Failure> {
    Ok(output::show(format, rollout, |rollout| {
        let mut text = format!(
            "{}\n{}\ngeneration {} to {}: {:?}, {}\n\n",
            rollout.id,
            rollout.bundle,
            rollout.from,
            rollout.to,
            rollout.state,
            summary(rollout)
        );
        text += &output::table(
            format,
            &wave_columns(),
            rollout.waves.iter().map(wave_cells),
        );
        if let Some(reason) = &rollout.reason {
            text += &format!("\nreason: {}\n", output::plain(reason));
        }
        text
    })?)
}

fn columns() -> [TableColumn; 9] {
    [
        TableColumn::key("ID"),
        TableColumn::id("BUNDLE"),
        TableColumn::word("FROM").spare(1),
        TableColumn::word("TO"),
        TableColumn::word("STATE"),
        TableColumn::word("READY"),
        TableColumn::word("FAILED"),
        TableColumn::word("OFFLINE").spare(2),
        TableColumn::text("REASON").spare(3),
    ]
}

fn cells(rollout: &Rollout) -> [Cell; 9] {
    let sum = |of: fn(&WaveStatus) -> u32| rollout.waves.iter().map(of).sum::<u32>();
    [
        rollout.id.to_string().into(),
        rollout.bundle.to_string().into(),
        rollout.from.to_string().into(),
        rollout.to.to_string().into(),
        format!("{:?}", rollout.state).into(),
        format!("{}/{}", sum(|it| it.ready), sum(|it| it.clusters)).into(),
        sum(|it| it.failed).to_string().into(),
        sum(|it| it.offline).to_string().into(),
        rollout.reason.clone().into(),
    ]
}

fn wave_columns() -> [TableColumn; 7] {
    [
        TableColumn::id("WAVE"),
        TableColumn::word("STATE"),
        TableColumn::word("CLUSTERS"),
        TableColumn::word("READY"),
        TableColumn::word("FAILED"),
        TableColumn::word("OFFLINE"),
        TableColumn::word("IN PROGRESS"),
    ]
}

fn wave_cells(wave: &WaveStatus) -> [Cell; 7] {
    [
        wave.name.clone().into(),
        format!("{:?}", wave.state).into(),
        wave.clusters.to_string().into(),
        wave.ready.to_string().into(),
        wave.failed.to_string().into(),
        wave.offline.to_string().into(),
        wave.in_progress.to_string().into(),
    ]
}
