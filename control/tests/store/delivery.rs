//! Contract of the documents of delivery.

use fairlead_api::delivery::{ArtifactId, BundleFields, GitSource};
use fairlead_store::{
    Kind, Operation, Revision, StoreError,
    model::{BundleRecord, BundleSource, ClusterGroup, Generation},
};
use time::OffsetDateTime;

use crate::*;

fn bundle(replicas: u32) -> BundleRecord {
    let artifact = ArtifactId::of_sha256(&[7; 32]);
    let fields = BundleFields {
        vars: [("replicas".to_owned(), replicas.into())].into(),
        ..BundleFields::default()
    };
    let mut bundle = BundleRecord {
        source: Some("s-platform".parse().unwrap()),
        path: Some("shop".to_owned()),
        ..BundleRecord::new(
            "b-shop".parse().unwrap(),
            "t-default".parse().unwrap(),
            fields,
        )
    };
    bundle.push(Generation {
        number: 0,
        options: artifact.clone(),
        artifact,
        at: OffsetDateTime::UNIX_EPOCH,
        by: "anna".to_owned(),
    });
    bundle
}

fn source() -> BundleSource {
    BundleSource {
        id: "s-platform".parse().unwrap(),
        tenant: "t-default".parse().unwrap(),
        git: GitSource {
            url: "https://git.example/platform".to_owned(),
            reference: "main".to_owned(),
            paths: vec!["shop".to_owned()],
            credentials: None,
            host_keys: None,
            verify: None,
        },
        suspended: false,
        prune: false,
        commit: None,
        artifacts: Vec::new(),
        requested: 0,
        poll: None,
    }
}

fn group() -> ClusterGroup {
    ClusterGroup {
        id: "g-edge".parse().unwrap(),
        tenant: "t-default".parse().unwrap(),
        selector: "site=edge".parse().unwrap(),
    }
}

#[tokio::test]
async fn documents_of_delivery_survive_a_restart_and_are_in_the_log() {
    let (store, home) = store().await;
    change(&store, |draft| {
        draft.put_source(source())?;
        draft.put_bundle(bundle(1))?;
        draft.put_group(group())
    })
    .await
    .unwrap();
    let first = store.view();
    change(&store, |draft| draft.put_bundle(bundle(2)))
        .await
        .unwrap();
    assert!(first.has_same_access(&store.view()));
    assert!(!first.has_same_delivery(&store.view()));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;

    let store = open(&home).await;
    let view = store.view();
    assert_eq!(view.sources().next().unwrap().value, source());
    assert_eq!(view.groups().next().unwrap().value, group());
    let kept = view.bundle(&"b-shop".parse().unwrap()).unwrap();
    assert_eq!((&kept.value, kept.version), (&bundle(2), 2));
    let lines = store.changes(Revision(1), 10).await.unwrap().changes;
    let lines = lines.iter();
    let lines: Vec<_> = lines
        .map(|it| (it.kind, it.id.as_str(), it.operation))
        .collect();
    assert_eq!(
        lines,
        [
            (Kind::Source, "s-platform", Operation::Created),
            (Kind::Bundle, "b-shop", Operation::Created),
            (Kind::Group, "g-edge", Operation::Created),
            (Kind::Bundle, "b-shop", Operation::Updated),
        ]
    );
}

#[tokio::test]
async fn a_tenant_with_a_bundle_is_in_use() {
    let (store, _home) = store().await;
    let id: fairlead_api::TenantId = "t-acme".parse().unwrap();
    let stranger = bundle_of(&id);
    let missing = change(&store, move |draft| draft.put_bundle(stranger.clone())).await;
    assert!(matches!(missing, Err(StoreError::Missing)), "{missing:?}");

    let (tenant, owned) = (tenant(id.as_str()), bundle_of(&id));
    change(&store, move |draft| {
        draft.put_tenant(tenant.clone())?;
        draft.put_bundle(owned.clone())
    })
    .await
    .unwrap();
    let gone = id.clone();
    let refused = change(&store, move |draft| draft.delete_tenant(&gone)).await;
    assert!(matches!(refused, Err(StoreError::InUse)), "{refused:?}");

    change(&store, move |draft| {
        draft.delete_bundle(&"b-shop".parse().unwrap())?;
        draft.delete_tenant(&id)
    })
    .await
    .unwrap();
    assert_eq!(store.view().bundles().len(), 0);
}

fn bundle_of(tenant: &fairlead_api::TenantId) -> BundleRecord {
    BundleRecord {
        tenant: tenant.clone(),
        ..bundle(1)
    }
}

#[tokio::test]
async fn a_bundle_with_the_id_of_a_deleted_one_gets_higher_generations() {
    let (store, _home) = store().await;
    let numbers = |store: &fairlead_store::Store| {
        let view = store.view();
        let bundle = view.bundle(&"b-shop".parse().unwrap()).unwrap();
        let numbers = bundle.value.generations.iter().map(|it| it.number);
        numbers.collect::<Vec<_>>()
    };
    let twice = || {
        let mut bundle = bundle(1);
        let newest = bundle.newest().unwrap().clone();
        bundle.push(newest);
        bundle
    };
    change(&store, move |draft| draft.put_bundle(twice()))
        .await
        .unwrap();
    assert_eq!(numbers(&store), [2, 1]);
    change(&store, |draft| {
        draft.delete_bundle(&"b-shop".parse().unwrap())
    })
    .await
    .unwrap();
    change(&store, move |draft| {
        draft.put_bundle(twice())?;
        draft.put_bundle(twice())
    })
    .await
    .unwrap();
    assert_eq!(numbers(&store), [4, 3]);
}

#[tokio::test]
async fn a_deleted_cluster_leaves_no_tombstone_and_no_suspension() {
    let (store, _home) = store().await;
    for id in ["c-a", "c-b"] {
        put_cluster(&store, cluster(id, "t-default")).await.unwrap();
    }
    let both = || [cluster_id("c-a"), cluster_id("c-b")];
    let mut owned = bundle(1);
    owned.removals = both().map(|it| (it, 1)).into();
    owned.suspended_in = both().into();
    change(&store, move |draft| draft.put_bundle(owned.clone()))
        .await
        .unwrap();
    delete_cluster(&store, "c-a").await.unwrap();
    let view = store.view();
    let left = &view.bundle(&"b-shop".parse().unwrap()).unwrap().value;
    assert_eq!(left.removals, [(cluster_id("c-b"), 1)].into());
    assert_eq!(left.suspended_in, [cluster_id("c-b")].into());
}
