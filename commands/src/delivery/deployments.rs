//! `fairlead deployment`: bundles in clusters.

use fairlead_api::{
    Code, Failure,
    delivery::{Bundle, Deployment, Run},
    resources::List,
};
use fairlead_client::{Environment, HubClient, HubError, lookup::id_of, query_of};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::runs;
use crate::{
    args,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    watch::{self, Row, Wakes, WatchScope},
};

/// Number of items in one request of a long list.
const PAGE_ITEMS: usize = 500;
/// Number of drifted objects that are shown.
const SHOWN_OBJECTS: usize = 20;

pub(crate) fn deployment(
    command: args::DeploymentArgs,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::DeploymentArgs::List(asked) => Box::pin(list(&hub, asked)).await,
            args::DeploymentArgs::Get { one, output } => {
                let path = path_of(&hub, &one).await?;
                show(&output.output, &find(&hub, &one, &path).await?)
            }
            args::DeploymentArgs::Sync { one, wait } => make_run(&hub, &one, "sync", &wait).await,
            args::DeploymentArgs::Confirm { one, yes, wait } => {
                let path = path_of(&hub, &one).await?;
                let blocked = find(&hub, &one, &path).await?;
                let reason = blocked.reason.as_deref().unwrap_or("it has no reason");
                let state = blocked.state.as_str();
                let question = format!("{} is {state}: {reason}. Continue?", one.bundle);
                confirm(yes, &question)?;
                make_run(&hub, &one, "confirm", &wait).await
            }
            args::DeploymentArgs::Suspend(one) => order(&hub, &one, "suspend", "suspended").await,
            args::DeploymentArgs::Resume(one) => order(&hub, &one, "resume", "active").await,
            args::DeploymentArgs::Remove { one, yes } => {
                let (bundle, cluster) = (&one.bundle, &one.cluster);
                let question =
                    format!("This deletes the objects of {bundle} in {cluster}. Continue?");
                confirm(yes, &question)?;
                order(&hub, &one, "remove", "removed by the agent").await
            }
        }
    })?
}

/// Path of a deployment.
async fn path_of(hub: &HubClient, one: &args::OneDeployment) -> Result<String, Failure> {
    let cluster = id_of(hub, &one.cluster).await?;
    Ok(format!("/v1/clusters/{cluster}/deployments/{}", one.bundle))
}

async fn find(
    hub: &HubClient,
    one: &args::OneDeployment,
    path: &str,
) -> Result<Deployment, Failure> {
    let found = hub.get(path).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) | HubError::NoSuchCluster(_) => {
            let cause = format!("{} has no deployment of {}", one.cluster, one.bundle);
            let next = "List the deployments with `fairlead deployment list`.";
            Failure::with_cause(Code::NotFound, cause).next(next)
        }
        other => other.into(),
    })
}

async fn make_run(
    hub: &HubClient,
    one: &args::OneDeployment,
    verb: &str,
    wait: &args::RunWait,
) -> Result<(), Failure> {
    let path = format!("{}/{verb}", path_of(hub, one).await?);
    let run: Run = hub.post_empty(&path).await?;
    runs::after(hub, run, wait).await
}

async fn order(
    hub: &HubClient,
    one: &args::OneDeployment,
    verb: &str,
    done: &str,
) -> Result<(), Failure> {
    let path = format!("{}/{verb}", path_of(hub, one).await?);
    hub.order(&path).await?;
    let text = format!("{} in {} is {done}.\n", one.bundle, one.cluster);
    Ok(output::print(&text)?)
}

async fn list(hub: &HubClient, asked: args::DeploymentList) -> Result<(), Failure> {
    let cluster = match &asked.cluster {
        Some(name) => Some(id_of(hub, name).await?),
        None => None,
    };
    let state = query_of([("state", asked.state.map(|it| it.as_str()))]);
    let fetch = async || -> Result<Vec<Deployment>, HubError> {
        let mut found = match (&cluster, &asked.bundle) {
            (Some(cluster), _) => {
                all(hub, &format!("/v1/clusters/{cluster}/deployments?{state}")).await?
            }
            (None, Some(bundle)) => {
                all(hub, &format!("/v1/bundles/{bundle}/deployments?{state}")).await?
            }
            (None, None) => of_all_bundles(hub, &state).await?,
        };
        found.retain(|it| {
            asked
                .bundle
                .as_ref()
                .is_none_or(|bundle| it.bundle == *bundle)
        });
        Ok(found)
    };
    let format = &asked.output.output;
    if asked.watch {
        let scope = WatchScope::MatchingOrGone;
        let rows = async |_| Ok(fetch().await?.iter().map(row).collect());
        let watching = watch::watch(hub, format, columns(), scope, Wakes::Deployments, rows);
        return Box::pin(watching).await;
    }
    let found = List {
        items: fetch().await?,
    };
    Ok(output::show_list(
        format,
        &found,
        "deployments",
        &columns(),
        cells,
    )?)
}

/// Deployments of each visible bundle.
async fn of_all_bundles(hub: &HubClient, state: &str) -> Result<Vec<Deployment>, HubError> {
    let mut found = Vec::new();
    for bundle in all::<Bundle>(hub, "/v1/bundles?").await? {
        let path = format!("/v1/bundles/{}/deployments?{state}", bundle.id);
        match all(hub, &path).await {
            Ok(deployments) => found.extend::<Vec<Deployment>>(deployments),
            // The bundle was deleted meanwhile.
            Err(HubError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// All pages of a list; the path ends in its query.
async fn all<T: DeserializeOwned>(hub: &HubClient, path: &str) -> Result<Vec<T>, HubError> {
    let separator = if path.ends_with('?') { "" } else { "&" };
    let mut next = Some(format!("{path}{separator}limit={PAGE_ITEMS}"));
    let mut items = Vec::new();
    while let Some(path) = next {
        let (page, more): (List<T>, _) = hub.get_page(&path).await?;
        items.extend(page.items);
        next = more;
    }
    Ok(items)
}

fn show(format: &OutputFormat, deployment: &Deployment) -> Result<(), Failure> {
    let names = |it: &Deployment| format!("{}/{}\n", it.cluster, it.bundle);
    Ok(output::show_named(format, deployment, names, described)?)
}

/// A sentence about the state, and lines with details.
fn described(deployment: &Deployment) -> String {
    let Deployment {
        state,
        since,
        generation,
        objects,
        ..
    } = deployment;
    let notes: String = notes(deployment).map(|it| format!(", {it}")).collect();
    let reason = deployment.reason.as_ref();
    let reason = reason.map_or(String::new(), |it| format!(": {it}"));
    let code = deployment.code.as_ref();
    let code = code.map_or(String::new(), |it| format!(" ({it})"));
    let mut out = format!(
        "{} in {} is {} since {}{notes}{reason}{code}\n\n",
        deployment.bundle,
        deployment.cluster,
        state.as_str(),
        output::time(*since)
    );
    let next_step = deployment.code.as_ref().and_then(|it| it.parse().ok());
    let next_step = next_step.map(|it: Code| ("next step", it.next_step().to_owned()));
    let mut fields: Vec<_> = next_step.into_iter().collect();
    fields.extend([
        ("kind", deployment.kind.to_string()),
        (
            "generation",
            format!(
                "{} applied, {} released, {} wanted",
                generation.applied, generation.released, generation.wanted
            ),
        ),
        (
            "objects",
            format!("{} of {} are ready", objects.ready, objects.total),
        ),
        ("attempt", deployment.attempt.to_string()),
    ]);
    fields.extend(deployment.next_try.map(|it| ("next try", output::time(it))));
    fields.extend(
        deployment
            .run
            .as_ref()
            .map(|it| ("last run", it.to_string())),
    );
    let of_others = [("drift", &deployment.drift), ("beside", &deployment.beside)];
    for (name, objects) in of_others {
        fields.extend(objects.iter().take(SHOWN_OBJECTS).map(|it| {
            let manager = it.manager.as_deref().unwrap_or("others");
            let text = format!("{} by {manager}: {}", it.object, it.fields.join(", "));
            (name, text)
        }));
    }
    for (name, value) in fields {
        let name = format!("{name}:");
        out += &format!("{name:<12} {value}\n");
    }
    // Text from clusters must not contain terminal escapes.
    out.replace(|c: char| c.is_control() && c != '\n', " ")
}

/// Words beside the state.
fn notes(deployment: &Deployment) -> impl Iterator<Item = &'static str> {
    let Deployment {
        offline, suspended, ..
    } = *deployment;
    let notes = [(offline, "offline"), (suspended, "suspended")];
    notes
        .into_iter()
        .filter_map(|(is, note)| is.then_some(note))
}

fn row(deployment: &Deployment) -> Row<9> {
    let mut value = serde_json::to_value(deployment).unwrap_or_default();
    let id = format!("{}/{}", deployment.cluster, deployment.bundle);
    if let Value::Object(fields) = &mut value {
        fields.insert("id".to_owned(), id.as_str().into());
    }
    Row {
        id,
        cells: cells(deployment),
        value,
    }
}

fn columns() -> [TableColumn; 9] {
    [
        TableColumn::key("CLUSTER"),
        TableColumn::id("BUNDLE"),
        TableColumn::word("STATE").at_least(8),
        TableColumn::word("GENERATION").spare(2),
        TableColumn::word("OBJECTS").spare(3),
        TableColumn::word("SINCE").spare(1),
        TableColumn::word("CODE").wide(),
        TableColumn::word("RUN").wide(),
        TableColumn::text("REASON").spare(4),
    ]
}

fn cells(deployment: &Deployment) -> [Cell; 9] {
    let generation = deployment.generation;
    let shown = match generation.applied == generation.wanted {
        true => generation.applied.to_string(),
        false => format!("{}/{}", generation.applied, generation.wanted),
    };
    let notes: Vec<_> = notes(deployment).collect();
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!(" ({})", notes.join(", ")),
    };
    [
        deployment.cluster.to_string().into(),
        deployment.bundle.to_string().into(),
        format!("{}{notes}", deployment.state.as_str()).into(),
        shown.into(),
        format!("{}/{}", deployment.objects.ready, deployment.objects.total).into(),
        Cell::Since(deployment.since),
        deployment.code.clone().into(),
        deployment.run.as_ref().map(ToString::to_string).into(),
        deployment.reason.clone().into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Deployment {
        serde_json::from_value(json!({
            "cluster": "c-oslo-3", "bundle": "b-shop", "kind": "manifests", "state": "NotReady",
            "reason": "StatefulSet shop/db has 1 of 3 replicas ready\u{1b}", "code": "FL-6207",
            "since": "2026-11-24T12:01:00Z", "offline": true, "suspended": true, "generation": { "wanted": 8, "released": 8, "applied": 7 },
            "attempt": 2, "nextTry": "2026-11-24T12:05:00Z", "objects": { "total": 14, "ready": 13 },
            "drift": [{ "object": "Deployment shop/web", "fields": [".spec.replicas"], "manager": "kubectl" }],
            "beside": [{ "object": "ConfigMap shop/web", "fields": [".data.extra"], "manager": "injector" }],
            "run": "run-01KB0000000000000000000000",
        }))
        .unwrap()
    }

    #[test]
    fn deployment_is_described_by_its_state_first() {
        assert_eq!(
            described(&deployment()),
            "b-shop in c-oslo-3 is NotReady since 2026-11-24T12:01:00Z, offline, suspended: \
             StatefulSet shop/db has 1 of 3 replicas ready  (FL-6207)\n\n\
             next step:   Add the rule in the cause to a role of the ServiceAccount, or name another one with `serviceAccount`.\n\
             kind:        manifests\n\
             generation:  7 applied, 8 released, 8 wanted\n\
             objects:     13 of 14 are ready\n\
             attempt:     2\n\
             next try:    2026-11-24T12:05:00Z\n\
             last run:    run-01KB0000000000000000000000\n\
             drift:       Deployment shop/web by kubectl: .spec.replicas\n\
             beside:      ConfigMap shop/web by injector: .data.extra\n"
        );
    }

    #[test]
    fn row_has_the_generation_that_is_applied_and_the_wanted_one() {
        let row = row(&deployment());
        assert_eq!(row.id, "c-oslo-3/b-shop");
        assert_eq!(row.cells[2], Cell::from("NotReady (offline, suspended)"));
        assert_eq!(row.cells[3], Cell::from("7/8"));
        assert_eq!(row.value["id"], "c-oslo-3/b-shop");
    }
}
