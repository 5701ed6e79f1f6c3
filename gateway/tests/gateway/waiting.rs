//! Requests to a cluster without a session: wait budgets.

use fairlead_api::{
    ClusterId,
    resources::{ClusterState, ClusterStatus},
};
use time::{Duration, OffsetDateTime};
use tokio::time::timeout;

use crate::{
    client::{ROOT, all_back_to_zero},
    rig::{HUB, PausedClock, RawAnswer, Rig, TEST_DEADLINE},
};
use fairlead_testkit::agent::FakeAgent;

fn lost(rig: &Rig, cluster: &str, away: Duration) {
    let cluster: ClusterId = cluster.parse().unwrap();
    let status = ClusterStatus {
        state: ClusterState::Lost,
        since: OffsetDateTime::now_utc() - away,
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    let mut clusters = rig.modules.clusters.lock().unwrap();
    clusters.insert(cluster, Some(status));
}

#[tokio::test]
async fn request_waits_for_a_cluster_lost_just_now() {
    let rig = Rig::start();
    lost(&rig, "c-a", Duration::seconds(1));
    let path = format!("{ROOT}/who");
    let request = rig.get(HUB, &path, "");
    let agent = async {
        // The request has found no session by then.
        let mut asked = rig.modules.asked.subscribe();
        let found_none = asked.wait_for(|asked| *asked > 0);
        timeout(TEST_DEADLINE, found_none).await.unwrap().unwrap();
        FakeAgent::of(rig.access(), "c-a").await
    };
    let (answer, agent) = tokio::join!(request, agent);
    assert_eq!(answer.status, 200, "{}", answer.text());
    agent.saw("GET /who").await;
    drop(agent);
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn waiting_for_one_cluster_is_not_ended_by_the_arrival_of_another() {
    let rig = Rig::start();
    lost(&rig, "c-a", Duration::seconds(1));
    let path = format!("{ROOT}/who?timeout=2s");
    let request = rig.get(HUB, &path, "");
    let (answer, _other) = tokio::join!(request, FakeAgent::of(rig.access(), "c-b"));
    assert_eq!((answer.status, answer.code()), (503, "FL-1402"));
}

#[tokio::test]
async fn request_to_the_wrong_hub_gets_the_right_one() {
    let rig = Rig::start();
    let served = ClusterStatus {
        state: ClusterState::Connected,
        since: OffsetDateTime::now_utc() - Duration::hours(1),
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: Some("https://other.example.com".parse().unwrap()),
    };
    let cluster: ClusterId = "c-a".parse().unwrap();
    let served = Some(served);
    rig.modules.clusters.lock().unwrap().insert(cluster, served);
    let watch = rig
        .get(HUB, &format!("{ROOT}/api/v1/pods?watch=true"), "")
        .await;
    assert_eq!((watch.status, watch.code()), (503, "FL-1408"));
    assert!(
        watch.text().contains("https://other.example.com"),
        "{}",
        watch.text()
    );
    assert!(watch.text().contains("\"Status\""), "{}", watch.text());
    // The agent may be on its way, so the request waits for a second. The clock is paused once the agent asks for
    // admission.
    rig.modules.shut.send_replace(true);
    let (mut knocked, mut asked) = (
        rig.modules.knocked.subscribe(),
        rig.modules.asked.subscribe(),
    );
    let request = async {
        let at_the_door = knocked.wait_for(|knocked| *knocked > 0);
        timeout(TEST_DEADLINE, at_the_door).await.unwrap().unwrap();
        rig.get(HUB, &format!("{ROOT}/who"), "").await
    };
    let opened = async {
        let found_none = asked.wait_for(|asked| *asked > 1);
        timeout(TEST_DEADLINE, found_none).await.unwrap().unwrap();
        let clock = PausedClock::start();
        rig.modules.shut.send_replace(false);
        clock
    };
    let (answer, _agent, _clock) =
        tokio::join!(request, FakeAgent::of(rig.access(), "c-a"), opened);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn permanent_failures_do_not_wait() {
    let rig = Rig::start();
    let refused = |answer: RawAnswer| (answer.status, answer.code().to_owned());
    let never = rig.get(HUB, "/k8s/clusters/c-b/api", "").await;
    assert_eq!(refused(never), (503, "FL-1401".to_owned()));
    lost(&rig, "c-a", Duration::seconds(1));
    let watch = rig.get(HUB, &format!("{ROOT}/api?watch=true"), "").await;
    assert_eq!(refused(watch), (503, "FL-1402".to_owned()));
    lost(&rig, "c-a", Duration::hours(1));
    let long_gone = rig.get(HUB, &format!("{ROOT}/api"), "").await;
    assert_eq!(refused(long_gone), (503, "FL-1402".to_owned()));
}
