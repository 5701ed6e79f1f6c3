//! What is seen of clusters: read back at once, written down, and lost with the sessions.

use fairlead_api::{
    Code,
    resources::{ClusterStatus, LastError, State},
};
use fairlead_control::model::FactSource;

use crate::*;

fn status(state: State) -> ClusterStatus {
    ClusterStatus {
        state,
        since: NOW,
        last_error: Some(LastError {
            code: Code::ApiUnreachable,
            cause: "no route".to_owned(),
        }),
        last_seen: Some(NOW),
        last_good_probe: None,
    }
}

#[tokio::test]
async fn a_status_is_kept_and_a_restart_loses_every_session() {
    let (store, dir) = store().await;
    let states = [
        ("c-1", State::Connected),
        ("c-2", State::ApiUnreachable),
        ("c-3", State::Lost),
    ];
    put_cluster(&store, cluster("c-0", "t-default"))
        .await
        .unwrap();
    for (id, state) in states {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
        store.set_status(&cluster_id(id), status(state));
        let seen = store.observed(&cluster_id(id)).unwrap();
        assert_eq!(seen.status, status(state));
    }
    store.set_status(&cluster_id("c-none"), status(State::Lost));
    assert!(store.observed(&cluster_id("c-none")).is_none());
    store.close().await;

    let store = open(&dir).await;
    assert_eq!(store.lose_sessions(SOON, "the hub was restarted"), 2);
    let seen = |id| {
        let status = store.observed(&cluster_id(id)).unwrap().status.clone();
        (status.state, status.since)
    };
    assert_eq!(seen("c-0"), (State::Never, NOW));
    assert_eq!(seen("c-1"), (State::Lost, SOON));
    assert_eq!(seen("c-2"), (State::Lost, SOON));
    assert_eq!(seen("c-3"), (State::Lost, NOW));
    let seen = store.observed(&cluster_id("c-1")).unwrap();
    assert_eq!(seen.status.last_seen, Some(NOW));
    let error = seen.status.last_error.as_ref().unwrap();
    assert_eq!(
        (error.code, error.cause.as_str()),
        (Code::Lost, "the hub was restarted")
    );
}

#[tokio::test]
async fn what_is_seen_changes_no_revision_and_is_written_down_without_being_asked() {
    let (store, home) = store().await;
    put_cluster(&store, cluster("c-1", "t-default"))
        .await
        .unwrap();
    let before = store.view().revision();
    let id = cluster_id("c-1");
    store.facts_reported(&id, FactSource::Agent, 4711);
    store.observe(&id, |seen| seen.status.last_good_probe = Some(NOW));
    assert_eq!(store.view().revision(), before);
    // Another hub, so that it is what is in the database that is seen.
    let body = loop {
        let other = open(&home).await;
        let seen = other.observed(&id).unwrap();
        if !seen.reported.is_empty() {
            break serde_json::to_value(seen.as_ref()).unwrap();
        }
        other.close().await;
    };
    assert_eq!(body["reported"]["agent"], 4711);
    assert_eq!(body["status"]["lastGoodProbe"], "2026-11-21T12:00:00.25Z");
}

#[tokio::test]
async fn a_cluster_that_takes_the_id_of_a_deleted_one_was_never_seen() {
    let (store, dir) = store().await;
    let id = cluster_id("c-1");
    for _ in 0..2 {
        put_cluster(&store, cluster("c-1", "t-default"))
            .await
            .unwrap();
        assert_eq!(store.observed(&id).unwrap().status.state, State::Never);
        store.set_status(&id, status(State::Connected));
        delete_cluster(&store, "c-1").await.unwrap();
    }
    put_cluster(&store, cluster("c-1", "t-default"))
        .await
        .unwrap();
    store.close().await;
    let store = open(&dir).await;
    assert_eq!(store.observed(&id).unwrap().status.state, State::Never);
}
