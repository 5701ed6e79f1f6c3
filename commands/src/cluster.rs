//! `fairlead cluster`.

mod agent;
mod agent_columns;
mod catalog;
mod components;
mod describe;
mod identity;
mod install;
mod purge;
mod remove;
mod steward;
mod table;
mod token;
mod views;
mod wait;
mod watched;

use fairlead_api::{
    Code, Failure, TenantId,
    resources::{Cluster, ClusterState, CreateCluster, JoinInfo, List, WhoAmI},
    site::SiteChoices,
};
use fairlead_client::{
    Environment, HubClient,
    documents::{Document, DocumentKind},
    lookup::find,
    query_of,
};

use crate::{
    apply, args,
    confirm::confirm,
    delivery::removal::{confirmed, joined},
    edit, fields,
    output::{self, OutputFormat},
    runtime::block_on,
    tenant_filter::check_tenant,
    watch::WatchScope,
};
use agent_columns::AgentColumns;
use install::Install;
use table::{cells, clone_line, columns, place_line, repository_line};
use watched::Watched;

pub(crate) fn run(command: args::ClusterArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::ClusterArgs::Create(asked) => create(&hub, asked).await,
            args::ClusterArgs::Wait {
                names,
                state,
                timeout,
            } => wait::all(&hub, &names, state, timeout.0).await,
            args::ClusterArgs::List(asked) => list(&hub, &asked).await,
            args::ClusterArgs::Get {
                name,
                watch,
                output,
            } => Box::pin(get(&hub, &name, watch, &output.output)).await,
            args::ClusterArgs::Describe { name } => Box::pin(describe::run(&hub, &name)).await,
            args::ClusterArgs::Set(asked) => Box::pin(set(&hub, asked)).await,
            args::ClusterArgs::Manifest { name, site } => {
                install::manifest(&hub, &name, &site.choices()).await
            }
            args::ClusterArgs::Values { name, site } => {
                install::values(&hub, &name, &site.choices()).await
            }
            args::ClusterArgs::Token { command } => token::run(&hub, command).await,
            args::ClusterArgs::Identity { command } => identity::run(&hub, command).await,
            args::ClusterArgs::Steward { command } => steward::run(&hub, command).await,
            args::ClusterArgs::Effective(asked) => views::effective(&hub, asked).await,
            args::ClusterArgs::Config(asked) => views::config(&hub, asked).await,
            args::ClusterArgs::Sessions(asked) => views::sessions(&hub, asked).await,
            args::ClusterArgs::Catalog { command } => catalog::run(&hub, command).await,
            args::ClusterArgs::Compiled(asked) => views::compiled(&hub, asked).await,
            args::ClusterArgs::Agent { command } => agent::run(&hub, command).await,
            args::ClusterArgs::Apply(args) => apply::run(&hub, DocumentKind::Cluster, args).await,
            args::ClusterArgs::Edit { name, yes } => {
                let path = format!("/clusters/{}", find(&hub, &name).await?.id);
                edit::run(&hub, DocumentKind::Cluster, &path, yes, environment).await
            }
            args::ClusterArgs::Move {
                name,
                to,
                yes,
                output,
            } => move_to(&hub, &name, &to, yes, &output.output).await,
            args::ClusterArgs::Delete(asked) => Box::pin(remove::run(&hub, asked)).await,
        }
    })?
}

async fn create(hub: &HubClient, asked: args::NewCluster) -> Result<(), Failure> {
    let mut given = fields::Fields(fields::of(*asked.fields)?);
    given.text(&["gitRepo", "type"], asked.git_repo_type);
    let tenant = match asked.tenant {
        Some(tenant) => named_tenant(&tenant)?,
        None => own_tenant(hub).await?,
    };
    let create = CreateCluster {
        id: asked.id,
        display_name: Some(asked.name),
        tenant,
        more: given.0,
    };
    let install = Install::of(hub).await?;
    let path = format!("/clusters?uniqueName={}", !asked.allow_duplicate_name);
    let join: JoinInfo = hub.post(&path, &create).await?;
    let id = join.id.clone();
    install.show(&asked.output.output, join, &asked.site.choices())?;
    match asked.wait {
        true => wait::one(hub, &id, ClusterState::Connected, asked.timeout.0).await,
        false => Ok(()),
    }
}

async fn set(hub: &HubClient, asked: args::SetCluster) -> Result<(), Failure> {
    let cluster = find(hub, &asked.name).await?;
    let is_checked = !asked.allow_duplicate_name;
    if let Some(name) = asked.new_name.as_deref().filter(|_| is_checked) {
        refuse_used_name(hub, &cluster, name).await?;
    }
    let mut given = fields::Fields(fields::of(*asked.fields)?);
    given.text(&["displayName"], asked.new_name);
    let document = Document {
        kind: DocumentKind::Cluster,
        id: cluster.id.to_string(),
        tenant: None,
        fields: given.0,
    };
    apply::amend(hub, document, asked.dry_run, asked.yes).await
}

async fn move_to(
    hub: &HubClient,
    name: &str,
    to: &str,
    yes: bool,
    format: &OutputFormat,
) -> Result<(), Failure> {
    let id = find(hub, name).await?.id;
    let tenant = named_tenant(to)?;
    let question = format!(
        "This moves {id} to {tenant} and disconnects its agent until it enrols again. Continue?"
    );
    confirm(yes, &question)?;
    let path = format!("/v1/clusters/{id}/tenant");
    let to = serde_json::json!({ "tenant": tenant });
    let install = Install::of(hub).await?;
    let moved: JoinInfo = confirmed(yes, async |parameter| {
        hub.post(&joined(&path, parameter), &to).await
    })
    .await?;
    install.show(format, moved, &SiteChoices::default())
}

async fn list(hub: &HubClient, asked: &args::ClusterList) -> Result<(), Failure> {
    check_tenant(hub, asked.tenant.as_ref()).await?;
    let path = format!("/clusters?{}", query(asked));
    let format = &asked.output.output;
    let fetch = async || hub.get::<Vec<Cluster>>(&path).await;
    if asked.watch {
        let watched = Watched {
            scope: match asked.filters() {
                true => WatchScope::Matching("/clusters"),
                false => WatchScope::All,
            },
            by_status: asked.status.is_some(),
        };
        return watched::watch(hub, format, watched, fetch).await;
    }
    let mut clusters = fetch().await?;
    if asked.out_of_sync {
        let found = components::out_of_sync(hub).await?;
        clusters.retain(|cluster| found.contains(cluster.id.as_str()));
    }
    let agents = AgentColumns::of(hub, format).await?;
    let clusters = List { items: clusters };
    let row = |cluster: &Cluster| cells(cluster, &agents);
    Ok(output::show_list(
        format,
        &clusters,
        "clusters",
        &columns(),
        row,
    )?)
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

async fn get(
    hub: &HubClient,
    name: &str,
    watch: bool,
    format: &OutputFormat,
) -> Result<(), Failure> {
    let cluster = find(hub, name).await?;
    if watch {
        let path = format!("/clusters/{}", cluster.id);
        let fetch = async || {
            Ok(hub
                .get_optional::<Cluster>(&path)
                .await?
                .into_iter()
                .collect())
        };
        let watched = Watched {
            scope: WatchScope::One,
            by_status: false,
        };
        return watched::watch(hub, format, watched, fetch).await;
    }
    let agents = AgentColumns::of(hub, format).await?;
    Ok(output::show(format, &cluster, |cluster| {
        let lines = [
            place_line(cluster),
            repository_line(cluster),
            clone_line(cluster),
        ];
        let rows = [cells(cluster, &agents)];
        output::table(format, &columns(), rows) + &lines.concat()
    })?)
}

/// Refuses a display name of another cluster of the tenant, because commands could find neither by name.
async fn refuse_used_name(hub: &HubClient, cluster: &Cluster, name: &str) -> Result<(), Failure> {
    let query = query_of([
        ("tenant", Some(cluster.tenant.as_str())),
        ("text", Some(name)),
    ]);
    let like_it: Vec<Cluster> = hub.get(&format!("/clusters?{query}")).await?;
    let uses = |it: &&Cluster| it.display_name == name || it.id.as_str() == name;
    let mut others = like_it.iter().filter(|it| it.id != cluster.id);
    let Some(other) = others.find(uses) else {
        return Ok(());
    };
    let cause = format!(
        "the tenant {} has the cluster {} with the name {:?} already",
        cluster.tenant, other.id, other.display_name
    );
    let failure = Failure::with_cause(Code::Conflict, cause);
    Err(failure
        .next("Choose another name, or allow two of one name with `--allow-duplicate-name`."))
}

pub(crate) fn named_tenant(name: &str) -> Result<TenantId, Failure> {
    TenantId::from_name(name)
        .map_err(|error| Failure::because(Code::Invalid, format_args!("--tenant: {error}")))
}

/// Tenant of the caller, else the default tenant.
pub(crate) async fn own_tenant(hub: &HubClient) -> Result<TenantId, Failure> {
    let who: WhoAmI = hub.get("/v1/whoami").await?;
    who.tenant.map_or_else(|| named_tenant("t-default"), Ok)
}
