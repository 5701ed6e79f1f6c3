//! Health of followed objects.

use fairlead_manifests::{HealthState, HealthSummary};

use super::*;

async fn health(rig: &mut Rig) -> HealthSummary {
    rig.next(|event| match event {
        DriftEvent::HealthChanged(health) => Some(health.clone()),
        _ => None,
    })
    .await
}

fn status(available: u32) -> Value {
    json!({
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": available, "availableReplicas": available,
        "conditions": [{"type": "Available", "status": if available == 2 { "True" } else { "False" }}],
    })
}

#[tokio::test(start_paused = true)]
async fn health_is_sent_once_all_objects_were_read() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    let first = health(&mut rig).await;
    assert_eq!((first.total, first.ready), (2, 1));
    assert_eq!(first.worst.state, HealthState::Progressing);
    assert!(
        first.worst.reason.starts_with("Deployment shop/web "),
        "{first:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn health_follows_the_status_after_two_quiet_seconds() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    health(&mut rig).await;
    rig.settle().await;
    let start = Instant::now();
    rig.cluster.set_status(WEB, status(2));
    let ready = health(&mut rig).await;
    assert_eq!((ready.total, ready.ready), (2, 2));
    assert_eq!(start.elapsed().as_secs(), 2);
    rig.cluster.set_status(WEB, status(1));
    let worse = health(&mut rig).await;
    assert_eq!(worse.ready, 1);
    // Not more often than every ten seconds.
    assert!(start.elapsed().as_secs() >= 12);
    assert!(worse.worst.reason.contains("1 of 2"), "{worse:?}");
}

#[tokio::test(start_paused = true)]
async fn health_is_followed_without_drift_detection() {
    let mut rig = Rig::start(DriftPolicy::Ignore).await;
    health(&mut rig).await;
    rig.cluster.set_status(WEB, status(2));
    assert_eq!(health(&mut rig).await.ready, 2);
    rig.cluster.remove(WEB);
    let gone = health(&mut rig).await;
    assert_eq!(gone.worst.reason, "Deployment shop/web does not exist");
}
