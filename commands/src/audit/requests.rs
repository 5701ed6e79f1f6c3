//! `fairlead audit requests`: events of requests with their callers.

use fairlead_api::{ClusterId, Failure, resources::List};
use fairlead_audit::{AuditEvent, timestamp};
use fairlead_client::{Environment, HubClient, lookup::id_of, query_of};
use time::OffsetDateTime;

use crate::{
    args,
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

pub(crate) fn run(args: &args::AuditRequests, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let cluster = match &args.cluster {
            Some(name) => Some(id_of(&hub, name).await?),
            None => None,
        };
        let (events, goes_on) = events(&hub, &query(args, cluster.as_ref()), args.limit).await?;
        output::show_list(&args.output.output, &events, "requests", &columns(), cells)?;
        if goes_on {
            output::note("there is more: raise --limit, or narrow the filter");
        }
        Ok(())
    })?
}

/// Reads the requested number of events; true if there are more.
async fn events(
    hub: &HubClient,
    query: &str,
    limit: u16,
) -> Result<(List<AuditEvent>, bool), Failure> {
    let mut items: Vec<AuditEvent> = Vec::new();
    let mut next = Some(format!("/v1/audit/requests?{query}"));
    while let Some(path) = next {
        // A page may be empty: the hub scans the log in bounded steps.
        let (page, behind): (List<AuditEvent>, _) = hub.get_page(&path).await?;
        items.extend(page.items);
        if items.len() >= usize::from(limit) {
            let goes_on = behind.is_some() || items.len() > usize::from(limit);
            items.truncate(usize::from(limit));
            return Ok((List { items }, goes_on));
        }
        next = behind;
    }
    Ok((List { items }, false))
}

fn query(args: &args::AuditRequests, cluster: Option<&ClusterId>) -> String {
    let since = args.since.map(|since| OffsetDateTime::now_utc() - since.0);
    query_of([
        ("caller", args.caller.clone()),
        ("cluster", cluster.map(ToString::to_string)),
        ("verb", args.verb.clone()),
        ("id", args.id.clone()),
        ("since", since.map(timestamp)),
        ("stage", Some(args.stage.clone())),
        ("limit", Some(args.limit.to_string())),
    ])
}

fn columns() -> [TableColumn; 8] {
    [
        TableColumn::word("AT"),
        TableColumn::text("CALLER"),
        TableColumn::id("CLUSTER"),
        TableColumn::word("VERB"),
        TableColumn::text("RESOURCE").spare(1),
        TableColumn::word("DECISION"),
        TableColumn::word("STATUS"),
        TableColumn::word("ID").wide(),
    ]
}

fn cells(event: &AuditEvent) -> [Cell; 8] {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let decision = event.decision.map(|it| format!("{it:?}").to_lowercase());
    [
        event.at.clone().into(),
        event
            .caller
            .as_ref()
            .map(|caller| caller.name.clone())
            .unwrap_or_default()
            .into(),
        text(&event.cluster).into(),
        text(&event.verb).into(),
        resource(event).into(),
        decision.unwrap_or_default().into(),
        event
            .status
            .map(|status| status.to_string())
            .unwrap_or_default()
            .into(),
        text(&event.id).into(),
    ]
}

/// Like `shop/pods/web-0/exec`, or the path of other requests.
fn resource(event: &AuditEvent) -> String {
    let Some(resource) = &event.resource else {
        return event.path.clone().unwrap_or_default();
    };
    let parts = [
        &resource.namespace,
        &resource.resource,
        &resource.name,
        &resource.subresource,
    ];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(String::as_str)
        .collect();
    parts.join("/")
}
