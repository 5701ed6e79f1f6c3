//! Several hubs with their own sessions report the same status of a cluster.

use fairlead_api::{
    Code,
    resources::{ClusterState, ClusterStatus},
};
use fairlead_store::{Observed, model::FactSource};

use crate::*;

const ONE: &str = "https://one.example.com";
const TWO: &str = "https://two.example.com";

/// Suppresses the first hub's heartbeats.
const MUTED: &str = "
    CREATE FUNCTION mute() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RETURN CASE WHEN NEW.url LIKE '%one%' AND NEW.beat > OLD.beat THEN NULL ELSE NEW END; END $$;
    CREATE TRIGGER mute BEFORE UPDATE ON hubs FOR EACH ROW EXECUTE FUNCTION mute();";
const LONG_SILENT: &str = "UPDATE hubs SET beat = beat - 60000 WHERE url LIKE '%one%'";
const HEARD_AGAIN: &str = "DROP TRIGGER mute ON hubs";

fn status(state: ClusterState, since: OffsetDateTime) -> ClusterStatus {
    ClusterStatus {
        state,
        since,
        last_error: None,
        last_seen: Some(since),
        last_good_probe: None,
        hub: None,
    }
}

/// Two hubs that both know one cluster.
async fn hubs() -> (Store, Store, Home) {
    let (one, home) = store().await;
    put_cluster(&one, cluster("c-1", "t-default"))
        .await
        .unwrap();
    let two = open(&home).await;
    begin(&one, ONE).await;
    begin(&two, TWO).await;
    (one, two, home)
}

/// The hub's status of the cluster, once the condition holds.
async fn told(store: &Store, is_so: impl Fn(&Observed) -> bool) -> Arc<Observed> {
    let mut turns = store.watch_seen();
    loop {
        let seen = store.observed(&cluster_id("c-1")).unwrap();
        if is_so(&seen) {
            return seen;
        }
        turns.changed().await.unwrap();
    }
}

fn on<'a>(state: ClusterState, hub: Option<&'a str>) -> impl Fn(&Observed) -> bool + 'a {
    let hub = hub.map(|url| url.parse().unwrap());
    move |seen| seen.status.state == state && seen.status.hub == hub
}

#[tokio::test]
async fn each_hub_reports_a_clusters_status_and_its_hub() {
    let (one, two, _home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    one.facts_reported(&id, FactSource::Agent, 4711);
    let seen = told(&one, on(ClusterState::Connected, Some(ONE))).await;
    assert_eq!(one.elsewhere(&id), None);
    let same = told(&two, |seen| {
        seen.status.state == ClusterState::Connected && !seen.reported.is_empty()
    })
    .await;
    assert_eq!(
        (&same.status, &same.reported),
        (&seen.status, &seen.reported)
    );
    assert_eq!(two.elsewhere(&id), Some(ONE.parse().unwrap()));

    one.set_status(&id, status(ClusterState::Lost, SOON));
    told(&two, on(ClusterState::Lost, None)).await;
    assert_eq!(two.elsewhere(&id), None);
}

#[tokio::test]
async fn the_better_status_of_two_hubs_wins_and_a_move_is_no_gap() {
    let (one, two, _home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    told(&two, on(ClusterState::Connected, Some(ONE))).await;
    two.set_status(&id, status(ClusterState::Connected, SOON));
    told(&two, |seen| seen.status.since == NOW).await;
    one.set_status(&id, status(ClusterState::Lost, SOON));
    for hub in [&one, &two] {
        let seen = told(hub, on(ClusterState::Connected, Some(TWO))).await;
        assert_eq!(seen.status.since, NOW, "it was connected all the time");
    }
    two.set_status(&id, status(ClusterState::ApiUnreachable, SOON));
    told(&one, on(ClusterState::ApiUnreachable, Some(TWO))).await;
}

#[tokio::test]
async fn sessions_end_with_their_hub_only() {
    let (one, two, home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    told(&two, on(ClusterState::Connected, Some(ONE))).await;
    let three = open(&home).await;
    assert_eq!(begin_instead(&three, TWO, None).await, 0);
    assert!(on(ClusterState::Connected, Some(ONE))(
        &three.observed(&id).unwrap()
    ));
    one.close().await;
    for hub in [&two, &three] {
        let seen = told(hub, on(ClusterState::Lost, None)).await;
        assert_eq!(seen.status.last_error.as_ref().unwrap().code, Code::Lost);
    }
}

#[tokio::test]
async fn a_successor_marks_its_predecessor_dead() {
    let (one, two, home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    told(&two, on(ClusterState::Connected, Some(ONE))).await;
    home.execute(MUTED).await;
    let next = open(&home).await;
    assert_eq!(begin_instead(&next, ONE, Some(one.name())).await, 1);
    assert_eq!(next.observed(&id).unwrap().status.state, ClusterState::Lost);
}

#[tokio::test]
async fn a_silent_hub_loses_its_sessions_until_it_is_heard_again() {
    let (one, two, home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    one.facts_reported(&id, FactSource::Agent, 4711);
    told(&two, |seen| !seen.reported.is_empty()).await;
    home.execute(MUTED).await;
    home.execute(LONG_SILENT).await;
    told(&two, on(ClusterState::Lost, None)).await;
    // Its reports are now attributed to another hub.
    two.facts_reported(&id, FactSource::Steward, 4712);
    let rows = "SELECT count(*) FROM observed JOIN hubs ON hub = hubs.id WHERE url LIKE '%two%'";
    while home.count(rows).await == 0 {}
    home.execute(HEARD_AGAIN).await;
    let seen = told(&two, on(ClusterState::Connected, Some(ONE))).await;
    assert_eq!(seen.reported.len(), 2);
    let three = open(&home).await;
    assert_eq!(three.observed(&id).unwrap().status, seen.status);
}

#[tokio::test]
async fn observations_of_a_dead_hub_survive_the_merge_of_its_rows() {
    let (one, two, home) = hubs().await;
    let id = cluster_id("c-1");
    one.set_status(&id, status(ClusterState::Connected, NOW));
    one.facts_reported(&id, FactSource::Agent, 4711);
    told(&two, |seen| !seen.reported.is_empty()).await;
    one.close().await;
    told(&two, on(ClusterState::Lost, None)).await;
    two.set_status(&id, status(ClusterState::Connected, SOON));
    two.close().await;
    home.execute("DELETE FROM hubs WHERE url LIKE '%one%' AND NOT EXISTS (SELECT 1 FROM observed WHERE hub = id)").await;
    let three = open(&home).await;
    let seen = three.observed(&id).unwrap();
    assert_eq!(seen.status.state, ClusterState::Lost);
    assert_eq!(seen.reported.values().copied().collect::<Vec<_>>(), [4711]);
    assert!(
        seen.status
            .last_error
            .as_ref()
            .unwrap()
            .cause
            .contains("two")
    );
}

#[tokio::test]
async fn a_recreated_cluster_has_the_status_of_its_new_registration() {
    let (one, two, _home) = hubs().await;
    let id = cluster_id("c-1");
    two.set_status(&id, status(ClusterState::Connected, NOW));
    told(&one, on(ClusterState::Connected, Some(TWO))).await;
    delete_cluster(&one, "c-1").await.unwrap();
    put_cluster(&one, cluster("c-1", "t-default"))
        .await
        .unwrap();
    assert_eq!(one.observed(&id).unwrap().status.state, ClusterState::Never);
    let mut revisions = two.watch();
    let last = one.view().revision();
    revisions.wait_for(|known| *known == last).await.unwrap();
    assert_eq!(two.observed(&id).unwrap().status.state, ClusterState::Never);
    two.set_status(&id, status(ClusterState::Connected, SOON));
    told(&one, on(ClusterState::Connected, Some(TWO))).await;
}
