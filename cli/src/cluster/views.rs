//! `fairlead cluster effective|config|sessions|compiled`: what the hub knows of a cluster beside its document.

use fairlead_api::{
    Failure,
    config::AgentConfig,
    resources::{AgentSession, List},
};
use serde_json::{Map, Value};

use super::find;
use crate::{
    args,
    find::{query_of, short},
    hub_client::HubClient,
    output,
};

/// `path` behind the cluster.
async fn of(hub: &HubClient, name: &str, path: &str) -> Result<String, Failure> {
    let id = find(hub, name).await?.id;
    Ok(format!("/v1/clusters/{id}/{path}"))
}

pub(super) async fn effective(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let path = of(hub, &asked.name, "effective").await?;
    let all: Map<String, Value> = hub.get(&path).await?;
    let names = |all: &Map<String, Value>| all.keys().map(|name| format!("{name}\n")).collect();
    output::show_named(&asked.output.output, &all, names, effective_table)
}

fn effective_table(all: &Map<String, Value>) -> String {
    let rows = all.iter().map(|(field, said)| {
        let value = said.get("value").map(short);
        let from = said.get("from").map(short);
        [
            field.clone(),
            value.unwrap_or_default(),
            from.unwrap_or_default(),
        ]
    });
    output::table(["FIELD", "VALUE", "FROM"], rows)
}

pub(super) async fn config(hub: &HubClient, asked: args::OneCluster) -> Result<(), Failure> {
    let path = of(hub, &asked.name, "config").await?;
    let config: AgentConfig = hub.get(&path).await?;
    let names = |config: &AgentConfig| {
        let settings = settings(config).into_iter();
        settings.map(|[name, _]| name + "\n").collect()
    };
    output::show_named(&asked.output.output, &config, names, |config| {
        output::table(["SETTING", "VALUE"], settings(config))
    })
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
    let sessions: List<AgentSession> = hub.get(&path).await?;
    output::show(&asked.output.output, &sessions, |sessions| {
        session_table(&sessions.items)
    })
}

fn session_table(sessions: &[AgentSession]) -> String {
    let time = |at: Option<time::OffsetDateTime>| at.map_or(String::new(), output::time);
    let row = |session: &AgentSession| {
        let instance = session.instance.as_ref().map(ToString::to_string);
        let rtt = session
            .rtt_micros
            .map(|it| format!("{:.1}ms", it as f64 / 1000.0));
        [
            instance.unwrap_or_default(),
            session.from.to_string(),
            output::time(session.opened),
            if session.up { "up" } else { "down" }.to_owned(),
            if session.recognised { "yes" } else { "no" }.to_owned(),
            session.requests.to_string(),
            rtt.unwrap_or_default(),
            time(session.last_good_probe),
            output::time(session.certificate_until),
        ]
    };
    let header = [
        "INSTANCE",
        "FROM",
        "OPENED",
        "LINK",
        "RECOGNISED",
        "REQUESTS",
        "RTT",
        "LAST GOOD PROBE",
        "CERTIFICATE UNTIL",
    ];
    output::table(header, sessions.iter().map(row))
}

pub(super) async fn compiled(hub: &HubClient, asked: args::Compiled) -> Result<(), Failure> {
    let query = query_of([
        ("component", asked.component),
        ("below", asked.below),
        ("staleDays", asked.stale_days.map(|days| days.to_string())),
        ("tenant", asked.tenant.map(|id| id.to_string())),
    ]);
    let path = format!("/v1/compile-meta?{query}");
    let found: List<Value> = hub.get(&path).await?;
    output::show(&asked.output.output, &found, |found| {
        compiled_table(&found.items)
    })
}

fn compiled_table(found: &[Value]) -> String {
    let fields = [
        "cluster",
        "tenant",
        "instance",
        "component",
        "version",
        "lastCompile",
    ];
    let row = |item: &Value| fields.map(|field| item.get(field).map(short).unwrap_or_default());
    let header = [
        "CLUSTER",
        "TENANT",
        "INSTANCE",
        "COMPONENT",
        "VERSION",
        "COMPILED",
    ];
    output::table(header, found.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_told_setting_by_setting() {
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
