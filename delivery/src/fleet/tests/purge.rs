//! Purges of clusters.

use fairlead_api::{
    BundleId,
    delivery::{DeploymentReport, DeploymentReports, DeploymentState},
};
use fairlead_store::model::PurgeOrder;
use serde_json::json;

use super::hub::{START, TestHub, id, shop, state_of};

const APP: &str = "b-app";

async fn order(hub: &mut TestHub, is_ordered: bool) {
    hub.change(move |draft| {
        draft.amend_cluster(&id(0), |it| {
            it.purge = is_ordered.then(|| PurgeOrder {
                at: START,
                by: "anna".to_owned(),
            });
        })?;
        Ok(())
    })
    .await;
    hub.pass().await;
}

fn gone(bundle: &str) -> DeploymentReports {
    DeploymentReports {
        gone: vec![bundle.parse().unwrap()],
        ..DeploymentReports::default()
    }
}

/// Tombstones in the desired state, with their generations.
fn tombstones(hub: &TestHub) -> Vec<(String, u64)> {
    let bundles = hub.desired(0).bundles;
    assert!(bundles.iter().all(|it| it.remove && it.spec.is_none()));
    let bundles = bundles.into_iter();
    bundles
        .map(|it| (it.bundle.to_string(), it.generation))
        .collect()
}

fn left(hub: &TestHub) -> usize {
    let cluster = id(0);
    hub.parts.fleet.read_now(|it| it.purgeable(&cluster).len())
}

#[tokio::test]
async fn purge_removes_dependents_first_and_no_other_cluster() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    let needs = json!({ "dependsOn": ["b-shop"], "targets": [{ "clusters": ["c-0000"] }] });
    hub.deploy_as(APP, needs).await;
    let app = DeploymentReport {
        bundle: APP.parse::<BundleId>().unwrap(),
        ..state_of(DeploymentState::Ready, 1)
    };
    let reports = DeploymentReports {
        reports: vec![app],
        ..DeploymentReports::default()
    };
    hub.report(0, reports).await;
    order(&mut hub, true).await;
    assert_eq!(
        (tombstones(&hub), left(&hub)),
        (vec![(APP.to_owned(), 1)], 2)
    );
    let (state, reason) = hub.shown(0);
    assert_eq!(state, DeploymentState::Removing);
    assert_eq!(reason, "the agent of c-0000 removes the objects of b-shop");
    hub.report(0, gone(APP)).await;
    hub.pass().await;
    assert_eq!(tombstones(&hub), [("b-shop".to_owned(), 1)]);
    hub.report(0, gone("b-shop")).await;
    hub.pass().await;
    assert_eq!((tombstones(&hub), left(&hub)), (vec![], 0));
    assert_eq!((hub.deployment(0), hub.released(1)), (None, 1));
}

#[tokio::test]
async fn purge_removes_the_kept_objects_of_a_deleted_bundle() {
    let mut hub = TestHub::with(1).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.change(|draft| draft.delete_bundle(&shop())).await;
    hub.pass().await;
    assert!(hub.desired(0).bundles.is_empty());
    order(&mut hub, true).await;
    assert_eq!(tombstones(&hub), [("b-shop".to_owned(), 1)]);
    assert_eq!(hub.shown(0).0, DeploymentState::Removing);
    hub.report(0, gone("b-shop")).await;
    hub.pass().await;
    assert_eq!(left(&hub), 0);
}

#[tokio::test]
async fn cancelled_purge_delivers_again() {
    let mut hub = TestHub::with(1).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    order(&mut hub, true).await;
    hub.report(0, gone("b-shop")).await;
    hub.pass().await;
    order(&mut hub, false).await;
    hub.all_ready().await;
    assert_eq!(hub.released(0), 1);
    assert_eq!(hub.shown(0).0, DeploymentState::Ready);
}
