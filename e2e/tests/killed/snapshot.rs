//! Everything visible at a hub: all objects of all writers, and the log.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    client::{LoadClient, Request},
    operation::{CLUSTER, LoadStep, LoadWorld, TENANT, TOKEN},
};

/// A change in the log, and its writer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) revision: u64,
    pub(crate) writer: usize,
    pub(crate) step: LoadStep,
}

/// State of a hub at one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) log: Vec<Logged>,
    worlds: BTreeMap<usize, LoadWorld>,
    /// Ids of tokens, by name.
    pub(crate) ids: BTreeMap<String, String>,
}

impl Snapshot {
    /// Reads all objects, and the complete log since `since`.
    pub(crate) async fn at(
        client: &mut LoadClient,
        token: &str,
        since: u64,
    ) -> anyhow::Result<Self> {
        let mut get = async |path: &str| client.good(&Request::get(path, token)).await;
        let mut lines = Vec::new();
        let mut revision = since;
        loop {
            let page = get(&format!("/v1/changes?since={revision}")).await?;
            let (now, more) = read_page(&page)?;
            ensure!(now >= revision, "the revision goes back: {revision} {now}");
            revision = now;
            if more.is_empty() {
                break;
            }
            lines.extend(more);
        }
        let mut seen = Snapshot {
            revision,
            log: whole_log(since, revision, &lines)?,
            worlds: BTreeMap::new(),
            ids: BTreeMap::new(),
        };
        let (tenants, clusters) = (get("/tenants").await?, get("/clusters").await?);
        let bootstrap = get("/v1/bootstrap-tokens").await?;
        let tokens = get("/v1/tokens").await?;
        let end = get("/v1/changes").await?;
        ensure!(read_page(&end)?.0 == revision, "somebody writes: {end}");

        let bootstrap = list(&bootstrap["items"])?.iter();
        let bootstrap: BTreeMap<_, _> = bootstrap.map(|it| (text(&it["cluster"]), it)).collect();
        for tenant in list(&tenants)? {
            let shown =
                json!({ "displayName": tenant["displayName"], "version": tenant["version"] });
            seen.put(TENANT, &tenant["id"], shown);
        }
        for cluster in list(&clusters)? {
            let token = bootstrap.get(text(&cluster["id"]));
            let token = token.context("a cluster without a bootstrap token")?;
            seen.put(CLUSTER, &cluster["id"], shown(cluster, token));
        }
        for token in list(&tokens["items"])? {
            let shown = json!({ "role": token["role"], "cluster": token["cluster"] });
            seen.put(TOKEN, &token["name"], shown);
            let (name, id) = (text(&token["name"]), text(&token["id"]));
            let before = seen.ids.insert(name.to_owned(), id.to_owned());
            ensure!(before.is_none() || name == "admin", "two tokens {name}");
        }
        Ok(seen)
    }

    fn put(&mut self, kind: &str, name: &Value, shown: Value) {
        let name = text(name);
        // Objects without a writer existed before the writers.
        if let (Some(writer), true) = (writer_of(name), name.contains('-')) {
            let world = self.worlds.entry(writer).or_default();
            world.insert(format!("{kind}{name}"), shown);
        }
    }

    pub(crate) fn world(&self, writer: usize) -> LoadWorld {
        self.worlds.get(&writer).cloned().unwrap_or_default()
    }

    /// Changes of one writer, in order.
    pub(crate) fn steps(&self, writer: usize) -> Vec<LoadStep> {
        let of_writer = self.log.iter().filter(|it| it.writer == writer);
        of_writer.map(|it| it.step.clone()).collect()
    }
}

fn shown(cluster: &Value, bootstrap: &Value) -> Value {
    let said = |field: &str| cluster.get(field).cloned().unwrap_or(json!({}));
    json!({
        "tenant": cluster["tenant"], "displayName": cluster["displayName"], "facts": cluster["facts"],
        "dynamicFacts": said("dynamicFacts"), "compileMeta": said("compileMeta"), "version": cluster["version"],
        "bootstrap": bootstrap["state"], "generation": bootstrap["generation"],
    })
}

fn list(of: &Value) -> anyhow::Result<&Vec<Value>> {
    of.as_array().with_context(|| format!("no list: {of}"))
}

fn text(of: &Value) -> &str {
    of.as_str().unwrap_or_default()
}

/// Parses a page of the log: its last revision and its lines.
pub(crate) fn read_page(page: &Value) -> anyhow::Result<(u64, Vec<Value>)> {
    let revision = page["revision"].as_u64();
    let revision = revision.with_context(|| format!("no revision: {page}"))?;
    Ok((revision, list(&page["items"])?.clone()))
}

/// Checks that the log has each revision once, in order, and each of one writer.
pub(crate) fn whole_log(since: u64, until: u64, lines: &[Value]) -> anyhow::Result<Vec<Logged>> {
    let mut log: Vec<Logged> = Vec::new();
    for line in lines {
        let revision = line["revision"].as_u64().context("no revision")?;
        let writer = writer_of(text(&line["actor"]));
        let writer = writer.with_context(|| format!("whose is that? {line}"))?;
        let (kind, operation) = (text(&line["kind"]), text(&line["operation"]));
        let what = match kind {
            "token" => format!("{kind} {operation}"),
            _ => format!("{kind} {} {operation}", text(&line["id"])),
        };
        match log.last_mut().filter(|it| it.revision == revision) {
            Some(last) => {
                ensure!(last.writer == writer, "two writers at once: {line}");
                last.step.push(what);
            }
            None => log.push(Logged {
                revision,
                writer,
                step: vec![what],
            }),
        }
    }
    for (logged, revision) in log.iter().zip(since + 1..) {
        ensure!(
            logged.revision == revision,
            "in the log there is {logged:?} where {revision} should be"
        );
    }
    let last = log.last().map_or(since, |it| it.revision);
    ensure!(last == until, "the log ends at {last}, and not at {until}");
    log.iter_mut().for_each(|it| it.step.sort());
    Ok(log)
}

/// Checks that a log starts with `before`. The error names the first difference.
pub(crate) fn goes_on(log: &[Logged], before: &[Logged]) -> anyhow::Result<()> {
    let now = log.iter().map(Some).chain([None]);
    let mut both = before.iter().zip(now);
    let other = both.find(|(was, is)| Some(*was) != *is);
    ensure!(other.is_none(), "the log was, and is: {other:?}");
    Ok(())
}

/// Writer in names such as `w3`, `c-w3-17`, `agent:c-w3-17`.
fn writer_of(name: &str) -> Option<usize> {
    let mut parts = name.split(['-', ':']);
    parts.find_map(|part| part.strip_prefix('w')?.parse().ok())
}
