//! Removal by tombstones, and by nothing else.

use fairlead_api::{
    Code,
    delivery::{DeploymentReports, DeploymentState},
};
use serde_json::json;

use super::hub::{TestHub, id, shop};

fn gone() -> DeploymentReports {
    DeploymentReports {
        gone: vec![shop()],
        ..DeploymentReports::default()
    }
}

async fn untargeted(clusters: usize) -> TestHub {
    let mut hub = TestHub::with(clusters).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.label(0..1, "core").await;
    hub
}

#[tokio::test]
async fn a_tombstone_stays_until_the_agent_reports_its_end() {
    let mut hub = untargeted(2).await;
    hub.amend(|it| {
        it.removals.insert(id(0), 1);
    })
    .await;
    let tombstone = hub.entry(0).unwrap();
    assert!(tombstone.remove && tombstone.generation == 1 && tombstone.spec.is_none());
    let reason = "the agent of c-0000 removes the objects of b-shop".to_owned();
    assert_eq!(hub.shown(0), (DeploymentState::Removing, reason));
    assert_eq!(hub.code(0), Some(Code::RemovalRuns));
    hub.report_state(0, DeploymentState::Removing, 1).await;
    hub.pass().await;
    assert!(hub.entry(0).is_some());
    hub.report(0, gone()).await;
    hub.pass().await;
    assert_eq!((hub.entry(0), hub.deployment(0)), (None, None));
    let view = hub.store.view();
    assert!(view.bundle(&shop()).unwrap().value.removals.is_empty());
    assert_eq!(hub.released(1), 1, "no other cluster");
}

#[tokio::test]
async fn a_targeted_cluster_loses_its_tombstone() {
    let mut hub = untargeted(2).await;
    hub.disconnect(0);
    hub.amend(|it| {
        it.removals.insert(id(0), 1);
    })
    .await;
    let reason = hub.shown(0).1;
    assert!(
        reason.starts_with("c-0000 is offline since ")
            && reason.ends_with("; the objects of b-shop are removed when it is back"),
        "{reason}"
    );
    assert_eq!(hub.code(0), Some(Code::RemovalRuns));
    hub.label(0..1, "edge").await;
    hub.connect(0);
    hub.pass().await;
    assert_eq!(hub.released(0), 1);
    let view = hub.store.view();
    assert!(view.bundle(&shop()).unwrap().value.removals.is_empty());
}

#[tokio::test]
async fn a_bundle_is_deleted_after_its_last_tombstone() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.amend(|it| {
        it.deleting = true;
        it.removals = [(id(0), 1), (id(1), 1)].into();
    })
    .await;
    assert!(hub.entry(0).unwrap().remove && hub.entry(1).unwrap().remove);
    hub.report(0, gone()).await;
    hub.pass().await;
    assert!(hub.store.view().bundle(&shop()).is_some());
    hub.report(1, gone()).await;
    hub.pass().await;
    assert!(hub.store.view().bundle(&shop()).is_none());
}

#[tokio::test]
async fn a_deleted_cluster_holds_up_no_deletion() {
    let mut hub = TestHub::with(1).await;
    hub.deploy(json!({})).await;
    hub.amend(|it| {
        it.deleting = true;
        it.removals = [(id(0), 1)].into();
    })
    .await;
    hub.change(|draft| draft.delete_cluster(&id(0))).await;
    hub.pass().await;
    assert!(hub.store.view().bundle(&shop()).is_none());
}
