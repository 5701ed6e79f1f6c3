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
    let keys = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
    for absent in [MAP, "/api/v1/namespaces?limit=500"]
        .into_iter()
        .chain(keys)
    {
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

/// Waits for the report with this number.
async fn report(rig: &Rig, number: usize) -> Report {
    let reports = &rig.hub.script.reports;
    until(|| reports.lock().unwrap().len() > number).await;
    reports.lock().unwrap()[number].clone()
}

fn reported(report: &Report) -> Value {
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
async fn first_report_is_full_and_the_next_follows_a_change() {
    let rig = rig().await;
    let _agent = start(&rig);
    let first = report(&rig, 0).await;
    assert_eq!(first.base, None);
    let first = reported(&first);
    assert_eq!(
        first["kubernetesVersion"],
        json!({ "major": "1", "minor": "37" })
    );
    assert_eq!(first["nodes"]["count"], 2);
    assert_eq!(first["nodes"]["kubelet"], json!({ "v1.37.1": 2 }));
    assert_eq!(
        first["incomplete"],
        json!({ "helm": "the agent lacks the right to: list secrets" })
    );

    answer(
        &rig,
        MAP,
        200,
        json!({ "data": { "site": "Berlin", "racks": "12" } }),
    );
    let second = report(&rig, 1).await;
    assert_eq!(second.base.as_deref(), Some("1"));
    assert_eq!(reported(&second), json!({ "site": "Berlin", "racks": 12 }));

    answer(&rig, MAP, 200, json!({ "data": { "site": "Berlin" } }));
    assert_eq!(reported(&report(&rig, 2).await), json!({ "racks": null }));
}

#[tokio::test]
async fn failing_api_server_removes_no_facts() {
    let rig = rig().await;
    let _agent = start(&rig);
    report(&rig, 0).await;
    answer(&rig, NODES, 503, json!({}));
    answer(&rig, MAP, 200, json!({ "data": { "site": "Berlin" } }));
    assert_eq!(
        reported(&report(&rig, 1).await),
        json!({ "site": "Berlin" })
    );
    answer(&rig, NODES, 403, json!({}));
    let third = reported(&report(&rig, 2).await);
    assert_eq!(third["nodes"], Value::Null);
    assert_eq!(
        third["incomplete"]["nodes"],
        "the agent lacks the right to: list nodes"
    );
}

#[tokio::test]
async fn hub_without_facts_gets_a_full_report() {
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
    // Rejected once without a store, and then accepted.
    for number in [2, 3] {
        let whole = report(&rig, number).await;
        assert_eq!(whole.base, None);
        assert_eq!(whole.facts.len(), first.facts.len() + 1);
        assert!(whole.sequence > second.sequence);
    }
}

#[tokio::test]
async fn disabled_facts_cause_no_requests() {
    let rig = rig().await;
    let (_agent, connected) = rig.connected().await;
    crate::rig::send(&connected.exchanges, crate::rig::get("/anything")).await;
    assert!(!rig.api.saw("/version"));
}

#[tokio::test]
async fn only_metadata_of_secrets_is_requested() {
    let rig = rig().await;
    let _agent = start(&rig);
    report(&rig, 0).await;
    let request = rig.api.last("/api/v1/secrets");
    assert_eq!(
        request.all("accept"),
        ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]
    );
}
