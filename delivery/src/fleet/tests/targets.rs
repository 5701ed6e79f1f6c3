//! Changes of labels, tenants and variables.

use fairlead_api::{
    Code,
    delivery::{DeploymentReports, DeploymentState, RolloutState},
};
use serde_json::json;

use super::hub::{TestHub, id, shop, state_of};

#[tokio::test]
async fn a_label_edit_keeps_objects_of_untargeted_clusters() {
    let mut hub = TestHub::with(400).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.label(0..300, "core").await;
    assert_eq!(hub.with_released(1), (300..400).collect::<Vec<_>>());
    for number in [0, 299] {
        assert_eq!(
            hub.entry(number),
            None,
            "no tombstone without a confirmation"
        );
        let (state, reason) = hub.shown(number);
        assert_eq!(state, DeploymentState::Orphaned);
        let cluster = id(number);
        assert_eq!(
            reason,
            format!(
                "b-shop does not target {cluster} any more, and its objects are kept; target the cluster again, or remove the deployment"
            )
        );
        assert_eq!(hub.code(number), Some(Code::NotTargeted));
    }
    assert_eq!(
        hub.rollout()
            .waves
            .iter()
            .map(|it| it.clusters)
            .sum::<u32>(),
        100
    );
    hub.label(0..300, "edge").await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(1).len(), 400);
}

#[tokio::test]
async fn a_cluster_that_begins_to_match_gets_the_released_generation() {
    let mut hub = TestHub::with(6).await;
    hub.label(5..6, "core").await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    assert!(hub.deployment(5).is_none());
    hub.label(5..6, "edge").await;
    assert_eq!(hub.released(5), 1, "the rollout is done");
    hub.all_ready().await;

    hub.label(5..6, "core").await;
    hub.deploy(json!({"vars": {"a": 1}})).await;
    hub.label(5..6, "edge").await;
    assert_eq!(hub.released(5), 1, "its wave has not started");
    hub.all_ready().await;
    assert_eq!(hub.released(5), 2);
}

#[tokio::test]
async fn a_moved_cluster_keeps_objects_of_its_old_tenant() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.change(|draft| draft.amend_cluster(&id(0), |it| it.tenant = "t-b".parse().unwrap()))
        .await;
    hub.pass().await;
    assert_eq!(hub.entry(0), None);
    assert_eq!(hub.shown(0).0, DeploymentState::Orphaned);
    assert_eq!(hub.released(1), 1);
}

#[tokio::test]
async fn a_missing_variable_blocks_its_cluster_only() {
    let mut hub = TestHub::with(3).await;
    hub.change(|draft| {
        for number in 0..2 {
            draft.amend_cluster(&id(number), |it| {
                it.annotations.insert("zone".to_owned(), "a".to_owned());
            })?;
        }
        Ok(())
    })
    .await;
    let patch = json!({"target": {"kind": "Deployment"}, "merge": {"metadata": {"labels": {"zone": "${cluster.annotations.zone}"}}}});
    let all = json!({"rollout": {"waves": [{"name": "all", "maxUnavailable": 3, "maxFailures": 1}]}, "patches": [patch]});
    hub.deploy(all).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(1), [0, 1]);
    assert_eq!(hub.rollout().state, RolloutState::Done);
    let blocked = hub.deployment(2).unwrap();
    assert_eq!(blocked.state, DeploymentState::Blocked);
    assert_eq!(blocked.code.as_deref(), Some("FL-6403"));
    let reason = blocked.reason.unwrap();
    assert!(reason.contains("cluster.annotations.zone"), "{reason}");

    hub.change(|draft| {
        draft.amend_cluster(&id(2), |it| {
            it.annotations.insert("zone".to_owned(), "b".to_owned());
        })
    })
    .await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(1), [0, 1, 2]);
    let spec = |number| hub.entry(number).unwrap().spec.unwrap();
    assert_eq!(spec(0), spec(1), "equal content is one spec");
    assert_ne!(spec(0), spec(2));
    let (own, other) = (spec(0), spec(2));
    let reads = |number: usize, spec| {
        hub.parts
            .fleet
            .read_now(|it| it.spec(&id(number), spec).is_some())
    };
    assert!(
        reads(0, &own) && !reads(0, &other),
        "only specs of the own cluster"
    );
}

#[tokio::test]
async fn reports_go_on_from_a_base_or_begin_anew() {
    let mut hub = TestHub::with(1).await;
    hub.deploy(json!({})).await;
    hub.report_state(0, DeploymentState::Applying, 1).await;
    let changed = DeploymentReports {
        base: Some("0".repeat(32)),
        reports: vec![state_of(DeploymentState::Ready, 1)],
        ..DeploymentReports::default()
    };
    let taken = hub.parts.fleet.report(&id(0), changed).await.unwrap();
    assert_eq!(taken, crate::fleet::TakenReports::OtherBase);
    assert_eq!(
        hub.shown(0).0,
        DeploymentState::Applying,
        "nothing was taken"
    );
    hub.report_state(0, DeploymentState::Ready, 1).await;
    assert_eq!(hub.shown(0).0, DeploymentState::Ready);
    // All states, without the shop: its journal is gone.
    let all = hub
        .parts
        .fleet
        .report(&id(0), DeploymentReports::default())
        .await;
    assert_eq!(
        all.unwrap(),
        crate::fleet::TakenReports::Taken("0".repeat(32))
    );
    hub.pass().await;
    assert_eq!(hub.deployment(0).unwrap().generation.applied, 0);
    assert_eq!(hub.released(0), 1, "it is still targeted");
}

#[tokio::test]
async fn a_deleted_bundle_is_orphaned_where_agents_report_it() {
    let mut hub = TestHub::with(2).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.change(|draft| draft.delete_bundle(&shop())).await;
    hub.pass().await;
    assert_eq!(hub.entry(0), None);
    let (state, reason) = hub.shown(0);
    assert_eq!(state, DeploymentState::Orphaned);
    assert!(reason.contains("was deleted"), "{reason}");
    let gone = DeploymentReports {
        gone: vec![shop()],
        ..DeploymentReports::default()
    };
    for number in 0..2 {
        hub.report(number, gone.clone()).await;
        assert!(hub.deployment(number).is_none());
    }
}
