//! `fairlead cluster effective|config|sessions|compiled`: data about a cluster outside of its document.

use fairlead_api::{
    Failure,
    config::AgentConfig,
    resources::{AgentSession, AgentSessionList, List},
};
use fairlead_client::{HubClient, lookup::find, query_of};
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    args,
    output::{self, Cell, OutputFormat, TableColumn, short},
    tenant_filter::check_tenant,
};

/// Path of a subresource of the cluster.
async fn of(hub: &HubClient, name: &str, path: &str) -> Result<String, Failure> {
    let id = find(hub, name).await?.id;
    Ok(format!("/v1/clusters/{id}/{path}"))
}

pub(super) async fn effective(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let path = of(hub, &asked.name, "effective").await?;
    let all: Map<String, Value> = hub.get(&path).await?;
    let names = |all: &Map<String, Value>| all.keys().map(|name| format!("{name}\n")).collect();
    let format = &asked.output.output;
    Ok(output::show_named(format, &all, names, |all| {
        effective_table(format, all)
    })?)
}

fn effective_table(format: &OutputFormat, all: &Map<String, Value>) -> String {
    let rows = all.iter().map(|(field, said)| {
        let value = said.get("value").map(short);
        let from = said.get("from").map(short);
        [Cell::from(field.clone()), value.into(), from.into()]
    });
    let columns = [
        TableColumn::id("FIELD"),
        TableColumn::text("VALUE"),
        TableColumn::word("FROM"),
    ];
    output::table(format, &columns, rows)
}

pub(super) async fn config(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let path = of(hub, &asked.name, "config").await?;
    let config: AgentConfig = hub.get(&path).await?;
    let names = |config: &AgentConfig| {
        let settings = settings(config).into_iter();
        settings.map(|[name, _]| name + "\n").collect()
    };
    let format = &asked.output.output;
    Ok(output::show_named(format, &config, names, |config| {
        let columns = [TableColumn::id("SETTING"), TableColumn::text("VALUE")];
        let rows = settings(config).into_iter().map(|row| row.map(Cell::from));
        output::table(format, &columns, rows)
    })?)
}

fn settings(config: &AgentConfig) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    let config = serde_json::to_value(config).unwrap_or_default();
    flatten("", &config, &mut rows);
    rows
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, rows);
            }
        }
        Value::Array(items) if items.is_empty() => rows.push([path.to_owned(), "none".to_owned()]),
        value => rows.push([path.to_owned(), short(value)]),
    }
}

pub(super) async fn sessions(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let path = of(hub, &asked.name, "sessions").await?;
    let AgentSessionList {
        items,
        incomplete_hubs,
    } = hub.get(&path).await?;
    let format = &asked.output.output;
    output::show_list(
        format,
        &List { items },
        "sessions",
        &session_columns(),
        session_cells,
    )?;
    for hub in incomplete_hubs {
        output::note(&format!(
            "Sessions at {hub} are missing: it did not answer in time."
        ));
    }
    Ok(())
}

pub(super) fn session_columns() -> [TableColumn; 13] {
    [
        TableColumn::id("INSTANCE"),
        TableColumn::word("FROM"),
        TableColumn::word("LINK"),
        TableColumn::word("REQUESTS").spare(1),
        TableColumn::word("RTT"),
        TableColumn::word("AGE"),
        TableColumn::word("AGENT").wide(),
        TableColumn::word("LAST PROBE").wide(),
        TableColumn::word("RECOGNISED").wide(),
        TableColumn::word("OPENED").wide(),
        TableColumn::word("LAST GOOD PROBE").wide(),
        TableColumn::word("CERTIFICATE EXPIRES").wide(),
        TableColumn::word("HUB").wide(),
    ]
}

pub(super) fn session_cells(session: &AgentSession) -> [Cell; 13] {
    let probe = session.last_good_probe;
    [
        session.instance.to_string().into(),
        session.from.to_string().into(),
        if session.up { "up" } else { "down" }.into(),
        session.requests.to_string().into(),
        session.rtt_micros.map(rtt).into(),
        Cell::Since(session.opened),
        session.agent_version.clone().into(),
        Cell::since(probe),
        if session.recognised { "yes" } else { "no" }.into(),
        output::time(session.opened).into(),
        probe.map(output::time).into(),
        output::time(session.certificate_expires).into(),
        session.hub.as_ref().map(ToString::to_string).into(),
    ]
}

/// Formats microseconds as milliseconds.
pub(super) fn rtt(micros: u64) -> String {
    format!("{:.1}ms", micros as f64 / 1000.0)
}

pub(super) async fn compiled(hub: &HubClient, asked: args::Compiled) -> Result<(), Failure> {
    check_tenant(hub, asked.tenant.as_ref()).await?;
    let query = query_of([
        ("component", asked.component),
        ("below", asked.below),
        ("staleDays", asked.stale_days.map(|days| days.to_string())),
        ("tenant", asked.tenant.map(|id| id.to_string())),
    ]);
    let path = format!("/v1/compile-meta?{query}");
    let found: List<Value> = hub.get(&path).await?;
    let format = &asked.output.output;
    Ok(output::show_list(
        format,
        &found,
        "compiled components",
        &compiled_columns(),
        compiled_cells,
    )?)
}

fn compiled_columns() -> [TableColumn; 7] {
    [
        TableColumn::id("CLUSTER"),
        TableColumn::id("TENANT").spare(1),
        TableColumn::text("INSTANCE").spare(3),
        TableColumn::text("COMPONENT"),
        TableColumn::text("VERSION"),
        TableColumn::word("AGE").spare(2),
        TableColumn::word("COMPILED").wide(),
    ]
}

fn compiled_cells(item: &Value) -> [Cell; 7] {
    let text = |field: &str| item.get(field).map(short);
    let compiled = text("lastCompile");
    let at = compiled
        .as_deref()
        .and_then(|it| OffsetDateTime::parse(it, &Rfc3339).ok());
    [
        text("cluster").into(),
        text("tenant").into(),
        text("instance").into(),
        text("component").into(),
        text("version").into(),
        Cell::since(at),
        compiled.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_shown_setting_by_setting() {
        let config = AgentConfig {
            agent_version: Some("1.2.3".to_owned()),
            allow_connect: Some(Vec::new()),
            ..AgentConfig::default()
        };
        let settings = settings(&config);
        let of = |name: &str| {
            let found = settings.iter().find(|[known, _]| known == name);
            found.map(|[_, value]| value.as_str())
        };
        assert_eq!(of("agentVersion"), Some("1.2.3"));
        assert_eq!(of("allowConnect"), Some("none"));
        assert_eq!(of("facts.contactPrefixes"), Some("a8r.io/"));
    }
}
