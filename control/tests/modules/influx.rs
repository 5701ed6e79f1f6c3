//! Facts written to InfluxDB, and queries forwarded to it, against a fake server.

use fairlead_api::{Code, resources::Role};
use fairlead_facts::{InfluxConfig, InfluxLogin};
use fairlead_seam::{Caller, ClusterScope};
use fairlead_testkit::fake_influxdb::FakeInfluxDb;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Reply, Rig, admin, caller};

async fn rig(answers: bool) -> (Rig, FakeInfluxDb) {
    let fake = FakeInfluxDb::start("/base", Some("Bearer t.o.k"));
    says(&fake, StatusCode::OK, &good().to_string());
    let rig = Rig::with(|config| {
        config.influx = Some(InfluxConfig {
            url: fake.url().parse().unwrap(),
            database: "facts".to_owned(),
            login: InfluxLogin::Token("t.o.k".to_owned().into()),
            ca_pem: None,
            spool: 1 << 20,
            answers,
        });
    })
    .await;
    rig.tenant("acme").await;
    rig.tenant("other").await;
    for (cluster, tenant) in [("one", "t-acme"), ("two", "t-acme"), ("three", "t-other")] {
        rig.cluster(cluster, tenant).await;
    }
    (rig, fake)
}

fn good() -> Value {
    json!({ "results": [{ "statement_id": 0, "series": [{ "name": "n", "columns": ["time", "x"], "values": [["now", 1]] }] }] })
}

fn says(fake: &FakeInfluxDb, status: StatusCode, body: &str) {
    *fake.script.query_answer.lock().unwrap() = (status.as_u16(), body.to_owned());
}

/// Sends the query `q`, which needs no further escaping.
async fn asked(rig: &Rig, who: &Caller, q: &str, by: &str) -> Reply {
    let q = q
        .replace(' ', "%20")
        .replace('\'', "%27")
        .replace('"', "%22");
    rig.get(who, &format!("/inventory?q={q}{by}")).await
}

const BY_IT: &str = "&backend=influxdb";

#[tokio::test]
async fn queries_are_forwarded_in_parsed_form_within_the_callers_visibility() {
    let (rig, fake) = rig(false).await;
    let two = "((\"tenant\"::tag = 't-acme' AND (\"cluster\"::tag = 'c-one' OR \"cluster\"::tag = 'c-two')))";
    let one = "((\"tenant\"::tag = 't-acme' AND (\"cluster\"::tag = 'c-one')))";
    let of_acme = caller(Role::Viewer, Some("t-acme"));
    let of_one = Caller {
        clusters: ClusterScope::One("c-one".parse().unwrap()),
        ..caller(Role::Cluster, Some("t-acme"))
    };
    for (who, requester, sent) in [
        (
            &admin(),
            "select  x from n",
            "SELECT \"x\" FROM \"n\"".to_owned(),
        ),
        (
            &of_acme,
            "SELECT x FROM n",
            format!("SELECT \"x\" FROM \"n\" WHERE {two}"),
        ),
        (
            &of_acme,
            "SELECT x FROM n WHERE cluster = 'c-one'",
            format!("SELECT \"x\" FROM \"n\" WHERE {one} AND \"cluster\"::tag = 'c-one'"),
        ),
        (
            &of_one,
            "SELECT x FROM n LIMIT 1",
            format!("SELECT \"x\" FROM \"n\" WHERE {one} LIMIT 1"),
        ),
    ] {
        let reply = asked(&rig, who, requester, BY_IT).await.good();
        assert_eq!(reply["inventory"], good());
        assert_eq!(
            fake.script.queries.lock().unwrap().pop(),
            Some(sent),
            "{requester}"
        );
    }
    // Clusters of other tenants are not queried at all.
    let theirs = "SELECT x FROM n WHERE cluster = 'c-three'";
    let reply = asked(&rig, &of_acme, theirs, BY_IT).await.good();
    assert_eq!(
        reply,
        json!({ "cluster": "c-three", "inventory": { "results": [{ "statement_id": 0 }] } })
    );
    for unknown in ["DROP MEASUREMENT n", "SELECT x FROM n; DROP DATABASE facts"] {
        let reply = asked(&rig, &admin(), unknown, BY_IT).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, Code::Invalid)
        );
        assert!(
            reply.json()["reason"].as_str().unwrap().contains("DROP"),
            "{reply:?}"
        );
    }
    assert!(fake.script.queries.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_query_backend_is_chosen_by_operator_and_caller() {
    for (answers, by, is_asked) in [
        (false, "", false),
        (false, BY_IT, true),
        (true, "", true),
        (true, "&backend=hub", false),
    ] {
        let (rig, fake) = rig(answers).await;
        asked(&rig, &admin(), "SELECT x FROM n", by).await.good();
        assert_eq!(
            !fake.script.queries.lock().unwrap().is_empty(),
            is_asked,
            "{answers} {by}"
        );
    }
    let rig = Rig::new().await;
    let reply = asked(&rig, &admin(), "SELECT x FROM n", BY_IT).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, Code::Invalid)
    );
    let reply = asked(&rig, &admin(), "SELECT x FROM n", "&backend=me").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn failures_of_influxdb_are_reported_without_its_texts() {
    let (rig, fake) = rig(false).await;
    let long = "x".repeat(17 << 20);
    let refused = r#"{"results":[{"statement_id":0,"error":"secret"}]}"#;
    for (status, body, code) in [
        (500, r#"{"error":"secret"}"#, Code::InfluxAway),
        (401, r#"{"error":"secret"}"#, Code::InfluxAway),
        (302, "secret", Code::InfluxAway),
        (200, "secret", Code::InfluxAway),
        (400, r#"{"error":"secret"}"#, Code::InfluxRefused),
        (200, refused, Code::InfluxRefused),
        (200, long.as_str(), Code::Invalid),
    ] {
        says(&fake, StatusCode::from_u16(status).unwrap(), body);
        let reply = asked(&rig, &admin(), "SELECT x FROM n", BY_IT).await;
        assert_eq!(reply.code(), code, "{status}");
        assert_eq!(reply.status.as_u16(), code.http_status());
        assert!(!reply.text.contains("secret"));
    }
}

#[tokio::test]
async fn changed_facts_are_written_while_the_hub_runs() {
    let (rig, fake) = rig(false).await;
    let process = fairlead_runtime::Process::new();
    let modules = rig.control.seam().modules;
    let facts = modules.into_iter().find(|it| it.name() == "facts").unwrap();
    let running = tokio::spawn({
        let process = process.clone();
        async move { facts.run(process).await }
    });
    let mut lines = fake.script.lines.subscribe();
    let patch = json!({ "facts": { "cloud": "x" } });
    let path = "/clusters/c-one";
    rig.call(&admin(), Method::PATCH, path, patch).await.good();
    drop(lines.wait_for(|lines| !lines.is_empty()).await.unwrap());
    process.start_drain();
    running.await.unwrap();
    let names = process.registry().gather();
    let names: Vec<_> = names.iter().map(|it| it.name()).collect();
    for name in [
        "lines_written_total",
        "lines_dropped_total",
        "spool_bytes",
        "oldest_wait_duration_seconds",
        "state",
    ] {
        assert!(
            names.contains(&format!("fairlead_influx_{name}").as_str()),
            "{name}"
        );
    }
}
