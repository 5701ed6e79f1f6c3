//! Contract of every store backend.

use std::sync::atomic::{AtomicUsize, Ordering};

use fairlead_api::resources::Role;
use fairlead_store::{
    Draft, Kind, Operation, Revision,
    model::{FleetUpgrade, PersonOwner, TokenOwner},
};
use serde_json::json;

use crate::*;

#[tokio::test]
async fn authorities_survive_a_restart_and_are_in_the_log() {
    let (store, home) = store().await;
    assert!(store.view().authorities().is_none());
    assert_eq!(store.view().epoch(), 0);
    for epoch in [7, 8] {
        change(&store, move |draft| {
            draft.amend_authorities(|hub| hub.epoch = epoch);
            Ok(())
        })
        .await
        .unwrap();
    }
    let before = store.view();
    assert_eq!(before.epoch(), 8);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
    let store = open(&home).await;
    let hub = Arc::clone(store.view().authorities().unwrap());
    assert_eq!(&hub, before.authorities().unwrap());
    assert_eq!((hub.version, hub.revision), (2, store.view().revision()));
    let lines = store.changes(Revision(1), 10).await.unwrap().changes;
    let named = lines
        .iter()
        .map(|it| (it.kind, it.id.as_str(), it.operation));
    let named: Vec<_> = named.collect();
    assert_eq!(
        named,
        [
            (Kind::Authority, "hub", Operation::Created),
            (Kind::Authority, "hub", Operation::Updated)
        ]
    );
}

#[tokio::test]
async fn upgrade_of_agents_survives_a_restart_and_its_clusters_are_not_in_the_log() {
    let (store, home) = store().await;
    let upgrade: FleetUpgrade = serde_json::from_value(json!({
        "id": "au-1", "version": "0.1.0", "image": "fairlead:0.1.0", "state": "Running", "timeoutSeconds": 300,
        "maxFailed": 0, "created": "2026-11-21T12:00:00Z", "createdBy": "ann", "waves": [["c-a"], ["c-b"]],
        "clusters": { "c-a": { "state": "Upgrading" }, "c-b": { "state": "Waiting" } },
    }))
    .unwrap();
    let stored = upgrade.clone();
    let put = move |draft: &mut Draft| {
        draft.put_fleet_upgrade(stored.clone());
        Ok(())
    };
    change(&store, put).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
    let store = open(&home).await;
    let known = Arc::clone(store.view().fleet_upgrade("au-1").unwrap());
    assert_eq!(known.value, upgrade);
    let lines = store.changes(Revision(1), 10).await.unwrap().changes;
    let line = lines.iter().find(|it| it.kind == Kind::Upgrade).unwrap();
    let after = line.after.as_ref().unwrap().to_string();
    assert!(after.contains("0.1.0") && !after.contains("c-a"), "{after}");
    change(&store, |draft| draft.delete_fleet_upgrade("au-1"))
        .await
        .unwrap();
    assert_eq!(store.view().fleet_upgrades().len(), 0);
}

fn ids<'a>(clusters: impl Iterator<Item = &'a Arc<Record<Cluster>>>) -> Vec<String> {
    clusters.map(|it| it.value.id.to_string()).collect()
}

#[tokio::test]
async fn a_new_store_holds_the_default_tenant_and_nothing_else() {
    let (store, _dir) = store().await;
    let view = store.view();
    let tenants: Vec<_> = view.tenants().map(|it| it.value.id.as_str()).collect();
    assert_eq!(tenants, ["t-default"]);
    assert_eq!((view.clusters().count(), view.tokens().count()), (0, 0));
}

#[tokio::test]
async fn writes_survive_a_restart() {
    let (store, dir) = store().await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    put_tenant(&store, child("t-below", "t-acme"))
        .await
        .unwrap();
    put_cluster(&store, cluster("c-demo", "t-below"))
        .await
        .unwrap();
    put_token(&store, token("k-1", Some("t-acme"), SOON))
        .await
        .unwrap();
    let objects = vec![json!({"kind": "ConfigMap"})];
    put_catalog(&store, "c-demo", objects.clone())
        .await
        .unwrap();
    assert!(!spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap());
    let before = store.view();
    store.close().await;

    let store = open(&dir).await;
    let view = store.view();
    assert_eq!(view.revision(), before.revision());
    assert!(view.clusters().eq(before.clusters()));
    assert!(view.tenants().eq(before.tenants()));
    assert!(view.tokens().eq(before.tokens()));
    let demo = kept(&store, "c-demo");
    assert_eq!((demo.version, demo.revision), (2, view.revision()));
    assert_eq!(demo.value.created, NOW);
    let spent_by = demo.value.binding.bootstrap.spent_by.as_deref();
    assert_eq!(spent_by, Some("01".repeat(32).as_str()));
    assert_eq!(ids(view.clusters_of(&tenant_id("t-below"))), ["c-demo"]);
    assert!(view.within(&tenant_id("t-below"), &tenant_id("t-acme")));
    assert_eq!(view.children_of(&tenant_id("t-acme")).count(), 1);
    let catalog = store.catalog(&cluster_id("c-demo")).await.unwrap();
    assert_eq!((catalog.version, catalog.objects), (1, objects));
    assert_eq!(view.catalog(&cluster_id("c-demo")).unwrap().version, 1);
}

#[tokio::test]
async fn references_stay_valid() {
    let (store, _dir) = store().await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    let homeless = put_cluster(&store, cluster("c-demo", "t-none")).await;
    assert!(matches!(homeless, Err(StoreError::Missing)));
    let orphan = put_tenant(&store, child("t-below", "t-none")).await;
    assert!(matches!(orphan, Err(StoreError::Missing)));
    let nobodys = put_token(&store, token("k-1", Some("t-none"), SOON)).await;
    assert!(matches!(nobodys, Err(StoreError::Missing)));
    put_cluster(&store, cluster("c-demo", "t-acme"))
        .await
        .unwrap();
    put_tenant(&store, child("t-below", "t-acme"))
        .await
        .unwrap();
    for above in ["t-below", "t-acme"] {
        let cycle = put_tenant(&store, child("t-acme", above)).await;
        assert!(matches!(cycle, Err(StoreError::Nesting)));
    }
    for keeps in ["cluster", "child"] {
        let used = delete_tenant(&store, "t-acme").await;
        assert!(matches!(used, Err(StoreError::InUse)), "{keeps}");
        if keeps == "cluster" {
            delete_cluster(&store, "c-demo").await.unwrap();
        }
    }
    let gone = delete_cluster(&store, "c-demo").await;
    assert!(matches!(gone, Err(StoreError::Missing)));
    delete_tenant(&store, "t-below").await.unwrap();
    delete_tenant(&store, "t-acme").await.unwrap();
    let gone = delete_tenant(&store, "t-acme").await;
    assert!(matches!(gone, Err(StoreError::Missing)));
}

#[tokio::test]
async fn tokens_end_with_their_tenant_and_with_their_cluster() {
    let (store, _dir) = store().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    put_cluster(&store, cluster("c-a", "t-default"))
        .await
        .unwrap();
    put_token(&store, token("k-a", Some("t-a"), SOON))
        .await
        .unwrap();
    put_token(&store, token("k-all", None, SOON)).await.unwrap();
    let own = Token {
        cluster: Some(cluster_id("c-a")),
        ..token("k-own", None, SOON)
    };
    put_token(&store, own).await.unwrap();
    delete_tenant(&store, "t-a").await.unwrap();
    assert!(store.view().token("k-a").is_none());
    delete_cluster(&store, "c-a").await.unwrap();
    let left: Vec<_> = store
        .view()
        .tokens()
        .map(|it| it.value.id.clone())
        .collect();
    assert_eq!(left, ["k-all"]);
}

#[tokio::test]
async fn tokens_of_a_cluster_end_when_it_moves() {
    let (store, _dir) = store().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    let mut demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo.clone()).await.unwrap();
    for (id, of) in [("k-1", "c-demo"), ("k-2", "c-other")] {
        let other = cluster("c-other", "t-default");
        put_cluster(&store, other).await.unwrap();
        let own = Token {
            cluster: Some(cluster_id(of)),
            ..token(id, None, SOON)
        };
        put_token(&store, own).await.unwrap();
    }
    demo.display_name = Some("Demo".to_owned());
    put_cluster(&store, demo.clone()).await.unwrap();
    assert_eq!(store.view().tokens().count(), 2);
    demo.tenant = tenant_id("t-a");
    put_cluster(&store, demo).await.unwrap();
    assert!(store.view().token("k-1").is_none());
    assert!(store.view().token("k-2").is_some());
}

#[tokio::test]
async fn a_catalog_goes_with_its_cluster() {
    let (store, dir) = store().await;
    let id = cluster_id("c-demo");
    put_cluster(&store, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    assert_eq!(store.catalog(&id).await.unwrap().version, 0);
    assert_eq!(put_catalog(&store, "c-demo", vec![]).await.unwrap(), 1);
    assert_eq!(put_catalog(&store, "c-demo", vec![]).await.unwrap(), 2);
    let nobodys = put_catalog(&store, "c-none", vec![]).await;
    assert!(matches!(nobodys, Err(StoreError::Missing)));
    delete_cluster(&store, "c-demo").await.unwrap();
    assert!(store.view().catalog(&id).is_none());
    assert_eq!(store.catalog(&id).await.unwrap().version, 0);
    store.close().await;
    assert!(open(&dir).await.view().catalog(&id).is_none());
}

#[tokio::test]
async fn sealed_keys_are_stored_once_and_kept() {
    let (store, home) = store().await;
    assert_eq!(store.keys().await.unwrap(), None);
    assert!(store.keep_keys("sealed").await.unwrap());
    let again = open(&home).await;
    assert!(!again.keep_keys("others").await.unwrap());
    assert_eq!(again.keys().await.unwrap().as_deref(), Some("sealed"));
    assert!(!again.replace_keys("others", "lost").await.unwrap());
    assert!(again.replace_keys("sealed", "newer").await.unwrap());
    assert_eq!(again.keys().await.unwrap().as_deref(), Some("newer"));
}

#[tokio::test]
async fn a_moved_cluster_is_indexed_under_its_new_tenant() {
    let (store, _dir) = store().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    let demo = cluster("c-demo", "t-a");
    put_cluster(&store, demo.clone()).await.unwrap();
    let moved = Cluster {
        tenant: tenant_id("t-default"),
        ..demo
    };
    put_cluster(&store, moved).await.unwrap();
    let view = store.view();
    assert_eq!(view.clusters_of(&tenant_id("t-a")).count(), 0);
    assert_eq!(ids(view.clusters_of(&tenant_id("t-default"))), ["c-demo"]);
    delete_tenant(&store, "t-a").await.unwrap();
}

#[tokio::test]
async fn a_change_raises_the_version_once_and_no_change_writes_nothing() {
    let (store, _dir) = store().await;
    let demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo.clone()).await.unwrap();
    let before = store.view().revision();
    let other = demo.clone();
    let twice = move |draft: &mut Draft| {
        for name in ["one", "two"] {
            draft.amend_cluster(&other.id, |it| it.display_name = Some(name.to_owned()))?;
        }
        Ok::<_, StoreError>(draft.next_revision())
    };
    let done = store.change(alice(), twice).await.unwrap();
    assert_eq!(done.value, done.revision);
    assert_eq!(done.revision.0, before.0 + 1);
    let record = kept(&store, "c-demo");
    assert_eq!((record.version, record.revision), (2, done.revision));

    let same = record.value.clone();
    let there_and_back = move |draft: &mut Draft| {
        draft.delete_cluster(&same.id)?;
        draft.put_cluster(same.clone())
    };
    let nothing = store.change(alice(), there_and_back).await.unwrap();
    assert_eq!(nothing.revision, done.revision);
    assert!(Arc::ptr_eq(&record, &kept(&store, "c-demo")));
}

#[tokio::test]
async fn a_rejected_change_has_no_effect() {
    let (store, _dir) = store().await;
    let before = store.view().revision();
    let half = |draft: &mut Draft| {
        draft.put_tenant(tenant("t-acme"))?;
        assert!(
            draft.tenant(&tenant_id("t-acme")).is_some(),
            "it reads its own writes"
        );
        Err::<(), _>(StoreError::Conflict)
    };
    let refused = store.change(alice(), half).await;
    assert!(matches!(refused, Err(StoreError::Conflict)));
    let panicked = store.change(alice(), |_| -> Result<(), StoreError> {
        panic!("on purpose")
    });
    assert!(matches!(panicked.await, Err(StoreError::CutOff)));
    assert_eq!(store.view().revision(), before);
    assert!(store.view().tenant(&tenant_id("t-acme")).is_none());
    put_tenant(&store, tenant("t-acme")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_that_race_for_one_version_exactly_one_wins() {
    let (store, _dir) = store().await;
    put_cluster(&store, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let wins = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..200)
        .map(|n| {
            let (store, wins) = (store.clone(), Arc::clone(&wins));
            tokio::spawn(async move {
                let decide = move |draft: &mut Draft| {
                    let id = cluster_id("c-demo");
                    if draft.cluster(&id).unwrap().version != 1 {
                        return Err(StoreError::Conflict);
                    }
                    draft.amend_cluster(&id, |it| it.display_name = Some(format!("racer {n}")))
                };
                match store.change(alice(), decide).await {
                    Ok(_) => drop(wins.fetch_add(1, Ordering::SeqCst)),
                    Err(StoreError::Conflict) => {}
                    Err(other) => panic!("{other:?}"),
                }
            })
        })
        .collect();
    for racer in racers {
        racer.await.unwrap();
    }
    assert_eq!(wins.load(Ordering::SeqCst), 1);
    assert_eq!(kept(&store, "c-demo").version, 2);
}

#[tokio::test]
async fn watchers_are_notified_once_a_change_is_visible() {
    let (store, _dir) = store().await;
    let mut watched = store.watch();
    watched.mark_unchanged();
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    watched.changed().await.unwrap();
    let told = *watched.borrow_and_update();
    assert_eq!(told, store.view().revision());
    assert_eq!(
        store.view().tenant(&tenant_id("t-acme")).unwrap().revision,
        told
    );
}

#[tokio::test]
async fn a_disconnected_caller_leaves_memory_and_disk_consistent() {
    let (store, dir) = store().await;
    for n in 0..20 {
        let id = format!("c-{n}");
        let create = put_cluster(&store, cluster(&id, "t-default"));
        // Polled once and dropped: a change in progress runs to its end.
        tokio::select! {
            biased;
            done = create => done.unwrap(),
            () = yield_times(n) => {}
        }
    }
    store.close().await;
    let disk = open(&dir).await;
    assert!(disk.view().clusters().eq(store.view().clusters()));
    assert_eq!(disk.view().clusters().count(), 20);
}

async fn yield_times(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn last_uses_of_tokens_are_kept_and_the_newest_wins() {
    let (one, home) = store().await;
    put_tenant(&one, tenant("t-acme")).await.unwrap();
    for id in ["k-1", "k-2"] {
        put_token(&one, token(id, Some("t-acme"), NOW))
            .await
            .unwrap();
    }
    let revision = one.view().revision();
    one.token_used("k-1");
    one.token_used("k-gone");
    assert_eq!(one.persist_token_uses().await.unwrap(), 1);
    assert_eq!(one.persist_token_uses().await.unwrap(), 0);
    let first = one.token_uses().await.unwrap()["k-1"];
    // The store writes the last uses when it closes.
    one.token_used("k-2");
    one.close().await;
    let one = open(&home).await;
    let uses = one.token_uses().await.unwrap();
    assert_eq!((uses.len(), uses["k-1"]), (2, first));
    assert_eq!(one.view().revision(), revision);
    one.token_used("k-1");
    let newer = one.token_uses().await.unwrap()["k-1"];
    assert!(newer >= first);
    change(&one, |draft| draft.delete_token("k-2"))
        .await
        .unwrap();
    one.persist_token_uses().await.unwrap();
    let uses = one.token_uses().await.unwrap();
    assert_eq!((uses.len(), uses["k-1"]), (1, newer));
}

#[tokio::test]
async fn tokens_of_a_person_are_found_by_issuer_and_subject() {
    let (store, home) = store().await;
    let person = PersonOwner {
        issuer: "https://login".to_owned(),
        sub: "jane".to_owned(),
        name: "corp.jane".to_owned(),
        role: Some(Role::Admin),
        tenant: None,
        cluster: None,
        credential_ends: Some(NOW),
    };
    let mut owned = token("k-1", None, NOW);
    owned.owner = Some(TokenOwner::Person(person.clone()));
    put_token(&store, owned.clone()).await.unwrap();
    put_token(&store, token("k-2", None, NOW)).await.unwrap();
    let found = |store: &Store, sub: &str| {
        let view = store.view();
        let tokens = view.tokens_of_person("https://login", sub);
        tokens.map(|it| it.value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found(&store, "jane"), [owned.clone()]);
    assert_eq!(found(&store, "bob"), []);
    store.close().await;
    let store = open(&home).await;
    assert_eq!(found(&store, "jane"), [owned.clone()]);
    owned.owner = Some(TokenOwner::Token {
        token: "k-2".to_owned(),
    });
    put_token(&store, owned.clone()).await.unwrap();
    assert_eq!(found(&store, "jane"), []);
    assert_eq!(store.view().token("k-1").unwrap().value, owned);
}

#[tokio::test]
async fn services_end_with_their_cluster_and_when_it_moves() {
    let (store, _dir) = store().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    for id in ["c-kept", "c-moved", "c-gone"] {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
        put_service(&store, service(&id[2..], id)).await.unwrap();
    }
    let orphan = put_service(&store, service("orphan", "c-none")).await;
    assert!(matches!(orphan, Err(StoreError::Missing)));
    let before = store.view();
    put_cluster(&store, cluster("c-moved", "t-a"))
        .await
        .unwrap();
    delete_cluster(&store, "c-gone").await.unwrap();
    let view = store.view();
    let left: Vec<_> = view.services().map(|it| it.value.name.as_str()).collect();
    assert_eq!(left, ["kept"]);
    assert!(!view.has_same_services(&before) && !view.has_same_access(&before));
    assert!(view.has_same_services(&store.view()));
    let name = "kept".parse().unwrap();
    change(&store, move |draft| draft.delete_service(&name))
        .await
        .unwrap();
    assert_eq!(store.view().services().len(), 0);
}
