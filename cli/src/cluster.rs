//! `fairlead cluster`.

mod agent;
mod catalog;
mod describe;
mod shown;
mod token;
mod views;
mod watched;

use std::{collections::BTreeSet, time::Duration};

use fairlead_api::{
    ClusterId, Code, Failure, TenantId,
    resources::{Cluster, CreateCluster, JoinInfo, List, State, WhoAmI},
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    apply, args,
    confirm::confirm,
    documents::{Document, Kind},
    edit,
    environment::Environment,
    fields,
    find::{check_tenant, query_of},
    hub_client::HubClient,
    output::{self, Format},
    settings::block_on,
    watch::Scope,
};
use shown::{cells, clone_line, columns, lagging, place_line, repository_line};
use token::Install;
use watched::Watched;

const AWAITS_AGENT: &str = "waiting for the agent to enrol";
/// How often a wait asks.
const ASK: Duration = Duration::from_millis(500);

pub(crate) fn run(command: args::Cluster, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::of(environment)?;
    block_on(async {
        match command {
            args::Cluster::Create {
                name,
                id,
                tenant,
                git_repo_type,
                fields,
                wait,
                timeout,
                output,
            } => {
                let mut given = fields::Fields(fields::of(*fields)?);
                given.text(&["gitRepo", "type"], git_repo_type);
                let tenant = match tenant {
                    Some(tenant) => named_tenant(&tenant)?,
                    None => own_tenant(&hub).await?,
                };
                let create = CreateCluster {
                    id,
                    display_name: Some(name),
                    tenant,
                    more: given.0,
                };
                let install = Install::of(&hub).await?;
                let join: JoinInfo = hub.post("/clusters", &create).await?;
                output::show(&output.output, &join, |join| install.command(join))?;
                match wait {
                    true => wait_for(&hub, &join, timeout.0).await,
                    false => Ok(()),
                }
            }
            args::Cluster::List(asked) => list(&hub, &asked).await,
            args::Cluster::Get {
                name,
                watch,
                output,
            } => Box::pin(get(&hub, &name, watch, &output.output)).await,
            args::Cluster::Describe { name } => Box::pin(describe::run(&hub, &name)).await,
            args::Cluster::Set {
                name,
                new_name,
                fields,
                dry_run,
                yes,
            } => {
                let id = find(&hub, &name).await?.id.to_string();
                let mut given = fields::Fields(fields::of(*fields)?);
                given.text(&["displayName"], new_name);
                let document = Document {
                    kind: Kind::Cluster,
                    id,
                    tenant: None,
                    fields: given.0,
                };
                apply::amend(&hub, document, dry_run, yes).await
            }
            args::Cluster::Manifest { name } => token::manifest(&hub, &name).await,
            args::Cluster::Token { command } => token::run(&hub, command).await,
            args::Cluster::Effective(asked) => views::effective(&hub, asked).await,
            args::Cluster::Config(asked) => views::config(&hub, asked).await,
            args::Cluster::Sessions(asked) => views::sessions(&hub, asked).await,
            args::Cluster::Catalog { command } => catalog::run(&hub, command).await,
            args::Cluster::Compiled(asked) => views::compiled(&hub, asked).await,
            args::Cluster::Agent { command } => agent::run(&hub, command).await,
            args::Cluster::Apply(args) => apply::run(&hub, Kind::Cluster, args).await,
            args::Cluster::Edit { name, yes } => {
                let path = format!("/clusters/{}", find(&hub, &name).await?.id);
                edit::run(&hub, Kind::Cluster, &path, yes, environment).await
            }
            args::Cluster::Move {
                name,
                to,
                yes,
                output,
            } => move_to(&hub, &name, &to, yes, &output.output).await,
            args::Cluster::Delete { name, yes } => delete(&hub, &name, yes).await,
        }
    })?
}

async fn move_to(
    hub: &HubClient,
    name: &str,
    to: &str,
    yes: bool,
    format: &Format,
) -> Result<(), Failure> {
    let id = find(hub, name).await?.id;
    let tenant = named_tenant(to)?;
    let question =
        format!("This moves {id} to {tenant}: its agent is cut off until it enrols anew. Go on?");
    confirm(yes, &question)?;
    let path = format!("/v1/clusters/{id}/tenant");
    let to = serde_json::json!({ "tenant": tenant });
    let install = Install::of(hub).await?;
    let moved: JoinInfo = hub.post(&path, &to).await?;
    output::show(format, &moved, |moved| install.command(moved))
}

async fn delete(hub: &HubClient, name: &str, yes: bool) -> Result<(), Failure> {
    let cluster = find(hub, name).await?;
    let question = format!(
        "This deletes cluster {} ({}); its agent is cut off. Go on?",
        cluster.id, cluster.display_name
    );
    confirm(yes, &question)?;
    hub.delete(&format!("/clusters/{}", cluster.id)).await?;
    output::print(&format!("Deleted {}.\n", cluster.id))
}

async fn list(hub: &HubClient, asked: &args::ClusterList) -> Result<(), Failure> {
    check_tenant(hub, asked.tenant.as_ref()).await?;
    let path = format!("/clusters?{}", query(asked));
    let format = &asked.output.output;
    let fetch = async || hub.get::<Vec<Cluster>>(&path).await;
    if asked.watch {
        let watched = Watched {
            scope: match asked.filters() {
                true => Scope::Matching("/clusters"),
                false => Scope::All,
            },
            by_status: asked.status.is_some(),
        };
        return watched::watch(hub, format, watched, fetch).await;
    }
    let clusters = fetch().await?;
    let lagging = lagging_for(hub, format).await?;
    let clusters = List { items: clusters };
    let row = |cluster: &Cluster| cells(cluster, &lagging);
    output::show_list(format, &clusters, "clusters", &columns(), row)
}

fn query(asked: &args::ClusterList) -> String {
    let single = [
        ("tenant", asked.tenant.as_ref().map(TenantId::as_str)),
        ("selector", asked.selector.as_deref()),
        ("stale", asked.fresh.then_some("false")),
        ("status", asked.status.as_deref()),
        ("text", asked.text.as_deref()),
        ("sort_by", asked.sort_by.as_deref().or(Some("displayName"))),
    ];
    let facts = asked.fact.iter().map(|fact| ("fact", Some(fact.as_str())));
    query_of(single.into_iter().chain(facts))
}

async fn get(hub: &HubClient, name: &str, watch: bool, format: &Format) -> Result<(), Failure> {
    let cluster = find(hub, name).await?;
    if watch {
        let path = format!("/clusters/{}", cluster.id);
        let fetch = async || Ok(hub.find::<Cluster>(&path).await?.into_iter().collect());
        let watched = Watched {
            scope: Scope::One,
            by_status: false,
        };
        return watched::watch(hub, format, watched, fetch).await;
    }
    let lagging = lagging_for(hub, format).await?;
    output::show(format, &cluster, |cluster| {
        let lines = [
            place_line(cluster),
            repository_line(cluster),
            clone_line(cluster),
        ];
        let rows = [cells(cluster, &lagging)];
        output::table(format, &columns(), rows) + &lines.concat()
    })
}

/// Only the wide table shows it.
async fn lagging_for(hub: &HubClient, format: &Format) -> Result<BTreeSet<ClusterId>, Failure> {
    match format {
        Format::Wide => lagging(hub).await,
        _ => Ok(BTreeSet::new()),
    }
}

/// The one cluster with this id, else with this display name.
pub(crate) async fn find(hub: &HubClient, name: &str) -> Result<Cluster, Failure> {
    if name.parse::<ClusterId>().is_ok() {
        let known = hub.find(&format!("/clusters/{name}")).await?;
        if let Some(cluster) = known {
            return Ok(cluster);
        }
    }
    let clusters: Vec<Cluster> = match name {
        "" => Vec::new(),
        name => {
            hub.get(&format!("/clusters?{}", query_of([("text", Some(name))])))
                .await?
        }
    };
    among(&clusters, name).cloned()
}

/// The same, of clusters that are known already.
pub(crate) fn among<'a>(clusters: &'a [Cluster], name: &str) -> Result<&'a Cluster, Failure> {
    if let Some(cluster) = clusters.iter().find(|it| it.id.as_str() == name) {
        return Ok(cluster);
    }
    let named = clusters.iter().filter(|it| it.display_name == name);
    match named.collect::<Vec<_>>().as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::because(
            Code::NoSuchCluster,
            format_args!("{name:?}"),
        )),
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            let ids = ids.join(", ");
            let detail = format_args!("{name:?} is the name of several clusters: {ids}");
            let failure = Failure::because(Code::Invalid, detail);
            Err(failure.next("Give the id instead of the name."))
        }
    }
}

/// The id, which may be one of a cluster that is not there any more, or that of the one with this display name.
pub(crate) async fn id_of(hub: &HubClient, name: &str) -> Result<ClusterId, Failure> {
    match name.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(find(hub, name).await?.id),
    }
}

fn named_tenant(name: &str) -> Result<TenantId, Failure> {
    TenantId::from_name(name)
        .map_err(|error| Failure::because(Code::Invalid, format_args!("--tenant: {error}")))
}

/// That of whoever asks, else the one that every hub has.
async fn own_tenant(hub: &HubClient) -> Result<TenantId, Failure> {
    let who: WhoAmI = hub.get("/v1/whoami").await?;
    who.tenant.map_or_else(|| named_tenant("t-default"), Ok)
}

/// Waits until kubectl works; each step is a line on stderr.
async fn wait_for(hub: &HubClient, join: &JoinInfo, patience: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + patience;
    let path = format!("/clusters/{}", join.id);
    let mut said = String::new();
    loop {
        let cluster = timeout_at(deadline, hub.get::<Cluster>(&path)).await;
        let step = match cluster.map_err(|_| not_ready(&said))? {
            Ok(cluster) if cluster.status.state == State::Connected => {
                eprintln!("connected: the API server answers through the tunnel");
                return Ok(());
            }
            Ok(cluster) if awaits_invitation(&cluster) => {
                let known = timeout_at(deadline, uninvited(hub, &cluster)).await;
                known.map_err(|_| not_ready(&said))??
            }
            Ok(cluster) => step(&cluster),
            // A hub that restarts is waited for; one that says no is believed.
            Err(failure) if failure.code == Code::HubUnreachable => failure.cause,
            Err(failure) => return Err(failure),
        };
        if step != said {
            eprintln!("{step}");
            said = step;
        }
        if Instant::now() >= deadline {
            return Err(not_ready(&said));
        }
        sleep(ASK).await;
    }
}

fn not_ready(step: &str) -> Failure {
    Failure::because(Code::NotReady, step)
}

/// No agent has enrolled, and none can: its bootstrap token is not valid any more.
fn awaits_invitation(cluster: &Cluster) -> bool {
    let is_new = cluster.status.state == State::Never;
    is_new && !cluster.enrolled && cluster.install_url.is_none()
}

/// # Errors
/// `FL-4113` with the reason for which the bootstrap token is not valid; other failures of the hub.
async fn uninvited(hub: &HubClient, cluster: &Cluster) -> Result<String, Failure> {
    let path = format!("/v1/clusters/{}/bootstrap-token", cluster.id);
    match hub.get::<JoinInfo>(&path).await {
        // It was renewed meanwhile, or a caller without the right to invite waits.
        Ok(_) => Ok(AWAITS_AGENT.to_owned()),
        Err(failure) if failure.code == Code::NotAllowed => Ok(AWAITS_AGENT.to_owned()),
        Err(failure) if failure.code == Code::NotFound => {
            let next = failure.next_step().to_owned();
            Err(Failure::because(Code::NotReady, failure.cause).next(next))
        }
        Err(failure) if failure.code == Code::HubUnreachable => Ok(failure.cause),
        Err(failure) => Err(failure),
    }
}

fn step(cluster: &Cluster) -> String {
    let why = cluster
        .status
        .last_error
        .as_ref()
        .map_or(String::new(), |e| format!(": {} ({})", e.cause, e.code));
    match cluster.status.state {
        State::Never if cluster.enrolled => "enrolled; waiting for the agent's session".to_owned(),
        State::Never => AWAITS_AGENT.to_owned(),
        State::ApiUnreachable => {
            format!("the agent is connected, its API server does not answer{why}")
        }
        State::Lost => format!("the agent has lost its connection{why}"),
        State::Connected => "connected".to_owned(),
    }
}
