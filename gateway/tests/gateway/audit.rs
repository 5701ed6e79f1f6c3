//! Audit events of requests, from the socket to the file.

use std::fs;

use fairlead_api::resources::ClusterState;
use fairlead_audit::{AuditEvent, Decision, EventKind, Stage};
use fairlead_testkit::{agent::FakeAgent, wait::eventually};

use crate::{
    client::{ROOT, status},
    rig::{HUB, Rig, TEST_DEADLINE},
};

/// All events of the log so far, once there are enough.
pub(crate) async fn events(
    rig: &Rig,
    enough: usize,
    what: impl Fn(&AuditEvent) -> bool,
) -> Vec<AuditEvent> {
    let found = eventually(TEST_DEADLINE, "audit events", async || {
        let text = fs::read_to_string(rig.audit.dir().join("00000001.jsonl")).ok()?;
        let whole = text.rfind('\n').and_then(|end| text.get(..end))?;
        let events = whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let found: Vec<AuditEvent> = events
            .filter(|event: &AuditEvent| event.kind == EventKind::Request && what(event))
            .collect();
        (found.len() >= enough).then_some(found)
    });
    found.await.unwrap()
}

#[tokio::test]
async fn request_to_a_cluster_has_a_start_and_an_end_with_the_audit_id_of_the_api_server() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let path = format!("{ROOT}/headers?command=ls&token=hunter2");
    let answer = rig.get(HUB, &path, "Audit-ID: forged\r\n").await;
    let text = answer.text();
    let ids: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("audit-id: "))
        .collect();
    let [id] = ids[..] else {
        panic!("one id, and not that of the client: {text}");
    };
    let found = events(&rig, 2, |event| event.id.as_deref() == Some(id)).await;
    let [start, end] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (start.stage, end.stage),
        (Some(Stage::Start), Some(Stage::End))
    );
    for event in [start, end] {
        assert_eq!(event.caller.as_ref().unwrap().name, "ada");
        assert_eq!(event.cluster.as_deref(), Some("c-a"));
        assert_eq!(event.tenant.as_deref(), Some("t-acme"));
        assert_eq!(event.path.as_deref(), Some("/headers"));
        assert_eq!(event.decision, Some(Decision::Allowed));
        assert_eq!(event.query["command"], ["ls"]);
        assert!(!serde_json::to_string(event).unwrap().contains("hunter2"));
    }
    assert_eq!(end.status, Some(200));
    assert!(end.bytes_out > Some(0));
}

#[tokio::test]
async fn refused_requests_and_requests_of_agents_are_events_as_well() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let found = events(&rig, 2, |event| {
        event.path.as_deref() == Some("/agent/v1/hello")
    })
    .await;
    assert_eq!(found[0].caller.as_ref().unwrap().name, "agent:c-a");
    assert_eq!(found[1].stage, Some(Stage::End));

    let refused = format!("GET {ROOT}/api HTTP/1.1\r\nHost: {HUB}\r\n\r\n");
    assert_eq!(rig.raw(HUB, refused.as_bytes()).await.status, 401);
    let missing = "/k8s/clusters/c-none/api";
    assert_eq!(rig.get(HUB, missing, "").await.status, 404);
    let denied = |event: &AuditEvent| event.decision == Some(Decision::Denied);
    let found = events(&rig, 2, denied).await;
    let codes: Vec<_> = found.iter().map(|event| event.code.as_deref()).collect();
    assert_eq!(codes, [Some("FL-1101"), Some("FL-1301")]);
    assert_eq!(found[0].caller, None);
    assert_eq!(found[1].caller.as_ref().unwrap().name, "ada");
}
