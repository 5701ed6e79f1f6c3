//! Observed status: readable at once, persisted, and lost with the sessions.

use fairlead_api::{
    Code,
    resources::{ClusterState, ClusterStatus, LastError},
};
use fairlead_store::model::FactSource;

use crate::*;

fn status(state: ClusterState) -> ClusterStatus {
    ClusterStatus {
        state,
        since: NOW,
        last_error: Some(LastError {
            code: Code::ApiUnreachable,
            cause: "no route".to_owned(),
        }),
        last_seen: Some(NOW),
        last_good_probe: None,
        hub: None,
    }
}

#[tokio::test]
async fn a_status_is_kept_and_a_restart_loses_every_session() {
    let (store, dir) = store().await;
    begin(&store, "https://hub.example.com").await;
    let states = [
        ("c-1", ClusterState::Connected),
        ("c-2", ClusterState::ApiUnreachable),
        ("c-3", ClusterState::Lost),
    ];
    put_cluster(&store, cluster("c-0", "t-default"))
        .await
        .unwrap();
    for (id, state) in states {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
        store.set_status(&cluster_id(id), status(state));
        let seen = store.observed(&cluster_id(id)).unwrap().status.clone();
        assert_eq!(ClusterStatus { hub: None, ..seen }, status(state));
    }
    store.set_status(&cluster_id("c-none"), status(ClusterState::Lost));
    assert!(store.observed(&cluster_id("c-none")).is_none());
    store.close().await;

    let store = open(&dir).await;
    begin(&store, "https://hub.example.com").await;
    let seen = |id| store.observed(&cluster_id(id)).unwrap().status.clone();
    for (id, state) in [
        ("c-0", ClusterState::Never),
        ("c-1", ClusterState::Lost),
        ("c-2", ClusterState::Lost),
        ("c-3", ClusterState::Lost),
    ] {
        assert_eq!(seen(id).state, state, "{id}");
    }
    assert_eq!(seen("c-3").since, NOW, "it was lost before");
    for id in ["c-1", "c-2"] {
        assert!(seen(id).since > NOW, "{id}");
        assert_eq!(seen(id).last_seen, Some(NOW));
        assert_eq!(seen(id).last_error.unwrap().code, Code::Lost);
    }
}

#[tokio::test]
async fn a_turn_yields_later_status_changes_but_not_passing_time() {
    let (store, _home) = store().await;
    for id in ["c-1", "c-2", "c-3"] {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
        store.set_status(&cluster_id(id), status(ClusterState::Connected));
    }
    let mut turns = store.watch_seen();
    let turn = *turns.borrow_and_update();
    assert_eq!(store.seen_since(0).len(), 3);
    assert_eq!(store.seen_since(turn), []);
    store.set_status(&cluster_id("c-2"), status(ClusterState::Lost));
    assert!(turns.has_changed().unwrap());
    assert_eq!(store.seen_since(turn), [cluster_id("c-2")]);
    let turn = *turns.borrow_and_update();
    store.observe(&cluster_id("c-1"), |seen| {
        seen.status.last_seen = Some(SOON)
    });
    assert!(!turns.has_changed().unwrap());
    store.set_status(&cluster_id("c-3"), status(ClusterState::Lost));
    delete_cluster(&store, "c-3").await.unwrap();
    assert_eq!(store.seen_since(turn), [], "the log has the deletion");
}

#[tokio::test]
async fn observed_status_is_persisted_without_a_revision() {
    let (store, home) = store().await;
    put_cluster(&store, cluster("c-1", "t-default"))
        .await
        .unwrap();
    let before = store.view().revision();
    let id = cluster_id("c-1");
    store.facts_reported(&id, FactSource::Agent, 4711);
    store.observe(&id, |seen| seen.status.last_good_probe = Some(NOW));
    assert_eq!(store.view().revision(), before);
    // Opened as another hub, which reads the database's content.
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
async fn a_reused_id_starts_without_observed_status() {
    let (store, dir) = store().await;
    let id = cluster_id("c-1");
    for _ in 0..2 {
        put_cluster(&store, cluster("c-1", "t-default"))
            .await
            .unwrap();
        assert_eq!(
            store.observed(&id).unwrap().status.state,
            ClusterState::Never
        );
        store.set_status(&id, status(ClusterState::Connected));
        delete_cluster(&store, "c-1").await.unwrap();
    }
    put_cluster(&store, cluster("c-1", "t-default"))
        .await
        .unwrap();
    store.close().await;
    let store = open(&dir).await;
    assert_eq!(
        store.observed(&id).unwrap().status.state,
        ClusterState::Never
    );
}
