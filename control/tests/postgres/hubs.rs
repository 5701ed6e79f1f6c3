//! Several hubs on one database.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairlead_api::{
    Failure,
    resources::{CreateToken, Role, TenantQuotas},
};
use fairlead_control::backup::HubData;
use fairlead_store::{Place, Presented, Revision, dump::migrate};
use tokio::time::timeout;

use crate::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_on_two_hubs_that_race_for_one_token_exactly_one_wins() {
    let (one, home) = store().await;
    let two = open(&home).await;
    put_cluster(&one, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let won = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..200_u8)
        .map(|key| {
            let store = if key % 2 == 0 {
                one.clone()
            } else {
                two.clone()
            };
            let won = Arc::clone(&won);
            tokio::spawn(async move {
                match spend(&store, claim("c-demo", 1, key), NOW).await {
                    Ok(again) => {
                        assert!(!again);
                        won.fetch_add(1, Ordering::SeqCst);
                    }
                    // The other hub may not know the cluster yet.
                    Err(SpendError::Spent | SpendError::Unknown) => {}
                    Err(other) => panic!("{other:?}"),
                }
            })
        })
        .collect();
    for racer in racers {
        racer.await.unwrap();
    }
    assert_eq!(won.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hubs_together_grant_no_more_clusters_than_the_quota() {
    let (one, home) = store().await;
    let two = open(&home).await;
    let mut acme = tenant("t-acme");
    acme.quotas = Some(TenantQuotas {
        clusters: Some(7),
        ..TenantQuotas::default()
    });
    put_tenant(&one, acme).await.unwrap();
    let racers: Vec<_> = (0..100)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { two.clone() };
            let new = cluster(&format!("c-{n}"), "t-acme");
            tokio::spawn(async move { put_cluster(&store, new).await })
        })
        .collect();
    let (mut granted, mut refused) = (0, 0);
    for racer in racers {
        match racer.await.unwrap() {
            Ok(()) => granted += 1,
            Err(StoreError::Quota(_)) => refused += 1,
            // The other hub may not know the tenant yet.
            Err(StoreError::Missing) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(granted, 7);
    assert!(refused > 0);
    assert_eq!(one.view().clusters_of(&tenant_id("t-acme")).count(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_hubs_lose_no_write_and_converge() {
    let (one, home) = store().await;
    let two = open(&home).await;
    let writers: Vec<_> = (0..100)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move {
                put_tenant(&store, tenant(&format!("t-{n}"))).await.unwrap();
                let mine = cluster(&format!("c-{n}"), &format!("t-{n}"));
                put_cluster(&store, mine).await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let (mut first, mut second) = (one.watch(), two.watch());
    let last = one.view().revision().max(two.view().revision());
    first.wait_for(|revision| *revision >= last).await.unwrap();
    second.wait_for(|revision| *revision >= last).await.unwrap();
    assert_eq!(last.0, 201, "one for each change");
    assert!(one.view().clusters().eq(two.view().clusters()));
    assert!(one.view().tenants().eq(two.view().tenants()));
    assert_eq!(one.view().clusters().count(), 100);
    let changes = two
        .changes(fairlead_store::Revision(1), 1000)
        .await
        .unwrap();
    let revisions: Vec<_> = changes.changes.iter().map(|it| it.revision.0).collect();
    assert_eq!(revisions, (2..=201).collect::<Vec<_>>());
    assert_eq!(one.check().await.unwrap(), Vec::<String>::new());
}

/// The cluster exists again under another registration: agents of the old one are evicted.
#[tokio::test]
async fn sessions_end_when_another_hub_registers_the_cluster_again() {
    let (one, home) = store().await;
    let two = open(&home).await;
    put_cluster(&one, cluster("c-anew", "t-default"))
        .await
        .unwrap();
    let (mut told, now) = (two.watch(), one.view().revision());
    told.wait_for(|revision| *revision == now).await.unwrap();
    let mut parted = two.revocations();
    let anew = change(&one, |draft: &mut Draft| {
        draft.delete_cluster(&cluster_id("c-anew"))?;
        let mut again = cluster("c-anew", "t-default");
        again.binding.registration = Registration::random().unwrap();
        draft.put_cluster(again)
    });
    anew.await.unwrap();
    let told = timeout(Duration::from_secs(60), parted.recv()).await;
    assert_eq!(told.unwrap().unwrap(), cluster_id("c-anew"));
}

/// A newer key at one hub ends the sessions of the older one at each hub.
#[tokio::test]
async fn newer_key_at_one_hub_is_announced_at_both() {
    let (one, home) = store().await;
    let two = open(&home).await;
    let id = cluster_id("c-keys");
    put_cluster(&one, cluster("c-keys", "t-default"))
        .await
        .unwrap();
    let (mut here, mut there) = (one.revocations(), two.revocations());
    let mut seen = two.watch();
    for key in ["first", "second"] {
        let id = id.clone();
        let enrol = change(&one, move |draft: &mut Draft| {
            draft.amend_cluster(&id, |it| it.binding.agent_key = Some(key.to_owned()))
        });
        enrol.await.unwrap();
        // A hub that reads both keys at once never admitted the first one.
        let now = one.view().revision();
        seen.wait_for(|revision| *revision >= now).await.unwrap();
    }
    let wait = Duration::from_secs(60);
    for revocations in [&mut here, &mut there] {
        let told = timeout(wait, revocations.recv()).await;
        assert_eq!(told.unwrap().unwrap(), id);
        assert!(
            revocations.try_recv().is_err(),
            "the first key revokes none"
        );
    }
}

#[tokio::test]
async fn a_hub_applies_changes_of_another_hub() {
    let (one, home) = store().await;
    let two = open(&home).await;
    let mut told = two.watch();
    put_cluster(&one, cluster("c-stays", "t-default"))
        .await
        .unwrap();
    put_cluster(&one, cluster("c-goes", "t-default"))
        .await
        .unwrap();
    put_catalog(&one, "c-goes", vec![]).await.unwrap();
    put_catalog(&one, "c-stays", vec![]).await.unwrap();
    let now = one.view().revision();
    told.wait_for(|revision| *revision == now).await.unwrap();
    assert!(two.view().catalog(&cluster_id("c-goes")).is_some());
    let mut parted = two.revocations();
    delete_cluster(&one, "c-goes").await.unwrap();
    assert_eq!(parted.recv().await.unwrap(), cluster_id("c-goes"));
    let now = one.view().revision();
    told.wait_for(|revision| *revision == now).await.unwrap();
    let view = two.view();
    assert!(view.cluster(&cluster_id("c-goes")).is_none());
    assert!(view.catalog(&cluster_id("c-goes")).is_none());
    assert_eq!(view.clusters_of(&tenant_id("t-default")).count(), 1);
    assert_eq!(view.catalog(&cluster_id("c-stays")).unwrap().version, 1);
}

#[tokio::test]
async fn a_store_in_use_is_neither_migrated_nor_overwritten() {
    let (one, home) = store().await;
    let presented = Presented {
        url: "https://one.hub.example".parse().unwrap(),
        address: "https://192.0.2.1:8443".parse().unwrap(),
        agents: Default::default(),
        instead_of: None,
    };
    one.begin(presented, NOW, "").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = Place::File(dir.path().join("other.db"));
    let file = Store::open(&other, Clock::system()).await.unwrap();
    file.close().await;
    for (from, to) in [(home.place(), other.clone()), (other.clone(), home.place())] {
        let failure = Failure::from(migrate(&from, &to, true).await.unwrap_err());
        assert!(failure.cause.contains("one.hub.example"), "{failure}");
        assert!(failure.next_step().starts_with("Stop"), "{failure:?}");
    }
    one.close().await;
    migrate(&home.place(), &other, true).await.unwrap();
}

#[tokio::test]
async fn a_token_created_while_hubs_run_is_picked_up() {
    let (one, home) = store().await;
    let dir = tempfile::tempdir().unwrap();
    let data = HubData {
        data_dir: dir.path().to_owned(),
        store: Some(home.place()),
    };
    let asked = CreateToken {
        name: "ann".to_owned(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: None,
    };
    let created = data.create_token(asked).await.unwrap();
    let mut changed = one.watch();
    let there = |_: &Revision| one.view().token(&created.about.id).is_some();
    changed.wait_for(there).await.unwrap();
}
