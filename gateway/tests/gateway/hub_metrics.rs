//! Series of several hubs add up: a request of a client and an agent count once.

use fairlead_api::resources::ClusterState;
use fairlead_testkit::agent::{FakeAgent, hello};

use crate::{
    client::{ROOT, status, until},
    forwarded::introduce,
    rig::{HUB, Rig},
};

const LINKS_BETWEEN_HUBS: f64 = 4.0;

#[tokio::test]
async fn forwarded_request_and_agent_with_links_to_two_hubs_count_once() {
    let one = Rig::of_hub("one", None);
    let two = Rig::of_hub("two", Some(&one.authority));
    let _first_link = FakeAgent::with_hello(two.access(), "c-a", hello(7, 0, None)).await;
    status(&two, ClusterState::Connected).await;
    introduce(&one, &[("two", two.address.port())], &["two"]);
    introduce(&two, &[("one", one.address.port())], &["two"]);
    for hub in [&one, &two] {
        until(async || hub.metric("fairlead_hub_sessions", &[]) == LINKS_BETWEEN_HUBS).await;
    }

    let at = |name: &str, labels: &[&str]| [&one, &two].map(|it| it.metric(name, labels));
    // The connections of agents and hubs count, too.
    let [before, at_second] = at("fairlead_requests_total", &[]);
    let answer = one.get(HUB, &format!("{ROOT}/forwarded"), "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let hops = "fairlead_forwarded_requests_total";
    // Both count a request after its last byte.
    until(async || two.metric(hops, &["from-hub"]) == 1.0).await;
    until(async || at("fairlead_requests_total", &[]) == [before + 1.0, at_second]).await;
    assert_eq!(at(hops, &["to-hub"]), [1.0, 0.0]);
    let of_cluster = at("fairlead_cluster_requests_total", &["c-a"]);
    assert_eq!(of_cluster, [0.0, 1.0], "at the hub with the session");

    let _second_link = FakeAgent::with_hello(one.access(), "c-a", hello(7, 1, None)).await;
    until(async || at("fairlead_sessions", &["up"]) == [1.0, 1.0]).await;
    assert_eq!(at("fairlead_cluster_agents", &["c-a"]), [0.0, 1.0]);
    assert_eq!(at("fairlead_clusters_in_other", &[]), [0.0, 0.0]);
}
