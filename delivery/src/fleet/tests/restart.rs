//! Restarts, restores, and hubs that follow.

use fairlead_api::{
    Code,
    delivery::{DeploymentState, RolloutState},
};
use fairlead_rollout::RolloutVerb;
use fairlead_store::Clock;
use serde_json::json;

use super::hub::{START, TestHub, id};
use crate::{fleet::supervisor::VerbError, parts::DeliveryParts};

#[tokio::test]
async fn a_restarted_hub_knows_releases_and_reports() {
    let mut hub = TestHub::with(8).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.deploy(json!({"vars": {"a": 1}})).await;
    let canary = hub.with_released(2);
    let mut hub = hub.restart().await;
    hub.pass().await;
    assert_eq!(hub.with_released(2), canary);
    assert_eq!(hub.with_released(1).len(), 7);
    assert_eq!(
        hub.deployment(3).unwrap().generation.applied,
        1,
        "of its row"
    );
    // Agents have not reconnected: a wave without connected clusters would be done.
    hub.advance(29).await;
    assert_eq!(hub.with_released(2), canary);
    (0..8).for_each(|it| hub.connect(it));
    hub.advance(1).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(2).len(), 8);
    assert_eq!(hub.rollout().state, RolloutState::Done);
}

#[tokio::test]
async fn a_new_generation_waits_for_agents_after_a_restart() {
    let mut hub = TestHub::with(4).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    let mut hub = hub.restart().await;
    (0..4).for_each(|it| hub.disconnect(it));
    hub.deploy(json!({"vars": {"a": 1}})).await;
    assert_eq!(hub.rollout().to, 1);
    (0..4).for_each(|it| hub.connect(it));
    hub.advance(30).await;
    assert_eq!(hub.with_released(2).len(), 1, "the canary first");
}

#[tokio::test]
async fn a_restored_hub_desires_nothing_until_it_is_confirmed() {
    let mut hub = TestHub::with(3).await;
    hub.deploy(json!({})).await;
    hub.change(|draft| {
        draft.amend_authorities(|it| it.begin_epoch(START));
        Ok(())
    })
    .await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(0).len(), 3);
    assert!(hub.desired(0).bundles.is_empty());
    let pending = (0..3)
        .find(|it| hub.shown(*it).0 == DeploymentState::Pending)
        .unwrap();
    assert_eq!(
        hub.shown(pending).1,
        "the hub was restored, and releases nothing until `fairlead confirm-restore`"
    );
    assert_eq!(hub.code(pending), Some(Code::ReleasesStopped));
    hub.change(|draft| {
        draft.amend_authorities(|it| it.confirmed_epoch = it.epoch);
        Ok(())
    })
    .await;
    hub.pass().await;
    // Agents reconnect after the confirmation.
    hub.advance(30).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(1).len(), 3);
}

#[tokio::test]
async fn of_two_hubs_one_stores_a_step_and_the_other_reads_it() {
    let mut hub = TestHub::with(4).await;
    hub.deploy(json!({})).await;
    let other = DeliveryParts::of(&hub.store, &Clock::new(hub.clock.reader()));
    other.fleet.pass().await.unwrap();
    hub.all_ready().await;
    let rollout = hub.rollout().id;
    let state = |parts: &DeliveryParts| {
        parts
            .fleet
            .read_now(|it| it.rollout(&rollout).unwrap().state)
    };
    assert_eq!(
        (state(&hub.parts), state(&other)),
        (RolloutState::Done, RolloutState::Running)
    );
    let late = other
        .fleet
        .verb(&rollout, RolloutVerb::Pause)
        .await
        .unwrap_err();
    assert!(matches!(late, VerbError::NotStored), "{late}");
    other.fleet.pass().await.unwrap();
    assert_eq!(state(&other), RolloutState::Done);
    let desired = other.fleet.read_now(|it| it.desired(&id(3)));
    assert_eq!(desired, Some(hub.desired(3)), "both serve the same");
}
