//! Status of clusters as a feed: resumed from a cursor, filtered by visibility.

use fairlead_api::resources::{ClusterState, ClusterStatus, ClusterStatusUpdate, Role};
use fairlead_seam::Caller;
use http::header;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::rig::{Rig, START, admin, caller};

async fn report(rig: &Rig, id: &str, state: ClusterState, seconds: i64) {
    let status = ClusterStatus {
        state,
        since: START + time::Duration::seconds(seconds),
        last_error: None,
        last_seen: Some(START),
        last_good_probe: None,
        hub: None,
    };
    let directory = rig.control.seam().directory;
    let id = id.parse().unwrap();
    directory.report(&id, status).await.unwrap();
}

async fn told(rig: &Rig, who: &Caller, since: &str) -> ClusterStatusUpdate {
    let query = match since {
        "" => String::new(),
        since => format!("?since={since}"),
    };
    let answer = rig.get(who, &format!("/v1/status{query}")).await.good();
    serde_json::from_value(answer).unwrap()
}

fn states(told: &ClusterStatusUpdate) -> Vec<(&str, ClusterState)> {
    let items = told.items.iter();
    items.map(|it| (it.id.as_str(), it.status.state)).collect()
}

async fn world() -> (Rig, Caller) {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.tenant("b").await;
    rig.cluster("of-a", "t-a").await;
    rig.cluster("of-b", "t-b").await;
    (rig, caller(Role::Tenant, Some("t-a")))
}

#[tokio::test]
async fn a_first_poll_gets_a_snapshot_and_later_polls_changes() {
    let (rig, of_a) = world().await;
    let all = told(&rig, &admin(), "").await;
    assert!(all.snapshot && !all.changed);
    assert_eq!(
        states(&all),
        [
            ("c-of-a", ClusterState::Never),
            ("c-of-b", ClusterState::Never)
        ]
    );
    let own = told(&rig, &of_a, "").await;
    assert_eq!(states(&own), [("c-of-a", ClusterState::Never)]);

    assert!(told(&rig, &admin(), &all.cursor).await.is_empty());
    report(&rig, "c-of-b", ClusterState::Connected, 1).await;
    let next = told(&rig, &admin(), &all.cursor).await;
    assert_eq!(
        (next.snapshot, states(&next)),
        (false, vec![("c-of-b", ClusterState::Connected)])
    );
    let none = told(&rig, &of_a, &own.cursor).await;
    assert!(none.is_empty(), "another tenant's");
    report(&rig, "c-of-a", ClusterState::Connected, 2).await;
    report(&rig, "c-of-a", ClusterState::Lost, 3).await;
    let own = told(&rig, &of_a, &none.cursor).await;
    assert_eq!(states(&own), [("c-of-a", ClusterState::Lost)]);
    assert!(told(&rig, &of_a, &own.cursor).await.is_empty());
}

#[tokio::test]
async fn created_and_deleted_clusters_are_sent_and_moves_cause_a_snapshot() {
    let (rig, of_a) = world().await;
    let mut own = told(&rig, &of_a, "").await;
    rig.cluster("new", "t-a").await;
    own = told(&rig, &of_a, &own.cursor).await;
    assert!(own.changed && !own.snapshot);
    assert_eq!(states(&own), [("c-new", ClusterState::Never)]);
    rig.delete(&admin(), "/clusters/c-new").await;
    rig.delete(&admin(), "/clusters/c-of-b").await;
    own = told(&rig, &of_a, &own.cursor).await;
    assert_eq!(
        (own.removed, own.items),
        (vec!["c-new".parse().unwrap()], vec![])
    );
    let to_b = json!({ "tenant": "t-b" });
    rig.post(&admin(), "/v1/clusters/c-of-a/tenant", to_b)
        .await
        .good();
    own = told(&rig, &of_a, &own.cursor).await;
    assert!(own.snapshot && own.items.is_empty());
}

#[tokio::test]
async fn another_hubs_cursor_yields_a_snapshot_and_invalid_ones_are_rejected() {
    let (rig, _) = world().await;
    let known = told(&rig, &admin(), "").await.cursor;
    let rest = known.split_once('-').unwrap().1;
    let foreign = told(&rig, &admin(), &format!("00000000-{rest}")).await;
    assert!(foreign.snapshot && foreign.items.len() == 2);
    let wrong = rig.get(&admin(), "/v1/status?since=yesterday").await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn polls_and_streams_wait_for_changes() {
    let (rig, _) = world().await;
    let known = told(&rig, &admin(), "").await.cursor;
    // Further events come from memory.
    tokio::time::pause();
    let path = format!("/v1/status?since={known}&wait=25");
    let nothing = rig.get(&admin(), &path).await.good();
    assert_eq!(nothing["items"], json!([]));
    let connect = async {
        tokio::task::yield_now().await;
        report(&rig, "c-of-a", ClusterState::Connected, 1).await;
    };
    let admin = admin();
    let (polled, ()) = tokio::join!(rig.get(&admin, &path), connect);
    assert_eq!(polled.good()["items"][0]["status"]["state"], "Connected");

    let events = (header::ACCEPT, "text/event-stream");
    let mut stream = rig
        .stream(&admin, &format!("/v1/status?since={known}"), events)
        .await;
    let mut next = async || {
        let frame = stream.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    };
    let first = next().await;
    let cursor = first.lines().next().unwrap().strip_prefix("id: ").unwrap();
    assert!(
        first.contains("event: status\n") && first.contains("Connected"),
        "{first}"
    );
    assert_eq!(next().await, ": nothing new\n\n");
    report(&rig, "c-of-b", ClusterState::Lost, 2).await;
    let second = next().await;
    let data = second.lines().find_map(|line| line.strip_prefix("data: "));
    let data: Value = serde_json::from_str(data.unwrap()).unwrap();
    assert_eq!(data["items"][0]["id"], "c-of-b");
    assert!(!told(&rig, &admin, cursor).await.snapshot);
}
