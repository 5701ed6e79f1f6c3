//! Clusters in the state that they reach after Steward and Commodore have run, created through the API.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::hub::{
    client::{Answer, HubRequest},
    process::Hub,
};

/// Concurrent writers. The hub commits their changes together.
const WRITER_COUNT: usize = 16;
const TENANT_COUNT: usize = 20;
/// Clusters whose Steward has registered.
pub(super) const STEWARD_COUNT: usize = 64;

/// The PATCH that Steward sends once a minute.
pub(super) fn stewards_patch(counter: usize) -> Value {
    json!({
        "gitRepo": { "deployKey": format!("ssh-rsa {}\n", "AAAAB3NzaC1yc2EAAAADAQABAAACAQDb".repeat(22)) },
        "facts": { "cloud": "cloudscale", "region": "lpg", "distribution": "openshift4" },
        "dynamicFacts": {
            "kubernetesVersion": {
                "major": "1", "minor": "31", "gitVersion": "v1.31.4+a1b2c3d",
                "gitCommit": "0123456789abcdef0123456789abcdef01234567", "gitTreeState": "clean",
                "buildDate": "2026-10-01T12:00:00Z", "goVersion": "go1.24.2", "compiler": "gc",
                "platform": "linux/amd64",
            },
            "openshiftVersion": { "Major": "4", "Minor": "18", "Patch": "9" },
            "counter": counter.to_string(),
        },
    })
}

pub(super) fn id(number: usize) -> String {
    format!("c-bench-{number:05}")
}

fn cluster(number: usize) -> Value {
    json!({
        "id": id(number),
        "tenant": format!("t-bench-{:02}", number % TENANT_COUNT),
        "displayName": format!("Benchmark {number}"),
        "annotations": { "monitoring.example.com/team": "platform" },
        "gitRepo": {
            "url": format!("ssh://git@git.example.com/catalogs/{}.git", id(number)),
            "type": "unmanaged",
        },
        "facts": { "cloud": "cloudscale", "region": "lpg", "distribution": "openshift4" },
        "dynamicFacts": stewards_patch(0).get("dynamicFacts"),
    })
}

/// Creates the clusters from `from` up to `to`.
pub(super) async fn grow(hub: &Hub, from: usize, to: usize) -> anyhow::Result<()> {
    let mut caller = hub.caller()?;
    if from == 0 {
        for number in 0..TENANT_COUNT {
            let repo =
                json!({ "url": "ssh://git@git.example.com/tenant.git", "type": "unmanaged" });
            let body = json!({ "id": format!("t-bench-{number:02}"), "gitRepo": repo });
            caller
                .good(&HubRequest::post("/tenants", &body), &hub.token)
                .await?;
        }
    }
    let next = Arc::new(AtomicUsize::new(from));
    let mut makers = JoinSet::new();
    for _ in 0..WRITER_COUNT {
        let (mut caller, next, token) = (hub.caller()?, Arc::clone(&next), hub.token.clone());
        makers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= to {
                    return anyhow::Ok(());
                }
                let request = HubRequest::post("/clusters", &cluster(number));
                caller.good(&request, &token).await?;
                if number % 1000 == 999 {
                    eprintln!("  {} of {to} clusters", number + 1);
                }
            }
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

/// Tokens of the Stewards of the first clusters. Each of them has reported its facts.
pub(super) async fn stewards(hub: &Hub) -> anyhow::Result<Vec<(String, String)>> {
    let mut caller = hub.caller()?;
    let mut stewards = Vec::new();
    for number in 0..STEWARD_COUNT {
        let path = format!("/clusters/{}", id(number));
        let shown = caller.good(&HubRequest::get(&path), &hub.token).await?;
        let url = text(&shown, "/installURL")?;
        let (_, query) = url.split_once('?').context("an install URL has a token")?;
        let request = HubRequest::get(format!("/install/steward.json?{query}"));
        let manifests = caller.good(&request, &hub.token).await?;
        let token = text(&manifests, "/items/5/stringData/token")?;
        let request = HubRequest::patch(&path, &stewards_patch(0));
        caller.good(&request, &token).await?;
        stewards.push((path, token));
    }
    Ok(stewards)
}

fn text(answer: &Answer, pointer: &str) -> anyhow::Result<String> {
    let body: Value = serde_json::from_slice(&answer.body)?;
    let text = body.pointer(pointer).and_then(Value::as_str);
    Ok(text
        .with_context(|| format!("{pointer} is missing"))?
        .to_owned())
}
