//! Facts on their way from the API server to the hub.

use std::time::Duration;

use fairlead_api::{Code, facts::Report};
use serde_json::{Value, json};

use fairlead_testkit::hub::ReportAnswer;

use crate::rig::{Agent, Rig, until};

const NODES: &str = "/api/v1/nodes?limit=500";
const MAP: &str = "/api/v1/namespaces/fairlead-site/configmaps/additional-facts";

fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": { "nodeInfo": { "kubeletVersion": "v1.37.1" } } })
}

/// A cluster of two nodes on two pages.
async fn rig() -> Rig {
    let rig = Rig::new().await;
    answer(
        &rig,
        "/version",
        200,
        json!({ "major": "1", "minor": "37+" }),
    );
    let first = json!({ "metadata": { "continue": "a=b" }, "items": [node("one")] });
    answer(&rig, NODES, 200, first);
    let second = json!({ "metadata": {}, "items": [node("two")] });
    answer(&rig, &format!("{NODES}&continue=a%3Db"), 200, second);
    for absent in [MAP, "/api/v1/namespaces?limit=500"] {
        answer(&rig, absent, 404, json!({}));
    }
    let secrets = "/api/v1/secrets?limit=500&labelSelector=owner%3Dhelm%2Cstatus%21%3Dsuperseded";
    answer(&rig, secrets, 403, json!({}));
    rig
}

fn answer(rig: &Rig, path: &str, status: u16, body: Value) {
    let answers = &rig.api.script.answers;
    answers
        .lock()
        .unwrap()
        .insert(path.to_owned(), (status, body));
}

fn start(rig: &Rig) -> Agent {
    let mut config = rig.config();
    config.facts_every = Some(Duration::from_secs(1));
    rig.start(config)
}

/// The report with this number, once it is there.
async fn report(rig: &Rig, number: usize) -> Report {
    let reports = &rig.hub.script.reports;
    until(|| reports.lock().unwrap().len() > number).await;
    reports.lock().unwrap()[number].clone()
}

fn told(report: &Report) -> Value {
    let facts = report.facts.iter();
    facts
        .map(|(name, fact)| {
            (
                name.to_string(),
                json!(fact.as_ref().map(|fact| &fact.value)),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn the_first_report_is_whole_and_the_next_comes_with_a_change() {
    let rig = rig().await;
    let _agent = start(&rig);
    let first = report(&rig, 0).await;
    assert_eq!(first.base, None);
    let first = told(&first);
    assert_eq!(
        first["kubernetesVersion"],
        json!({ "major": "1", "minor": "37" })
    );
    assert_eq!(first["nodes"]["count"], 2);
    assert_eq!(first["nodes"]["kubelet"], json!({ "v1.37.1": 2 }));
    assert_eq!(
        first["incomplete"],
        json!({ "helm": "the agent may not: list secrets" })
    );

    answer(
        &rig,
        MAP,
        200,
        json!({ "data": { "site": "Berlin", "racks": "12" } }),
    );
    let second = report(&rig, 1).await;
    assert_eq!(second.base.as_deref(), Some("1"));
    assert_eq!(told(&second), json!({ "site": "Berlin", "racks": 12 }));

    answer(&rig, MAP, 200, json!({ "data": { "site": "Berlin" } }));
    assert_eq!(told(&report(&rig, 2).await), json!({ "racks": null }));
}

#[tokio::test]
async fn an_api_server_that_fails_removes_nothing() {
    let rig = rig().await;
    let _agent = start(&rig);
    report(&rig, 0).await;
    answer(&rig, NODES, 503, json!({}));
    answer(&rig, MAP, 200, json!({ "data": { "site": "Berlin" } }));
    assert_eq!(told(&report(&rig, 1).await), json!({ "site": "Berlin" }));
    answer(&rig, NODES, 403, json!({}));
    let third = told(&report(&rig, 2).await);
    assert_eq!(third["nodes"], Value::Null);
    assert_eq!(
        third["incomplete"]["nodes"],
        "the agent may not: list nodes"
    );
}

#[tokio::test]
async fn a_hub_that_knows_nothing_is_told_everything() {
    let rig = rig().await;
    let receipts = [
        ReportAnswer::Etag(Some("known")),
        ReportAnswer::Etag(None),
        ReportAnswer::Refused(Code::Store),
    ];
    rig.hub
        .script
        .report_answers
        .lock()
        .unwrap()
        .extend(receipts);
    let _agent = start(&rig);
    let first = report(&rig, 0).await;
    answer(&rig, MAP, 200, json!({ "data": { "site": "Berlin" } }));
    let second = report(&rig, 1).await;
    assert_eq!(
        (second.base.as_deref(), second.facts.len()),
        (Some("known"), 1)
    );
    // Refused once for want of a store, and then taken.
    for number in [2, 3] {
        let whole = report(&rig, number).await;
        assert_eq!(whole.base, None);
        assert_eq!(whole.facts.len(), first.facts.len() + 1);
        assert!(whole.sequence > second.sequence);
    }
}

#[tokio::test]
async fn nobody_is_asked_for_facts_where_they_are_switched_off() {
    let rig = rig().await;
    let (_agent, connected) = rig.connected().await;
    crate::rig::send(&connected.exchanges, crate::rig::get("/anything")).await;
    assert!(!rig.api.saw("/version"));
}

#[tokio::test]
async fn of_secrets_only_the_metadata_is_asked_for() {
    let rig = rig().await;
    let _agent = start(&rig);
    report(&rig, 0).await;
    let asked = rig.api.last("/api/v1/secrets");
    assert_eq!(
        asked.all("accept"),
        ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]
    );
}
