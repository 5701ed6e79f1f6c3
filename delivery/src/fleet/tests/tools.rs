//! GitOps tools as bundles.

use fairlead_api::{
    delivery::{ConflictPolicy, DesiredBundle, DriftPolicy},
    gitops::{GitOpsSettings, GitOpsTool, ToolInstallation},
};
use fairlead_store::{
    Draft, StoreError,
    model::{BundleRecord, Cluster, Fact, FactSource, GitRepo},
};
use serde_json::{Value, json};

use super::hub::{TestHub, id};
use crate::tools::{self, Checked};

async fn amend(hub: &mut TestHub, change: impl Fn(&mut Cluster) + Send + 'static) {
    let decide = move |draft: &mut Draft| -> Result<(), StoreError> {
        let mut cluster = draft.cluster(&id(0)).unwrap().value.clone();
        change(&mut cluster);
        draft.put_cluster(cluster)
    };
    hub.change(decide).await;
}

async fn install(hub: &mut TestHub) {
    amend(hub, |cluster| {
        cluster.git_repo = Some(Box::new(GitRepo {
            url: Some("ssh://git@git.example/a.git".to_owned()),
            ..GitRepo::default()
        }));
        cluster.agent.gitops = Some(GitOpsSettings {
            tool: Some(GitOpsTool::Flux),
            install: Some(true),
            ..GitOpsSettings::default()
        });
    })
    .await;
}

async fn report(hub: &mut TestHub, state: &'static str) {
    report_found(hub, json!({ "state": state })).await;
}

async fn report_found(hub: &mut TestHub, found: Value) {
    amend(hub, move |cluster| {
        let fact = Fact {
            value: json!({ "tool": "flux", "found": found }),
            source: FactSource::Agent,
            received: 0,
            observed: 0,
        };
        cluster.dynamic_facts.insert("gitops".to_owned(), fact);
    })
    .await;
}

async fn pass(hub: &mut TestHub) -> Vec<u64> {
    tools::pass(&hub.parts, &mut Checked::new()).await;
    hub.pass().await;
    let generation = |it: DesiredBundle| it.generation;
    hub.desired(0).bundles.into_iter().map(generation).collect()
}

fn bundle(hub: &TestHub) -> BundleRecord {
    hub.store.view().bundles().next().unwrap().value.clone()
}

#[tokio::test]
async fn tool_is_installed_once_the_agent_has_found_none() {
    let mut hub = TestHub::with(1).await;
    install(&mut hub).await;
    assert!(pass(&mut hub).await.is_empty(), "no report yet");
    report(&mut hub, "absent").await;
    assert_eq!(pass(&mut hub).await, [1]);
    let made = bundle(&hub);
    assert_eq!(made.id.as_str(), format!("b-gitops-{}", id(0)));
    assert_eq!(
        made.fields.service_account.as_deref(),
        Some("gitops-installer")
    );
    assert_eq!(made.fields.prune, Some(false));

    let revision = hub.store.view().revision();
    assert_eq!(pass(&mut hub).await, [1]);
    assert_eq!(hub.store.view().revision(), revision, "nothing is due");
    report(&mut hub, "own").await;
    assert_eq!(pass(&mut hub).await, [1]);
    // Labels of others on one object do not turn an installation into an adoption.
    report(&mut hub, "foreign").await;
    assert_eq!(pass(&mut hub).await, [1]);
    assert!(bundle(&hub).tool.unwrap().with_controllers);
}

#[tokio::test]
async fn changed_settings_make_another_generation() {
    let mut hub = TestHub::with(1).await;
    install(&mut hub).await;
    report(&mut hub, "absent").await;
    assert_eq!(pass(&mut hub).await, [1]);
    amend(&mut hub, |cluster| {
        let settings = cluster.agent.gitops.as_mut().unwrap();
        settings.installation = Some(ToolInstallation {
            registry: Some("mirror.example".to_owned()),
            ..ToolInstallation::default()
        });
    })
    .await;
    assert_eq!(pass(&mut hub).await, [2]);
    amend(&mut hub, |cluster| {
        cluster.agent.gitops.as_mut().unwrap().install = Some(false)
    })
    .await;
    assert!(pass(&mut hub).await.is_empty(), "objects stay");
    assert_eq!(hub.store.view().bundles().count(), 0);
}

#[tokio::test]
async fn tool_of_others_is_left_alone_until_it_is_adopted() {
    let mut hub = TestHub::with(1).await;
    install(&mut hub).await;
    report(&mut hub, "foreign").await;
    assert!(pass(&mut hub).await.is_empty());
    amend(&mut hub, |cluster| {
        cluster.agent.gitops.as_mut().unwrap().adopt = Some(true)
    })
    .await;
    assert!(pass(&mut hub).await.is_empty(), "not saved yet");
    report_found(&mut hub, json!({ "state": "foreign", "saved": true })).await;
    assert_eq!(pass(&mut hub).await, [1]);
    let adopted = bundle(&hub);
    assert!(!adopted.tool.unwrap().with_controllers);
    assert_eq!(adopted.fields.conflicts, ConflictPolicy::Force);
    let reason = "a repair would fight with the return";
    assert_eq!(adopted.fields.drift, DriftPolicy::Report, "{reason}");
    amend(&mut hub, |cluster| {
        cluster.agent.gitops.as_mut().unwrap().adopt = Some(false)
    })
    .await;
    assert!(pass(&mut hub).await.is_empty());
}

#[tokio::test]
async fn unusable_manifest_makes_no_bundle() {
    let mut hub = TestHub::with(1).await;
    install(&mut hub).await;
    report(&mut hub, "absent").await;
    amend(&mut hub, |cluster| {
        let settings = cluster.agent.gitops.as_mut().unwrap();
        settings.installation = Some(ToolInstallation {
            version: Some("1.0.0".to_owned()),
            ..ToolInstallation::default()
        });
    })
    .await;
    assert!(pass(&mut hub).await.is_empty());
}
