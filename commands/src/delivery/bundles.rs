//! `fairlead bundle` and `fairlead rollback`.

use fairlead_api::{
    BundleId, Code, Failure,
    delivery::{BundleGeneration, BundleStatus, Plan, Rollback},
    resources::List,
};
use fairlead_client::{Environment, HubClient, HubError, documents::DocumentKind, query_of};

use super::{
    follow::{self, Following},
    plan,
    removal::{confirmed, joined},
};
use crate::{
    apply, args,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
};

const BUNDLES_PATH: &str = "/v1/bundles";

pub(crate) fn bundle(command: args::BundleArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::BundleArgs::List {
                tenant,
                text,
                output,
            } => {
                check_tenant(&hub, tenant.as_ref()).await?;
                let query = query_of([("tenant", tenant.map(|it| it.to_string())), ("text", text)]);
                let path = format!("{BUNDLES_PATH}?{query}");
                let bundles: List<BundleStatus> = hub.get(path.trim_end_matches('?')).await?;
                let format = &output.output;
                Ok::<_, Failure>(output::show_list(
                    format,
                    &bundles,
                    "bundles",
                    &columns(),
                    cells,
                )?)
            }
            args::BundleArgs::Get { id, output } => {
                let bundle = find(&hub, &id).await?;
                let format = &output.output;
                Ok(output::show(format, &bundle, |it| described(format, it))?)
            }
            args::BundleArgs::Plan { id, output } => show_plan(&hub, &id, &output).await,
            args::BundleArgs::Apply(args) => apply::run(&hub, DocumentKind::Bundle, args).await,
            args::BundleArgs::Suspend { id } => switch(&hub, &id, "suspend").await,
            args::BundleArgs::Resume { id } => switch(&hub, &id, "resume").await,
            args::BundleArgs::Delete(asked) => delete(&hub, asked).await,
        }
    })?
}

/// Reads a bundle.
///
/// # Errors
/// `FL-4107` for an unknown id.
pub(super) async fn find(hub: &HubClient, id: &BundleId) -> Result<BundleStatus, Failure> {
    let found = hub.get(&format!("{BUNDLES_PATH}/{id}")).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) => Failure::because(Code::NotFound, format_args!("the bundle {id}"))
            .next("List the bundles with `fairlead bundle list`."),
        other => other.into(),
    })
}

async fn show_plan(
    hub: &HubClient,
    id: &BundleId,
    output: &args::OutputArgs,
) -> Result<(), Failure> {
    let bundle = find(hub, id).await?.bundle;
    let plan: Plan = hub.post_empty(&format!("{BUNDLES_PATH}/{id}/plan")).await?;
    let connected = plan::connected(hub).await?;
    let names = |plan: &Plan| {
        let all = plan.added.iter().chain(&plan.changed).chain(&plan.removed);
        all.map(|it| format!("{it}\n")).collect()
    };
    Ok(output::show_named(&output.output, &plan, names, |plan| {
        let heading = format!("{id} generation {}\n", bundle.generation);
        heading + &plan::text(&bundle, plan, &connected)
    })?)
}

async fn switch(hub: &HubClient, id: &BundleId, verb: &str) -> Result<(), Failure> {
    find(hub, id).await?;
    let path = format!("{BUNDLES_PATH}/{id}/{verb}");
    let bundle = hub.post_empty::<BundleStatus>(&path).await?.bundle;
    let state = match bundle.suspended {
        true => "suspended",
        false => "active",
    };
    Ok(output::print(&format!("{id} is {state}.\n"))?)
}

async fn delete(hub: &HubClient, asked: args::BundleDelete) -> Result<(), Failure> {
    let id = &asked.id;
    find(hub, id).await?;
    let (mode, objects) = match asked.remove {
        true => ("remove", "DELETES its objects in all clusters"),
        false => ("keep", "keeps its objects in the clusters"),
    };
    confirm(
        asked.yes,
        &format!("This deletes {id}, and {objects}. Continue?"),
    )?;
    let path = format!("{BUNDLES_PATH}/{id}?mode={mode}");
    confirmed(asked.yes, async |parameter| {
        hub.delete(&joined(&path, parameter)).await
    })
    .await?;
    let done = match asked.remove {
        true => format!("{id} is deleted once its clusters have deleted its objects.\n"),
        false => format!("Deleted {id}; its objects stay.\n"),
    };
    Ok(output::print(&done)?)
}

pub(crate) fn rollback(
    asked: args::RollbackArgs,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(go_back(&hub, asked))?
}

async fn go_back(hub: &HubClient, asked: args::RollbackArgs) -> Result<(), Failure> {
    let id = &asked.id;
    let now = find(hub, id).await?.bundle.generation;
    let to = match asked.to {
        Some(to) => format!("of generation {to}"),
        None => "before it".to_owned(),
    };
    let question =
        format!("This rolls {id} back from generation {now} to the content {to}. Continue?");
    confirm(asked.yes, &question)?;
    let path = format!("{BUNDLES_PATH}/{id}/rollback");
    let body = Rollback { to: asked.to };
    let written: BundleStatus = confirmed(asked.yes, async |parameter| {
        hub.post(&joined(&path, parameter), &body).await
    })
    .await?;
    let generation = written.bundle.generation;
    output::print(&format!("{id} has generation {generation}.\n"))?;
    if !asked.wait {
        let next = format!("Follow it with `fairlead rollout status {id} -w`.");
        output::note(&next);
        return Ok(());
    }
    let following = Following {
        bundle: id.clone(),
        generation,
        within: asked.timeout.0,
    };
    follow::to_the_end(hub, &following).await
}

fn columns() -> [TableColumn; 8] {
    [
        TableColumn::key("ID"),
        TableColumn::id("TENANT").spare(4),
        TableColumn::word("KIND").spare(3),
        TableColumn::word("GENERATION").spare(5),
        TableColumn::word("STATE"),
        TableColumn::id("SOURCE").spare(2),
        TableColumn::id("CONTENT").wide(),
        TableColumn::text("TARGETS").spare(1),
    ]
}

/// The bundle and its generations.
fn described(format: &OutputFormat, status: &BundleStatus) -> String {
    let mut text = output::table(format, &columns(), [cells(status)]);
    if !status.generations.is_empty() {
        let rows = status.generations.iter().map(generation_cells);
        text += &format!("\n{}", output::table(format, &generation_columns(), rows));
    }
    for (what, clusters) in [
        (
            "suspended in",
            status.suspended_in.iter().collect::<Vec<_>>(),
        ),
        ("being removed from", status.removals.keys().collect()),
    ] {
        if !clusters.is_empty() {
            let clusters: Vec<_> = clusters.iter().map(ToString::to_string).collect();
            text += &format!("\n{what}: {}\n", clusters.join(", "));
        }
    }
    text
}

fn generation_columns() -> [TableColumn; 4] {
    [
        TableColumn::word("GENERATION"),
        TableColumn::word("AGE"),
        TableColumn::text("BY"),
        TableColumn::id("CONTENT").spare(1),
    ]
}

fn generation_cells(generation: &BundleGeneration) -> [Cell; 4] {
    [
        generation.number.to_string().into(),
        Cell::Since(generation.at),
        generation.by.clone().into(),
        generation.artifact.to_string().into(),
    ]
}

fn cells(status: &BundleStatus) -> [Cell; 8] {
    let bundle = &status.bundle;
    let state = match (status.deleting, bundle.suspended, bundle.orphaned) {
        (true, _, _) => "deleting",
        (_, true, _) => "suspended",
        (_, _, true) => "orphaned",
        _ => "active",
    };
    let targets = bundle.fields.targets.iter().map(|it| {
        let selector = it.selector.as_ref().map(ToString::to_string);
        let ids = it.groups.iter().map(ToString::to_string);
        let ids = ids.chain(it.clusters.iter().map(ToString::to_string));
        let parts: Vec<_> = selector.into_iter().chain(ids).collect();
        parts.join(" or ")
    });
    [
        bundle.id.to_string().into(),
        bundle.tenant.to_string().into(),
        bundle.fields.kind.as_str().into(),
        bundle.generation.to_string().into(),
        state.into(),
        bundle.source.as_ref().map(ToString::to_string).into(),
        bundle.artifact.as_ref().map(ToString::to_string).into(),
        targets.collect::<Vec<_>>().join("; ").into(),
    ]
}
