//! Facts in a real InfluxDB, and its query results: `make influxdb`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

#[path = "../modules/rig.rs"]
#[allow(dead_code, reason = "it fits more tests than these")]
mod rig;

use std::time::Duration;

use fairlead_api::resources::Role;
use fairlead_facts::{InfluxConfig, InfluxLogin};
use fairlead_testkit::{
    influxdb::{InfluxDb, PASSWORD, USER},
    wait::eventually,
};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use rig::{Rig, admin, caller};

const AGREEMENT_DEADLINE: Duration = Duration::from_secs(30);

async fn rig(server: &InfluxDb) -> Rig {
    let url = server.url().parse().unwrap();
    Rig::with(|config| {
        config.influx = Some(InfluxConfig {
            url,
            database: "facts".to_owned(),
            login: InfluxLogin::Password {
                user: USER.to_owned(),
                password: PASSWORD.to_owned().into(),
            },
            ca_pem: None,
            spool: 1 << 20,
            answers: true,
        });
    })
    .await
}

fn run(rig: &Rig) -> (fairlead_runtime::Process, JoinHandle<()>) {
    let process = fairlead_runtime::Process::new();
    let modules = rig.control.seam().modules;
    let facts = modules.into_iter().find(|it| it.name() == "facts").unwrap();
    let running = process.clone();
    let task = tokio::spawn(async move { facts.run(running).await });
    (process, task)
}

async fn put(rig: &Rig, cluster: &str, facts: Value) {
    let path = format!("/clusters/{cluster}");
    let patch = json!({ "dynamicFacts": facts });
    rig.call(&admin(), Method::PATCH, &path, patch).await.good();
}

/// Result of a query by the hub or by InfluxDB.
async fn asked(rig: &Rig, tenant: Option<&str>, query: &str, by: &str) -> Value {
    let query = fairlead_api::percent::encode(query);
    let path = format!("/inventory?q={query}&backend={by}");
    let reply = rig.get(&caller(Role::Viewer, tenant), &path).await;
    reply.good()["inventory"]["results"][0]["series"].clone()
}

/// Waits until InfluxDB and the hub agree.
async fn agree(rig: &Rig, tenant: Option<&str>, query: &str) -> Value {
    let own = asked(rig, tenant, query, "hub").await;
    let reached = eventually(AGREEMENT_DEADLINE, query, async || {
        let theirs = asked(rig, tenant, query, "influxdb").await;
        (theirs == own).then_some(())
    })
    .await;
    assert!(
        reached.is_ok(),
        "{query}: {own} and {}",
        asked(rig, tenant, query, "influxdb").await
    );
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn influxdb_answers_like_the_hub_within_visibility() {
    let mut server = InfluxDb::start().unwrap();
    let rig = rig(&server).await;
    rig.tenant("acme").await;
    rig.cluster("one", "t-default").await;
    rig.cluster("two", "t-acme").await;
    let (process, running) = run(&rig);
    let odd = "it's \"quoted\" \\ and\nhas, = two lines";
    put(
        &rig,
        "c-one",
        json!({ "nodes": { "count": 3, "cpu": 1.5, "ready": true } }),
    )
    .await;
    // Facts with equal timestamps have no defined order.
    rig.advance(time::Duration::minutes(1));
    put(
        &rig,
        "c-two",
        json!({ "nodes": { "count": 5 }, "odd name": { "a b,c=d": odd } }),
    )
    .await;
    agree(&rig, None, "SELECT count FROM nodes").await;
    rig.advance(time::Duration::hours(1));
    put(
        &rig,
        "c-one",
        json!({ "nodes": { "count": 4, "cpu": 2.5, "ready": false } }),
    )
    .await;
    for tenant in [None, Some("t-acme"), Some("t-default")] {
        for query in [
            "SELECT count FROM nodes",
            "SELECT * FROM nodes GROUP BY cluster ORDER BY time DESC",
            "SELECT LAST(count), FIRST(cpu) FROM nodes GROUP BY cluster, tenant",
            "SELECT COUNT(count) AS n FROM nodes WHERE source != 'agent'",
            "SELECT count, cluster FROM nodes WHERE cluster != 'c-two' LIMIT 1",
            "SELECT ready FROM nodes WHERE time > '2026-11-21T12:30:00Z'",
            "SELECT \"a b,c=d\" FROM \"odd name\"",
            "SELECT count FROM nodes WHERE tenant = 't-acme'",
        ] {
            let answer = agree(&rig, tenant, query).await;
            let text = answer.to_string();
            assert!(
                tenant != Some("t-acme") || !text.contains("c-one"),
                "{text}"
            );
        }
    }
    let told = asked(
        &rig,
        None,
        "SELECT \"a b,c=d\" FROM \"odd name\"",
        "influxdb",
    )
    .await;
    assert_eq!(told[0]["values"][0][1], odd);

    // A change during the outage arrives afterwards. A field with a conflicting type is dropped;
    // its neighbours are kept.
    server.stop();
    rig.advance(time::Duration::hours(1));
    put(
        &rig,
        "c-one",
        json!({ "nodes": { "count": "many" }, "site": "Bern" }),
    )
    .await;
    server.resume().unwrap();
    let site = agree(&rig, None, "SELECT value FROM site").await;
    assert_eq!(site[0]["values"][0][1], "Bern");
    let counts = asked(&rig, None, "SELECT count FROM nodes", "influxdb").await;
    assert_eq!(counts[0]["values"].as_array().unwrap().len(), 3);
    process.start_drain();
    running.await.unwrap();
}
