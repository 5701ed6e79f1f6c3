//! `fairlead find`: search for clusters by their facts.

use fairlead_api::{
    Code, Failure, TenantId,
    facts::{ClusterMatch, FIND_PATH, FactMatch},
    percent,
    resources::List,
};
use serde_json::Value;

use crate::{
    args,
    environment::Environment,
    hub_client::HubClient,
    output::{self, Cell, Column},
    settings::block_on,
};

pub(crate) fn run(args: args::Find, environment: &Environment) -> Result<(), Failure> {
    let query = query(&args.terms)?;
    let hub = HubClient::of(environment)?;
    block_on(async {
        let found: List<ClusterMatch> = hub.get(&format!("{FIND_PATH}?{query}")).await?;
        let format = &args.output.output;
        if output::is_nothing(format, found.items.len(), "clusters") {
            return Ok(());
        }
        output::show(format, &found, |found| {
            output::table(format, &columns(), found.items.iter().flat_map(rows))
        })
    })?
}

/// Query parameters of pairs of kind and term.
///
/// # Errors
/// `FL-4109` if the last kind has no term.
fn query(terms: &[String]) -> Result<String, Failure> {
    let pairs = terms.chunks(2).map(|pair| match pair {
        [kind, term] => Ok(format!(
            "{}={}",
            percent::encode(kind),
            percent::encode(term)
        )),
        _ => Err(Failure::because(
            Code::Invalid,
            format_args!("{pair:?} stands alone: what must it be?"),
        )),
    });
    Ok(pairs.collect::<Result<Vec<_>, _>>()?.join("&"))
}

/// Checks that the tenant of a filter exists; an unknown tenant would yield an empty list without a reason.
///
/// # Errors
/// `FL-4107` for an unknown tenant.
pub(crate) async fn check_tenant(
    hub: &HubClient,
    tenant: Option<&TenantId>,
) -> Result<(), Failure> {
    let Some(id) = tenant else {
        return Ok(());
    };
    match hub.find::<Value>(&format!("/tenants/{id}")).await? {
        Some(_) => Ok(()),
        None => {
            let cause = format!("--tenant: no tenant with the id {id} is known to you");
            let next = "List the tenants with `fairlead tenant list`.";
            Err(Failure::with_cause(Code::NotFound, cause).next(next))
        }
    }
}

/// Query string of the parameters that have a value.
pub(crate) fn query_of<'a>(
    given: impl IntoIterator<Item = (&'a str, Option<impl AsRef<str>>)>,
) -> String {
    let given = given.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", percent::encode(value.as_ref())))
    });
    given.collect::<Vec<_>>().join("&")
}

fn columns() -> [Column; 6] {
    [
        Column::id("NAME").spare(2),
        Column::key("ID"),
        Column::id("TENANT").spare(1),
        Column::text("FACT").spare(3),
        Column::text("VALUE").spare(5),
        Column::word("STALE").spare(4),
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

/// Shortens a value to one line of a table.
pub(crate) fn short(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    };
    // Values from clusters must not contain terminal escapes.
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.clone().take(LONGEST).collect();
    if plain.count() > LONGEST {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert!(terms(&["host", "a.b", "fact"]).is_err());
    }

    #[test]
    fn short_value_is_one_line() {
        assert_eq!(short(&json!(["a", "b"])), "a, b");
        assert_eq!(short(&json!("a\n\u{1b}[31m")), "a  [31m");
        assert_eq!(short(&json!("x".repeat(70))).chars().count(), 61);
    }
}
