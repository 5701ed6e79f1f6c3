//! `fairlead facts`.

use std::collections::BTreeSet;

use fairlead_api::{
    Code, Failure,
    facts::{KnownFact, PastFact},
    resources::List,
};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    args, cluster,
    environment::Environment,
    find::{escaped, short},
    hub_client::HubClient,
    output::{self, Format},
    settings::block_on,
};

/// Without a cluster, where nobody says how long.
const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// More versions than this are not asked for at once.
const MOST: usize = 100_000;
/// As many as the hub gives in one answer.
const PAGE: u32 = 10_000;

pub(crate) fn run(args: args::Facts, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::of(environment)?;
    block_on(ask(&hub, args))?
}

async fn ask(hub: &HubClient, args: args::Facts) -> Result<(), Failure> {
    let format = &args.output.output;
    let since = args.since.map(|since| since.0);
    let Some(name) = &args.name else {
        let fact = args.fact.as_deref().unwrap_or_default();
        let from = ago(since.unwrap_or(DAY))?;
        let path = format!("/v1/facts/{}/changes?from={from}&limit=1000", escaped(fact));
        let past = whole(hub, &path).await?;
        if *format == Format::Name {
            let clusters: BTreeSet<_> =
                past.items.iter().map(|it| it.cluster.to_string()).collect();
            let lines = clusters.into_iter().map(|cluster| cluster + "\n");
            return output::print(&lines.collect::<String>());
        }
        return output::show(format, &past, |past| past_table(&past.items));
    };
    let id = cluster::find(hub, name).await?.id;
    let fact = args.fact.as_deref();
    if args.at.is_none() && since.is_none() {
        let mut known: List<KnownFact> = hub.get(&format!("/v1/clusters/{id}/facts")).await?;
        known
            .items
            .retain(|it| fact.is_none_or(|fact| it.name == fact));
        return output::show(format, &known, |known| table(&known.items));
    }
    let when = match (&args.at, since) {
        (Some(at), _) => format!("at={}", escaped(at)),
        (None, since) => format!("from={}", ago(since.unwrap_or(DAY))?),
    };
    let fact = fact.map_or(String::new(), |fact| format!("&fact={}", escaped(fact)));
    let path = format!("/v1/clusters/{id}/facts/history?{when}{fact}");
    let past = whole(hub, &path).await?;
    output::show(format, &past, |past| past_table(&past.items))
}

/// All pages of a history; where that is too much, it is said.
async fn whole(hub: &HubClient, path: &str) -> Result<List<PastFact>, Failure> {
    let mut past = List { items: Vec::new() };
    let mut next = Some(format!("{path}&limit={PAGE}"));
    while let Some(path) = next {
        if past.items.len() >= MOST {
            eprintln!(
                "there is more than these {} versions: ask for less time",
                past.items.len()
            );
            break;
        }
        let (page, behind): (List<PastFact>, _) = hub.page(&path).await?;
        past.items.extend(page.items);
        next = behind;
    }
    Ok(past)
}

/// As it may stand in a query.
fn ago(span: std::time::Duration) -> Result<String, Failure> {
    let failed = |_| Failure::because(Code::Invalid, "--since reaches back too far");
    let span = Duration::try_from(span).map_err(|_| failed(()))?;
    let from = OffsetDateTime::now_utc()
        .checked_sub(span)
        .ok_or(())
        .map_err(failed)?;
    let text = from.format(&Rfc3339).map_err(|_| failed(()))?;
    Ok(escaped(&text))
}

fn table(facts: &[KnownFact]) -> String {
    let row = |fact: &KnownFact| {
        [
            fact.name.clone(),
            short(&fact.value),
            fact.source.clone(),
            output::time(fact.received),
            output::time(fact.seen),
            if fact.stale { "stale" } else { "" }.to_owned(),
        ]
    };
    output::table(
        ["FACT", "VALUE", "SOURCE", "SINCE", "SEEN", ""],
        facts.iter().map(row),
    )
}

fn past_table(facts: &[PastFact]) -> String {
    let row = |fact: &PastFact| {
        [
            output::time(fact.at),
            fact.cluster.to_string(),
            fact.name.clone(),
            fact.value.as_ref().map_or("(removed)".to_owned(), short),
            fact.source.clone(),
        ]
    };
    output::table(
        ["AT", "CLUSTER", "FACT", "VALUE", "SOURCE"],
        facts.iter().map(row),
    )
}
