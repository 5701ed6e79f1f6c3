//! Tests of `status_queue`.

use fairlead_api::resources::ClusterState;
use time::OffsetDateTime;

use super::*;

fn status(state: ClusterState) -> ClusterStatus {
    ClusterStatus {
        state,
        since: OffsetDateTime::UNIX_EPOCH,
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: None,
    }
}

#[test]
fn only_the_latest_status_of_a_cluster_is_written() {
    let queue = StatusQueue::default();
    let cluster: ClusterId = "c-a".parse().unwrap();
    queue.put(&cluster, status(ClusterState::Lost));
    queue.put(&cluster, status(ClusterState::Connected));
    let (_, taken) = queue.take().unwrap();
    assert_eq!(taken.state, ClusterState::Connected);
    assert!(queue.take().is_none());

    queue.put(&cluster, status(ClusterState::Lost));
    queue.put_back(cluster.clone(), taken);
    assert_eq!(queue.take().unwrap().1.state, ClusterState::Lost);
}
