//! Tests of `wait_budget`.

use fairlead_api::resources::LastError;

use super::*;

#[test]
fn wait_budget_is_below_the_clients_timeout() {
    for (path, seconds) in [
        ("/api/v1/pods", 19.5),
        ("/api/v1/pods?limit=500", 19.5),
        ("/api/v1/pods?timeout=5s", 4.5),
        ("/api/v1/pods?timeout=1s", 0.75),
        ("/api/v1/pods?timeout=20s", 19.5),
        ("/api/v1/pods?limit=500&timeout=1m30s", 19.5),
        ("/api/v1/pods?timeout=1m", 19.5),
        ("/api/v1/pods?timeout=500ms", 0.375),
        ("/api/v1/pods?timeout=1.5s", 1.125),
        ("/api/v1/pods?timeout=1m0.5s", 19.5),
        ("/api/v1/pods?timeout=.5s", 0.375),
        ("/api/v1/pods?timeout=1.5", 19.5),
        ("/api/v1/pods?timeout=0s", 19.5),
        ("/api/v1/pods?timeout=1.2.3s", 19.5),
        ("/api/v1/pods?timeout=soon", 19.5),
        ("/api/v1/pods?timeout=99999999999999999999h", 19.5),
        ("/api/v1/pods?watch=true&timeout=5s", 0.0),
        ("/api/v1/pods?watch=1", 0.0),
        ("/api/v1/pods?watch", 0.0),
        ("/api/v1/pods?watch=True", 0.0),
        ("/api/v1/pods?watch=false", 19.5),
        ("/api/v1/namespaces/a/pods/b/log?follow=true", 0.0),
    ] {
        let waits = wait_budget(&path.parse().unwrap());
        assert_eq!(waits, Duration::from_secs_f64(seconds), "{path}");
    }
}

#[test]
fn wait_budget_shrinks_with_the_time_away() {
    let seconds = Duration::from_secs;
    for (budget, away, waits) in [
        (20, 0, 20),
        (20, 15, 5),
        (5, 15, 5),
        (3, 15, 3),
        (20, 600, 1),
        (0, 0, 0),
        (0, 600, 0),
    ] {
        let bounded = bounded(seconds(budget), seconds(away));
        assert_eq!(bounded, seconds(waits), "{budget} s, away {away} s");
    }
}

#[test]
fn cluster_of_a_hub_that_has_just_ended_has_its_whole_wait_budget() {
    let now = OffsetDateTime::from_unix_timestamp(1_795_255_200).unwrap();
    let away = |state| {
        let status = ClusterStatus {
            state,
            since: now - Duration::from_secs(600),
            last_error: None,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        };
        time_away(&status, now)
    };
    assert_eq!(away(ClusterState::Lost), Duration::from_secs(600));
    // The time since which it was connected says nothing about its loss.
    assert_eq!(away(ClusterState::Connected), Duration::ZERO);
    assert_eq!(away(ClusterState::ApiUnreachable), Duration::ZERO);
}

#[test]
fn lost_cluster_reports_time_and_cause() {
    let status = ClusterStatus {
        state: ClusterState::Lost,
        since: OffsetDateTime::from_unix_timestamp(1_795_255_200).unwrap(),
        last_error: Some(LastError {
            code: Code::SessionBroke,
            cause: "reset by peer".to_owned(),
        }),
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    let failure = lost_failure(&status);
    assert_eq!(failure.code, Code::Lost);
    assert!(
        failure
            .cause
            .ends_with("since 2026-11-21T10:00:00Z, last error FL-3112: reset by peer"),
        "{failure}"
    );
    assert_eq!(failure.next_step(), Code::Lost.next_step());

    let revoked = LastError {
        code: Code::IdentityRevoked,
        cause: "an operator revoked the identity".to_owned(),
    };
    let failure = lost_failure(&ClusterStatus {
        last_error: Some(revoked),
        ..status
    });
    assert_eq!(failure.code, Code::Lost);
    assert!(
        failure.next_step().contains("cluster token renew"),
        "{failure}"
    );
}
