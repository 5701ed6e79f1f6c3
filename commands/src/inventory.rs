//! `fairlead inventory`: stores facts, and queries their history in a subset of InfluxQL.

use std::path::PathBuf;

use fairlead_api::{Code, Failure, percent};
use fairlead_client::{Environment, HubClient, files, lookup::find};
use http::Method;
use serde_json::{Value, json};

use crate::{
    args,
    output::{self, OutputFormat, short},
    runtime::block_on,
};

pub(crate) fn run(command: args::InventoryArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::InventoryArgs::Query {
                query,
                backend,
                output,
            } => {
                let backend = backend.map_or(String::new(), |name| format!("&backend={name}"));
                let path = format!("/inventory?q={}{backend}", percent::encode(&query));
                let answer: Value = hub.get(&path).await?;
                let format = &output.output;
                Ok::<_, Failure>(output::show(format, &answer, |answer| {
                    tables(format, answer)
                })?)
            }
            args::InventoryArgs::Store { cluster, file } => store(&hub, &cluster, file).await,
        }
    })?
}

async fn store(hub: &HubClient, name: &str, file: PathBuf) -> Result<(), Failure> {
    let mut texts = files::texts(&[file])?.into_iter();
    let (Some((from, text)), None) = (texts.next(), texts.next()) else {
        return Err(Failure::because(Code::Invalid, "one document is stored"));
    };
    let facts: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Failure::because(Code::Invalid, format_args!("{from}: {error}")))?;
    let Value::Object(facts) = facts else {
        let detail = format_args!("{from}: it takes an object, a fact in each entry");
        return Err(Failure::because(Code::Invalid, detail));
    };
    let id = find(hub, name).await?.id;
    let count = facts.len();
    let body = json!({ "cluster": id, "inventory": facts });
    hub.send_json(Method::POST, "/inventory", &body).await?;
    Ok(output::print(&format!("Stored {count} facts of {id}.\n"))?)
}

/// One table per series, like InfluxDB's own client.
fn tables(format: &OutputFormat, answer: &Value) -> String {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let results = list(answer.pointer("/inventory/results"));
    let series = results.iter().flat_map(|result| list(result.get("series")));
    let table = |one: Value| {
        let tags = one.get("tags").and_then(Value::as_object);
        let tags = tags.into_iter().flatten();
        let tags: String = tags
            .map(|(tag, is)| format!(" {tag}={}", short(is)))
            .collect();
        let name = one.get("name").map(short).unwrap_or_default();
        let columns = list(one.get("columns")).iter().map(short).collect();
        let rows = list(one.get("values"));
        let rows = rows
            .iter()
            .map(|row| list(Some(row)).iter().map(short).collect());
        format!(
            "{name}{tags}\n{}",
            output::named_table(format, columns, rows.collect())
        )
    };
    let tables: Vec<String> = series.map(table).collect();
    tables.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_is_a_table() {
        let answer = json!({ "cluster": "", "inventory": { "results": [{ "statement_id": 0, "series": [
            { "name": "nodes", "tags": { "cluster": "c-one" }, "columns": ["time", "last"], "values": [["t", 4]] },
            { "name": "site", "columns": ["time", "value"], "values": [["t", "Berlin"], ["u", null]] },
        ] }] } });
        assert_eq!(
            tables(&OutputFormat::Wide, &answer),
            "nodes cluster=c-one\ntime  last\nt     4\n\nsite\ntime  value\nt     Berlin\nu\n"
        );
        assert_eq!(
            tables(
                &OutputFormat::Wide,
                &json!({ "inventory": { "results": [{}] } })
            ),
            ""
        );
    }
}
