//! Plain requests at a steady rate, each on a connection of its own, to all clusters in turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fairlead_e2e::RawAnswer;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{light::CONFIG_MAPS, rig::LoadAccess, tally::PhaseTally};

/// Fifty requests in a second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// One request of this many is a write.
const WRITE_EVERY: usize = 5;
/// Length of a quoted answer.
const MAX_QUOTED_CHARS: usize = 300;

/// Sends requests until it is stopped.
pub(crate) async fn run(access: Arc<LoadAccess>, tally: Arc<PhaseTally>, stop: Arc<AtomicBool>) {
    let mut clock = interval(REQUEST_INTERVAL);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = JoinSet::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        clock.tick().await;
        number += 1;
        running.spawn(send(Arc::clone(&access), number, Arc::clone(&tally)));
        while running.try_join_next().is_some() {}
    }
}

async fn send(access: Arc<LoadAccess>, number: usize, tally: Arc<PhaseTally>) {
    let (name, id) = &access.clusters[number % access.clusters.len()];
    let is_write = number.is_multiple_of(WRITE_EVERY);
    let object = format!("write-{number}");
    let root = format!("/k8s/clusters/{id}{CONFIG_MAPS}");
    let common = format!(
        "host: 127.0.0.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n",
        access.token
    );
    let request = match is_write {
        false => format!("GET {root}/identity HTTP/1.1\r\n{common}\r\n"),
        true => {
            let data = json!({ "cluster": name });
            let body = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": object }, "data": data });
            let body = body.to_string();
            let length = body.len();
            format!(
                "POST {root} HTTP/1.1\r\n{common}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        }
    };
    let began = Instant::now();
    let answer = access.client.send(request).await;
    let took = began.elapsed();
    let kind = if is_write { "write" } else { "read" };
    let failure = match answer {
        Err(error) => Some(format!("{error:#}")),
        Ok(answer) => match check(&answer, name, if is_write { &object } else { "identity" }) {
            CheckedAnswer::Good => None,
            CheckedAnswer::Failed(reason) => Some(reason),
            CheckedAnswer::Wrong(what) => {
                tally.wrong(format!("{kind} {number} to {name}: {what}"));
                None
            }
        },
    };
    let failure = failure.map(|reason| {
        let at = access.began.elapsed();
        format!("{kind} {number} to {name} at {at:.1?} after {took:.1?}: {reason}")
    });
    tally.request(took, failure);
}

enum CheckedAnswer {
    Good,
    Failed(String),
    /// An answer of another cluster, or to another request.
    Wrong(String),
}

fn check(answer: &RawAnswer, cluster: &str, object: &str) -> CheckedAnswer {
    let text = answer.text();
    let quoted: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    if !matches!(answer.status, 200 | 201) {
        return CheckedAnswer::Failed(format!("{} {}: {quoted}", answer.status, answer.code()));
    }
    let Ok(body) = serde_json::from_str::<Value>(&text) else {
        return CheckedAnswer::Failed(format!("no JSON: {quoted}"));
    };
    match body["data"]["cluster"] == cluster && body["metadata"]["name"] == object {
        true => CheckedAnswer::Good,
        false => CheckedAnswer::Wrong(quoted),
    }
}
