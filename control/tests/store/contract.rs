//! What every implementation of the store must do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairlead_api::{
    Code, Failure,
    catalog::Catalog,
    resources::{ClusterStatus, LastError, State},
};
use fairlead_control::store::{SpendError, StoreError};

use crate::*;

#[tokio::test]
async fn a_new_store_holds_the_default_tenant_and_nothing_else() {
    let (store, _dir) = store().await;
    let tenants = store.tenants(None).await.unwrap();
    assert_eq!(tenants.len(), 1);
    assert_eq!(tenants[0].id.as_str(), "t-default");
    assert!(store.clusters(None).await.unwrap().is_empty());
    assert!(store.tokens(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let (store, dir) = store().await;
    store.create_tenant(tenant("t-acme")).await.unwrap();
    store
        .create_cluster(new_cluster("c-demo", "t-acme"))
        .await
        .unwrap();
    store
        .create_token(token("k-1", Some("t-acme"), SOON))
        .await
        .unwrap();
    let catalog = Catalog {
        version: 0,
        objects: vec![serde_json::json!({"kind": "ConfigMap"})],
    };
    store
        .put_catalog(cluster_id("c-demo"), catalog.clone())
        .await
        .unwrap();
    assert!(!spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap());
    let before = store.clusters(None).await.unwrap();
    store.close().await;

    let store = open(&dir).await;
    assert_eq!(store.clusters(None).await.unwrap(), before);
    assert_eq!(before[0].created, NOW);
    assert_eq!(before[0].status.state, State::Never);
    assert_eq!(before[0].bootstrap.spent_by, Some([1; 32]));
    assert_eq!(
        store
            .tenant(&tenant_id("t-acme"), None)
            .await
            .unwrap()
            .unwrap(),
        tenant("t-acme")
    );
    assert_eq!(
        store.token("k-1").unwrap(),
        token("k-1", Some("t-acme"), SOON)
    );
    assert_eq!(
        store.home(&cluster_id("c-demo")).unwrap().tenant,
        tenant_id("t-acme")
    );
    let again = store.catalog(&cluster_id("c-demo")).await.unwrap();
    assert_eq!((again.version, again.objects), (1, catalog.objects));
}

#[tokio::test]
async fn nothing_is_made_twice_and_nothing_in_use_is_deleted() {
    let (store, _dir) = store().await;
    store.create_tenant(tenant("t-acme")).await.unwrap();
    let twice = store.create_tenant(tenant("t-acme")).await;
    assert!(matches!(twice, Err(StoreError::Conflict)));
    let homeless = store.create_cluster(new_cluster("c-demo", "t-none")).await;
    assert!(matches!(homeless, Err(StoreError::Missing)));
    store
        .create_cluster(new_cluster("c-demo", "t-acme"))
        .await
        .unwrap();
    let twice = store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await;
    assert!(matches!(twice, Err(StoreError::Conflict)));
    let used = store.delete_tenant(tenant_id("t-acme")).await;
    assert!(matches!(used, Err(StoreError::InUse)));
    let nobodys = store.create_token(token("k-1", Some("t-none"), SOON)).await;
    assert!(matches!(nobodys, Err(StoreError::Missing)));
    store
        .delete_cluster(cluster_id("c-demo"), None)
        .await
        .unwrap();
    let gone = store.delete_cluster(cluster_id("c-demo"), None).await;
    assert!(matches!(gone, Err(StoreError::Missing)));
    store.delete_tenant(tenant_id("t-acme")).await.unwrap();
    let gone = store.delete_tenant(tenant_id("t-acme")).await;
    assert!(matches!(gone, Err(StoreError::Missing)));
}

#[tokio::test]
async fn a_scope_shows_and_touches_its_own_tenant_alone() {
    let (store, _dir) = store().await;
    for name in ["t-a", "t-b"] {
        store.create_tenant(tenant(name)).await.unwrap();
    }
    store
        .create_cluster(new_cluster("c-a", "t-a"))
        .await
        .unwrap();
    store
        .create_cluster(new_cluster("c-b", "t-b"))
        .await
        .unwrap();
    store
        .create_token(token("k-a", Some("t-a"), SOON))
        .await
        .unwrap();
    store
        .create_token(token("k-b", Some("t-b"), SOON))
        .await
        .unwrap();
    store
        .create_token(token("k-all", None, SOON))
        .await
        .unwrap();
    let own = tenant_id("t-a");
    let scope = Some(&own);
    assert_eq!(store.tenants(scope).await.unwrap().len(), 1);
    let clusters = store.clusters(scope).await.unwrap();
    assert_eq!((clusters.len(), clusters[0].id.as_str()), (1, "c-a"));
    let tokens = store.tokens(scope).await.unwrap();
    assert_eq!((tokens.len(), tokens[0].id.as_str()), (1, "k-a"));
    assert!(
        store
            .cluster(&cluster_id("c-b"), scope)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        store
            .tenant(&tenant_id("t-b"), scope)
            .await
            .unwrap()
            .is_none()
    );
    for id in ["k-b", "k-all"] {
        let other = store.delete_token(id.to_owned(), Some(own.clone())).await;
        assert!(matches!(other, Err(StoreError::Missing)));
    }
    let other = store
        .delete_cluster(cluster_id("c-b"), Some(own.clone()))
        .await;
    assert!(matches!(other, Err(StoreError::Missing)));
    assert!(store.home(&cluster_id("c-b")).is_some() && store.token("k-b").is_some());
}

#[tokio::test]
async fn tokens_end_with_their_tenant_and_are_forgotten_when_old() {
    let (store, _dir) = store().await;
    store.create_tenant(tenant("t-a")).await.unwrap();
    store
        .create_token(token("k-a", Some("t-a"), SOON))
        .await
        .unwrap();
    store.create_token(token("k-old", None, NOW)).await.unwrap();
    store
        .create_token(token("k-new", None, SOON))
        .await
        .unwrap();
    assert_eq!(store.forget_tokens(SOON).await.unwrap(), 1);
    assert!(store.token("k-old").is_none() && store.token("k-new").is_some());
    store.delete_tenant(tenant_id("t-a")).await.unwrap();
    assert!(store.token("k-a").is_none());
    assert_eq!(store.tokens(None).await.unwrap().len(), 1);
    store.delete_token("k-new".to_owned(), None).await.unwrap();
    assert!(store.token("k-new").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_keys_that_race_for_one_token_exactly_one_wins() {
    let (store, _dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let signed = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..20_u8)
        .map(|key| {
            let (store, signed) = (store.clone(), Arc::clone(&signed));
            tokio::spawn(async move {
                let sign = move |_: &_| Ok(signed.fetch_add(1, Ordering::SeqCst));
                store.spend(claim("c-demo", 1, key), NOW, sign).await
            })
        })
        .collect();
    let (mut won, mut lost) = (0, 0);
    for racer in racers {
        match racer.await.unwrap() {
            Ok(enrolled) => {
                assert!(!enrolled.again);
                won += 1;
            }
            Err(SpendError::Spent) => lost += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((won, lost), (1, 19));
    assert_eq!(
        signed.load(Ordering::SeqCst),
        1,
        "nothing was signed in vain"
    );
}

#[tokio::test]
async fn a_token_is_spent_by_one_key_once_current_and_in_time() {
    let (store, _dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let later = SOON - Duration::from_millis(1);
    let unknown = spend(&store, claim("c-none", 1, 1), NOW).await;
    assert!(matches!(unknown, Err(SpendError::Unknown)));
    let newer = spend(&store, claim("c-demo", 2, 1), NOW).await;
    assert!(matches!(newer, Err(SpendError::Unknown)));
    let mut other = claim("c-demo", 1, 1);
    other.expires = SOON + Duration::from_secs(1);
    let other = spend(&store, other, NOW).await;
    assert!(matches!(other, Err(SpendError::Unknown)));
    let late = spend(&store, claim("c-demo", 1, 1), SOON).await;
    assert!(matches!(late, Err(SpendError::Expired)));
    assert!(!spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap());
    assert!(
        spend(&store, claim("c-demo", 1, 1), later).await.unwrap(),
        "the same key again"
    );
    let thief = spend(&store, claim("c-demo", 1, 2), later).await;
    assert!(matches!(thief, Err(SpendError::Spent)));
    let late = spend(&store, claim("c-demo", 1, 1), SOON).await;
    assert!(
        matches!(late, Err(SpendError::Expired)),
        "the same key, but late"
    );
}

#[tokio::test]
async fn a_token_for_which_nothing_can_be_signed_is_not_spent() {
    let (store, _dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let refuse = |_: &_| Err::<(), _>(Failure::new(Code::ForeignName));
    let refused = store.spend(claim("c-demo", 1, 1), NOW, refuse).await;
    assert!(matches!(refused, Err(SpendError::Sign(failure)) if failure.code == Code::ForeignName));
    assert!(!spend(&store, claim("c-demo", 1, 2), NOW).await.unwrap());
}

#[tokio::test]
async fn a_new_bootstrap_token_ends_the_older_one() {
    let (store, _dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap();
    let renewed = store
        .renew_bootstrap(cluster_id("c-demo"), 1, SOON)
        .await
        .unwrap();
    assert_eq!((renewed.generation, renewed.spent_by), (2, None));
    let older = spend(&store, claim("c-demo", 1, 1), NOW).await;
    assert!(
        matches!(older, Err(SpendError::Unknown)),
        "even for the key that spent it"
    );
    assert!(!spend(&store, claim("c-demo", 2, 2), NOW).await.unwrap());
    let stale = store.renew_bootstrap(cluster_id("c-demo"), 1, SOON).await;
    assert!(
        matches!(stale, Err(StoreError::Conflict)),
        "two at once: one of them has an old page"
    );
    let row = store.cluster(&cluster_id("c-demo"), None).await.unwrap();
    assert_eq!(row.unwrap().version, 2);
}

#[tokio::test]
async fn a_catalog_changes_from_its_current_version_only() {
    let (store, _dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    let id = cluster_id("c-demo");
    let at = |version| Catalog {
        version,
        objects: vec![],
    };
    assert_eq!(store.catalog(&id).await.unwrap(), at(0));
    assert_eq!(store.put_catalog(id.clone(), at(0)).await.unwrap(), 1);
    for stale in [0, 2, -1] {
        let conflict = store.put_catalog(id.clone(), at(stale)).await;
        assert!(matches!(conflict, Err(StoreError::Conflict)), "{stale}");
    }
    assert_eq!(store.put_catalog(id.clone(), at(1)).await.unwrap(), 2);
    assert_eq!(store.catalog_version(&id).await.unwrap(), 2);
    let nobodys = store.put_catalog(cluster_id("c-none"), at(0)).await;
    assert!(matches!(nobodys, Err(StoreError::Missing)));
    store.delete_cluster(id.clone(), None).await.unwrap();
    assert_eq!(
        store.catalog(&id).await.unwrap(),
        at(0),
        "it went with its cluster"
    );
}

#[tokio::test]
async fn a_status_is_kept_and_a_restart_loses_every_session() {
    let (store, _dir) = store().await;
    let states = [
        ("c-1", State::Connected),
        ("c-2", State::ApiUnreachable),
        ("c-3", State::Lost),
    ];
    let status = |state| ClusterStatus {
        state,
        since: NOW,
        last_error: Some(LastError {
            code: Code::ApiUnreachable,
            cause: "no route".to_owned(),
        }),
        last_seen: None,
        last_good_probe: None,
    };
    store
        .create_cluster(new_cluster("c-0", "t-default"))
        .await
        .unwrap();
    for (id, state) in states {
        store
            .create_cluster(new_cluster(id, "t-default"))
            .await
            .unwrap();
        store
            .set_status(&cluster_id(id), &status(state))
            .await
            .unwrap();
        let row = store.cluster(&cluster_id(id), None).await.unwrap().unwrap();
        assert_eq!(row.status, status(state));
    }
    store
        .set_status(&cluster_id("c-none"), &status(State::Lost))
        .await
        .unwrap();
    assert_eq!(
        store
            .lose_sessions(SOON, "the hub was restarted")
            .await
            .unwrap(),
        2
    );
    let rows = store.clusters(None).await.unwrap();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.status.state, row.status.since))
        .collect();
    assert_eq!(
        seen,
        [
            (State::Never, NOW),
            (State::Lost, SOON),
            (State::Lost, SOON),
            (State::Lost, NOW)
        ]
    );
    let error = rows[1].status.last_error.as_ref().unwrap();
    assert_eq!(
        (error.code, error.cause.as_str()),
        (Code::Lost, "the hub was restarted")
    );
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_part_memory_from_disk() {
    let (store, dir) = store().await;
    for n in 0..20 {
        let id = format!("c-{n}");
        let create = store.create_cluster(new_cluster(&id, "t-default"));
        // Polled so far, then dropped: what was begun runs to its end.
        tokio::select! {
            biased;
            done = create => done.unwrap(),
            () = yield_times(n) => {}
        }
    }
    store.close().await;
    let disk = open(&dir).await;
    for row in disk.clusters(None).await.unwrap() {
        assert!(
            store.home(&row.id).is_some(),
            "{} is on the disk alone",
            row.id
        );
    }
    assert_eq!(disk.clusters(None).await.unwrap().len(), 20);
}

async fn yield_times(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}
