//! `fairlead facts`: current facts and their history.

use std::collections::BTreeSet;

use fairlead_api::{
    Code, Failure,
    facts::{ClusterFact, FactHistoryEntry},
    percent,
    resources::List,
};
use fairlead_client::{Environment, HubClient, lookup::find};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    args,
    output::{self, Cell, OutputFormat, TableColumn, short},
    runtime::block_on,
};

/// Default period of the history of all clusters.
const DEFAULT_PERIOD: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Limit of history entries per command.
const MAX_ENTRIES: usize = 100_000;
/// Entries per page, the limit of the hub.
const PAGE_ENTRIES: u32 = 10_000;

pub(crate) fn run(args: args::FactsArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(ask(&hub, args))?
}

async fn ask(hub: &HubClient, args: args::FactsArgs) -> Result<(), Failure> {
    let format = &args.output.output;
    let since = args.since.map(|since| since.0);
    let Some(name) = &args.name else {
        let fact = args.fact.as_deref().unwrap_or_default();
        let from = ago(since.unwrap_or(DEFAULT_PERIOD))?;
        let path = format!("/v1/facts/{}/changes?from={from}", percent::encode(fact));
        let past = whole(hub, &path).await?;
        if *format == OutputFormat::Name {
            let clusters: BTreeSet<_> =
                past.items.iter().map(|it| it.cluster.to_string()).collect();
            let lines = clusters.into_iter().map(|cluster| cluster + "\n");
            return Ok(output::print(&lines.collect::<String>())?);
        }
        return Ok(output::show_list(
            format,
            &past,
            "changes of this fact",
            &past_columns(),
            past_cells,
        )?);
    };
    let id = find(hub, name).await?.id;
    let fact = args.fact.as_deref();
    if args.at.is_none() && since.is_none() {
        let mut known: List<ClusterFact> = hub.get(&format!("/v1/clusters/{id}/facts")).await?;
        known
            .items
            .retain(|it| fact.is_none_or(|fact| it.name == fact));
        if let (Some(fact), true) = (fact, known.items.is_empty()) {
            let cause = format!("{id} has no fact {fact:?}");
            let next = format!("List its facts with `fairlead facts {id}`.");
            return Err(Failure::with_cause(Code::NotFound, cause).next(next));
        }
        return Ok(output::show_list(
            format,
            &known,
            "facts",
            &columns(),
            cells,
        )?);
    }
    let when = match (&args.at, since) {
        (Some(at), _) => format!("at={}", percent::encode(at)),
        (None, since) => format!("from={}", ago(since.unwrap_or(DEFAULT_PERIOD))?),
    };
    let fact = fact.map_or(String::new(), |fact| {
        format!("&fact={}", percent::encode(fact))
    });
    let path = format!("/v1/clusters/{id}/facts/history?{when}{fact}");
    let past = whole(hub, &path).await?;
    Ok(output::show_list(
        format,
        &past,
        "facts of that time",
        &past_columns(),
        past_cells,
    )?)
}

/// Reads all pages of a history up to the limit, and reports if there is more.
async fn whole(hub: &HubClient, path: &str) -> Result<List<FactHistoryEntry>, Failure> {
    let mut past = List { items: Vec::new() };
    let mut next = Some(format!("{path}&limit={PAGE_ENTRIES}"));
    while let Some(path) = next {
        if past.items.len() >= MAX_ENTRIES {
            eprintln!(
                "the history has more than these {} entries: choose a shorter period",
                past.items.len()
            );
            break;
        }
        let (page, behind): (List<FactHistoryEntry>, _) = hub.get_page(&path).await?;
        past.items.extend(page.items);
        next = behind;
    }
    Ok(past)
}

/// Start of a period until now, escaped for a query.
fn ago(span: std::time::Duration) -> Result<String, Failure> {
    let failed = |_| Failure::because(Code::Invalid, "--since reaches back too far");
    let span = Duration::try_from(span).map_err(|_| failed(()))?;
    let from = OffsetDateTime::now_utc()
        .checked_sub(span)
        .ok_or(())
        .map_err(failed)?;
    let text = from.format(&Rfc3339).map_err(|_| failed(()))?;
    Ok(percent::encode(&text))
}

pub(crate) fn columns() -> [TableColumn; 8] {
    [
        TableColumn::id("FACT"),
        TableColumn::text("VALUE"),
        TableColumn::word("SOURCE"),
        TableColumn::word("AGE"),
        TableColumn::word("REPORTED").spare(1),
        TableColumn::word("STALE"),
        TableColumn::word("SINCE").wide(),
        TableColumn::word("LAST REPORTED").wide(),
    ]
}

pub(crate) fn cells(fact: &ClusterFact) -> [Cell; 8] {
    [
        fact.name.clone().into(),
        short(&fact.value).into(),
        fact.source.as_str().into(),
        Cell::Since(fact.received),
        Cell::Since(fact.last_reported),
        if fact.stale { "stale" } else { "" }.into(),
        output::time(fact.received).into(),
        output::time(fact.last_reported).into(),
    ]
}

fn past_columns() -> [TableColumn; 6] {
    [
        TableColumn::word("AGE"),
        TableColumn::word("AT").wide(),
        TableColumn::id("CLUSTER"),
        TableColumn::id("FACT"),
        TableColumn::text("VALUE"),
        TableColumn::word("SOURCE"),
    ]
}

fn past_cells(fact: &FactHistoryEntry) -> [Cell; 6] {
    let value = fact.value.as_ref();
    [
        Cell::Since(fact.at),
        output::time(fact.at).into(),
        fact.cluster.to_string().into(),
        fact.name.clone().into(),
        value.map_or("(removed)".to_owned(), short).into(),
        fact.source.as_str().into(),
    ]
}
