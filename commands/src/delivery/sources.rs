//! `fairlead source`: Git repositories whose folders become bundles.

use std::path::Path;

use fairlead_api::{
    Code, Failure, SourceId,
    delivery::{GitSource, Source},
    resources::{Credentials, List},
};
use fairlead_client::{Environment, HubClient, HubError, documents::DocumentKind, files, query_of};
use serde_json::json;

use super::removal::{confirmed, joined};
use crate::{
    apply, args,
    cluster::own_tenant,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
};

const SOURCES_PATH: &str = "/v1/sources";
/// Characters of a commit in a table, as of `git log --oneline`.
const COMMIT_CHARS: usize = 12;

pub(crate) fn source(command: args::SourceArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::SourceArgs::Add(asked) => add(&hub, asked).await,
            args::SourceArgs::List {
                tenant,
                text,
                output,
            } => {
                check_tenant(&hub, tenant.as_ref()).await?;
                let query = query_of([("tenant", tenant.map(|it| it.to_string())), ("text", text)]);
                let path = format!("{SOURCES_PATH}?{query}");
                let sources: List<Source> = hub.get(path.trim_end_matches('?')).await?;
                let format = &output.output;
                Ok::<_, Failure>(output::show_list(
                    format,
                    &sources,
                    "sources",
                    &columns(),
                    cells,
                )?)
            }
            args::SourceArgs::Get { id, output } => show(&output.output, &find(&hub, &id).await?),
            args::SourceArgs::Sync { id } => {
                find(&hub, &id).await?;
                let path = format!("{SOURCES_PATH}/{id}/sync");
                hub.order(&path).await?;
                let next = format!("`fairlead source get {id}` shows the result");
                Ok(output::print(&format!(
                    "The hub polls {id} now; {next}.\n"
                ))?)
            }
            args::SourceArgs::Apply(args) => apply::run(&hub, DocumentKind::Source, args).await,
            args::SourceArgs::Delete { id, yes } => {
                find(&hub, &id).await?;
                confirm(
                    yes,
                    &format!("This deletes {id}; its bundles stay. Continue?"),
                )?;
                let path = format!("{SOURCES_PATH}/{id}");
                confirmed(yes, async |parameter| {
                    hub.delete(&joined(&path, parameter)).await
                })
                .await?;
                Ok(output::print(&format!(
                    "Deleted {id}; its bundles stay.\n"
                ))?)
            }
        }
    })?
}

async fn add(hub: &HubClient, asked: args::SourceAdd) -> Result<(), Failure> {
    let tenant = match asked.tenant {
        Some(tenant) => tenant,
        None => own_tenant(hub).await?,
    };
    let git = GitSource {
        url: asked.git,
        reference: asked.reference,
        paths: asked.paths,
        credentials: asked.credentials.map(|name| Credentials {
            name,
            namespace: None,
        }),
        host_keys: asked.host_keys.as_deref().map(text).transpose()?,
        verify: asked.verify.as_deref().map(text).transpose()?,
    };
    let body = json!({ "tenant": tenant, "git": git, "prune": asked.prune });
    let path = format!("{SOURCES_PATH}/{}", asked.id);
    let source: Source = hub.put(&path, &body).await?;
    show(&asked.output.output, &source)
}

fn text(path: &Path) -> Result<String, Failure> {
    Ok(files::read(path)?)
}

async fn find(hub: &HubClient, id: &SourceId) -> Result<Source, Failure> {
    let found = hub.get(&format!("{SOURCES_PATH}/{id}")).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) => Failure::because(Code::NotFound, format_args!("the source {id}"))
            .next("List the sources with `fairlead source list`."),
        other => other.into(),
    })
}

fn show(format: &OutputFormat, source: &Source) -> Result<(), Failure> {
    Ok(output::show(format, source, |source| {
        let mut text = output::table(format, &columns(), [cells(source)]);
        if let Some(reason) = &source.reason {
            text += &format!("\nreason: {}\n", output::plain(reason));
        }
        text
    })?)
}

fn columns() -> [TableColumn; 8] {
    [
        TableColumn::key("ID"),
        TableColumn::id("TENANT").spare(3),
        TableColumn::id("URL"),
        TableColumn::id("REF"),
        TableColumn::word("COMMIT"),
        TableColumn::word("SINCE"),
        TableColumn::text("PATHS").wide(),
        TableColumn::text("REASON").spare(2),
    ]
}

fn cells(source: &Source) -> [Cell; 8] {
    let commit = source.commit.as_deref();
    let commit = commit.map(|it| it.chars().take(COMMIT_CHARS).collect::<String>());
    let reason = match source.suspended {
        true => Some("suspended".to_owned()),
        false if source.syncing => Some("waits for its poll".to_owned()),
        false => source.reason.clone(),
    };
    [
        source.id.to_string().into(),
        source.tenant.to_string().into(),
        source.git.url.clone().into(),
        source.git.reference.clone().into(),
        commit.into(),
        Cell::since(source.since),
        source.git.paths.join(", ").into(),
        reason.into(),
    ]
}
