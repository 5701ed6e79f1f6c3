//! `fairlead find`: search for clusters by their facts.

use fairlead_api::{
    Code, Failure,
    facts::{ClusterMatch, FIND_PATH, FactMatch},
    percent,
    resources::List,
};
use fairlead_client::{Environment, HubClient};

use crate::{
    args,
    output::{self, Cell, TableColumn, short},
    runtime::block_on,
};

pub(crate) fn run(args: args::Find, environment: &Environment) -> Result<(), Failure> {
    let query = query(&args.terms)?;
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let found: List<ClusterMatch> = hub.get(&format!("{FIND_PATH}?{query}")).await?;
        let format = &args.output.output;
        if output::report_if_empty(format, found.items.len(), "clusters") {
            return Ok(());
        }
        let shown = output::show(format, &found, |found| {
            output::table(format, &columns(), found.items.iter().flat_map(rows))
        });
        Ok::<_, Failure>(shown?)
    })?
}

/// Query parameters of pairs of kind and term.
///
/// # Errors
/// `FL-4109` if the last kind has no term.
fn query(terms: &[String]) -> Result<String, Failure> {
    let mut words = terms.iter().peekable();
    let mut pairs = Vec::new();
    while let Some(kind) = words.next() {
        let Some(term) = words.next() else {
            let cause = format_args!("{kind:?} has no term");
            return Err(Failure::because(Code::Invalid, cause));
        };
        let mut term = term.clone();
        // A range may be a word of its own, behind the name of a service or component.
        if matches!(kind.as_str(), "service" | "component")
            && let Some(range) = words.next_if(|word| word.starts_with(['<', '>', '=', '!']))
        {
            term.push_str(range);
        }
        pairs.push(format!(
            "{}={}",
            percent::encode(kind),
            percent::encode(&term)
        ));
    }
    Ok(pairs.join("&"))
}

fn columns() -> [TableColumn; 6] {
    [
        TableColumn::id("NAME").spare(2),
        TableColumn::key("ID"),
        TableColumn::id("TENANT").spare(1),
        TableColumn::text("FACT").spare(3),
        TableColumn::text("VALUE").spare(5),
        TableColumn::word("STALE").spare(4),
    ]
}

fn rows(cluster: &ClusterMatch) -> impl Iterator<Item = [Cell; 6]> {
    cluster.matches.iter().map(|found| {
        [
            cluster.display_name.clone().into(),
            cluster.id.to_string().into(),
            cluster.tenant.to_string().into(),
            name(found).into(),
            short(&found.value).into(),
            if found.stale { "stale" } else { "" }.into(),
        ]
    })
}

fn name(found: &FactMatch) -> String {
    match &found.key {
        Some(key) => format!("{} {key}", found.fact),
        None => found.fact.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_in_pairs() {
        let terms =
            |words: &[&str]| query(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(terms(&["version", "<1.31"]).unwrap(), "version=%3C1.31");
        assert_eq!(
            terms(&["host", "a.b", "fact", "x=y&z"]).unwrap(),
            "host=a.b&fact=x%3Dy%26z"
        );
        let apart = ["component", "ingress-nginx", "<4.11", "version", "<1.31"];
        assert_eq!(
            terms(&apart).unwrap(),
            "component=ingress-nginx%3C4.11&version=%3C1.31"
        );
        assert!(terms(&["host", "a.b", "fact"]).is_err());
    }
}
