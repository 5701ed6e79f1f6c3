//! The change log.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use fairlead_store::{
    Asked, Change, Clock, Kind, LogPlace, Operation, Retention, Revision,
    model::{Fact, FactSource},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::*;

pub(crate) const START_MILLIS: i64 = 1_795_262_400_000;

/// A store with a test clock, in milliseconds since START_MILLIS.
pub(crate) async fn clocked() -> (Store, Home, Arc<AtomicI64>) {
    let home = home().await;
    let now = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&now);
    let clock = Clock::new(move || {
        let millis = i128::from(START_MILLIS + clock.load(Ordering::SeqCst));
        OffsetDateTime::from_unix_timestamp_nanos(millis * 1_000_000).unwrap()
    });
    (open_at(&home, clock).await, home, now)
}

pub(crate) fn fact(value: Value, source: FactSource) -> Fact {
    Fact {
        value,
        source,
        received: 1,
        observed: 2,
    }
}

async fn all(store: &Store) -> Vec<Change> {
    store.changes(Revision(1), 100).await.unwrap().changes
}

#[tokio::test]
async fn the_log_contains_actor_and_differences_but_no_secrets() {
    let (store, _dir, now) = clocked().await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    let mut demo = cluster("c-demo", "t-acme");
    demo.annotations.insert("a".to_owned(), "1".to_owned());
    demo.annotations.insert("b".to_owned(), "1".to_owned());
    put_cluster(&store, demo.clone()).await.unwrap();
    demo.annotations.insert("b".to_owned(), "2".to_owned());
    demo.display_name = Some("Demo".to_owned());
    now.store(1500, Ordering::SeqCst);
    put_cluster(&store, demo).await.unwrap();
    put_token(&store, token("k-1", None, SOON)).await.unwrap();
    put_catalog(&store, "c-demo", vec![json!({"kind": "Secret"})])
        .await
        .unwrap();
    delete_cluster(&store, "c-demo").await.unwrap();

    let changes = all(&store).await;
    let shown: Vec<_> = changes
        .iter()
        .map(|it| (it.revision.0, it.kind, it.id.as_str(), it.operation))
        .collect();
    assert_eq!(
        shown,
        [
            (2, Kind::Tenant, "t-acme", Operation::Created),
            (3, Kind::Cluster, "c-demo", Operation::Created),
            (4, Kind::Cluster, "c-demo", Operation::Updated),
            (5, Kind::Token, "k-1", Operation::Created),
            (6, Kind::Catalog, "c-demo", Operation::Created),
            (7, Kind::Cluster, "c-demo", Operation::Deleted),
        ]
    );
    let updated = &changes[2];
    assert_eq!(updated.actor, "alice");
    assert_eq!(
        updated.at.unix_timestamp_nanos() / 1_000_000,
        i128::from(START_MILLIS + 1500)
    );
    assert_eq!(updated.tenant, Some(tenant_id("t-acme")));
    assert_eq!(updated.before, Some(json!({"annotations": {"b": "1"}})));
    let after = json!({"annotations": {"b": "2"}, "displayName": "Demo"});
    assert_eq!(updated.after, Some(after));
    assert_eq!(changes[3].after.as_ref().unwrap()["hash"], "(hidden)");
    assert_eq!(changes[4].after, Some(json!({"version": 1})));
    assert_eq!(changes[5].before.as_ref().unwrap()["displayName"], "Demo");
}

#[tokio::test]
async fn paging_through_the_log_misses_nothing() {
    let (store, _dir, _) = clocked().await;
    for n in 0..10 {
        // Three lines each.
        let both = move |draft: &mut Draft| {
            draft.put_tenant(tenant(&format!("t-{n}")))?;
            draft.put_cluster(cluster(&format!("c-{n}"), &format!("t-{n}")))?;
            draft.put_token(token(&format!("k-{n}"), None, SOON))
        };
        change(&store, both).await.unwrap();
    }
    let whole = all(&store).await;
    assert_eq!(whole.len(), 30);
    for limit in [1, 2, 3, 4, 29, 30, 31] {
        let (mut since, mut read) = (Revision(1), Vec::new());
        while since < store.view().revision() {
            let page = store.changes(since, limit).await.unwrap();
            assert!(page.revision > since, "{limit}");
            since = page.revision;
            read.extend(page.changes);
        }
        assert_eq!(read, whole, "{limit}");
    }
    let end = store.changes(store.view().revision(), 5).await.unwrap();
    assert_eq!(
        (end.changes.len(), end.revision),
        (0, store.view().revision())
    );
    for never in [Revision(0), Revision(store.view().revision().0 + 1)] {
        let gone = store.changes(never, 5).await;
        let oldest = Revision(1);
        assert!(matches!(gone, Err(StoreError::Compacted { oldest: o }) if o == oldest));
    }
}

#[tokio::test]
async fn the_log_is_trimmed_by_age_and_length_and_reports_its_start() {
    let (store, dir, now) = clocked().await;
    for n in 0..20 {
        now.store(n * 1000, Ordering::SeqCst);
        put_tenant(&store, tenant(&format!("t-{n}"))).await.unwrap();
    }
    let mut keep = Retention {
        changes: Duration::from_secs(10),
        ..Retention::default()
    };
    let gone = store.tidy(&keep).await.unwrap();
    assert_eq!(gone.lines, 9, "those of the first nine seconds");
    assert_eq!(store.tidy(&keep).await.unwrap().lines, 0);
    let cut = store.changes(Revision(9), 100).await;
    assert!(matches!(
        cut,
        Err(StoreError::Compacted {
            oldest: Revision(10)
        })
    ));
    assert_eq!(
        store
            .changes(Revision(10), 100)
            .await
            .unwrap()
            .changes
            .len(),
        11
    );
    keep.lines = 4;
    assert_eq!(store.tidy(&keep).await.unwrap().lines, 7);
    store.close().await;
    let left = open(&dir).await.changes(Revision(17), 100).await.unwrap();
    assert_eq!(left.changes.len(), 4);
}

/// Lines of the audit in pages of three, as a client reads them.
async fn audited(store: &Store, asked: &Asked) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    loop {
        let before = all.last().map_or(Revision(u64::MAX).into(), LogPlace::from);
        let page = store.audit(asked, before, 3).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[tokio::test]
async fn agents_changes_never_displace_peoples_lines() {
    let (store, _dir, now) = clocked().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    put_cluster(&store, cluster("c-a", "t-a")).await.unwrap();
    let peoples = audited(&store, &Asked::default()).await.len();
    let agent = || Actor::Agent("c-a".parse().unwrap());
    for n in 0..50 {
        let report = move |draft: &mut Draft| {
            let facts = [("n".to_owned(), fact(json!(n), FactSource::Agent))];
            let facts = facts.into_iter().collect();
            draft.amend_cluster(&cluster_id("c-a"), |it| it.dynamic_facts = facts)
        };
        store.change(agent(), report).await.unwrap();
    }
    let keep = Retention {
        lines: 10,
        ..Retention::default()
    };
    assert!(store.tidy(&keep).await.unwrap().lines > 40);
    let left = audited(&store, &Asked::default()).await;
    let of_people = |line: &&Change| !line.actor.starts_with("agent:");
    assert_eq!(left.iter().filter(of_people).count(), peoples);
    assert_eq!(left.len(), peoples + 10, "agents' lines are trimmed");
    let revisions: Vec<_> = left.iter().map(|line| (line.revision, line.part)).collect();
    assert!(revisions.is_sorted_by(|a, b| a > b), "{revisions:?}");
    let tenants = Asked {
        thing: Some((Kind::Tenant, "t-a".to_owned())),
        ..Asked::default()
    };
    assert_eq!(audited(&store, &tenants).await.len(), 1);

    now.store(366 * 24 * 3600 * 1000, Ordering::SeqCst);
    assert_eq!(store.tidy(&keep).await.unwrap().acts, peoples as u64);
}

#[tokio::test]
async fn the_audit_filters_by_resource_tenant_and_actor() {
    let (store, _dir, _) = clocked().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    put_cluster(&store, cluster("c-a", "t-a")).await.unwrap();
    let bob = |draft: &mut Draft| draft.put_tenant(tenant("t-b"));
    let by = Actor::Caller {
        name: "bob".to_owned(),
        token: Some("k-bob".to_owned()),
    };
    store.change(by, bob).await.unwrap();
    let end = Revision(u64::MAX);
    let ids = Mutex::new(Vec::new());
    for asked in [
        Asked::default(),
        Asked {
            thing: Some((Kind::Cluster, "c-a".to_owned())),
            ..Asked::default()
        },
        Asked {
            tenant: Some(tenant_id("t-a")),
            ..Asked::default()
        },
        Asked {
            actor: Some("bob".to_owned()),
            ..Asked::default()
        },
        Asked {
            thing: Some((Kind::Tenant, "t-a".to_owned())),
            actor: Some("bob".to_owned()),
            ..Asked::default()
        },
    ] {
        let lines = store.audit(&asked, end, 10).await.unwrap();
        let lines: Vec<_> = lines.into_iter().map(|line| line.id).collect();
        ids.lock().unwrap().push(lines.join(" "));
    }
    assert_eq!(
        *ids.lock().unwrap(),
        ["t-b c-a t-a", "c-a", "c-a t-a", "t-b", ""]
    );
    let older = store
        .audit(&Asked::default(), Revision(4), 1)
        .await
        .unwrap();
    assert_eq!(older[0].id, "c-a");
}

/// SQL for both databases.
pub(crate) const LINE_WITHOUT_AUDIENCE: &str = "
    INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation)
    VALUES (2, 0, 1795262400000, 'alice', 'tenant', 't-old', 't-old', 'created');
    UPDATE revision SET revision = 2;";

pub(crate) async fn reads_past_a_line_without_audience(store: &Store) {
    put_tenant(store, tenant("t-a")).await.unwrap();
    put_tenant(store, child("t-b", "t-a")).await.unwrap();
    put_cluster(store, cluster("c-b", "t-b")).await.unwrap();
    delete_cluster(store, "c-b").await.unwrap();
    let seen = |line: &Change| line.audience.as_ref().map(ToString::to_string);
    let lines = all(store).await;
    let lines: Vec<_> = lines.iter().map(|it| (it.id.as_str(), seen(it))).collect();
    let says = |text: &str| Some(text.to_owned());
    assert_eq!(
        lines,
        [
            ("t-old", None),
            ("t-a", says(" > t-a ")),
            ("t-b", says(" > t-b t-a ")),
            ("c-b", says(" > t-b t-a ")),
            ("c-b", says(" t-b t-a > ")),
        ]
    );
    for (who, found) in [
        ("t-b", "c-b c-b t-b t-old"),
        ("t-a", "c-b c-b t-b t-a t-old"),
    ] {
        let asked = Asked {
            seen_by: Some(tenant_id(who)),
            ..Asked::default()
        };
        let lines = store.audit(&asked, Revision(u64::MAX), 10).await.unwrap();
        let ids: Vec<_> = lines.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids.join(" "), found);
    }
}

#[tokio::test]
async fn a_log_line_contains_its_audience() {
    let (store, _dir, _) = clocked().await;
    put_tenant(&store, tenant("t-a")).await.unwrap();
    put_tenant(&store, child("t-b", "t-a")).await.unwrap();
    let mut demo = cluster("c-demo", "t-b");
    put_cluster(&store, demo.clone()).await.unwrap();
    put_catalog(&store, "c-demo", vec![]).await.unwrap();
    let own = Token {
        cluster: Some(cluster_id("c-demo")),
        ..token("k-own", None, SOON)
    };
    put_token(&store, own).await.unwrap();
    put_token(&store, token("k-all", None, SOON)).await.unwrap();
    let from = store.view().revision();
    put_catalog(&store, "c-demo", vec![json!({})])
        .await
        .unwrap();
    demo.tenant = tenant_id("t-default");
    put_cluster(&store, demo).await.unwrap();
    put_tenant(&store, tenant("t-b")).await.unwrap();
    delete_tenant(&store, "t-b").await.unwrap();
    let before = all(&store).await;
    let audiences = |lines: &[Change]| {
        let lines = lines.iter();
        lines
            .map(|it| format!("{}{}", it.id, it.audience.as_ref().unwrap()))
            .collect::<Vec<_>>()
    };
    let after = store.changes(from, 100).await.unwrap().changes;
    assert_eq!(
        audiences(&before)[3..6],
        ["c-demo > t-b t-a ", "k-own > t-b t-a ", "k-all "]
    );
    assert_eq!(
        audiences(&after),
        [
            "c-demo t-b t-a ",
            "c-demo t-b t-a > t-default ",
            "k-own t-b t-a > ",
            "t-b t-b t-a > t-b ",
            "t-b t-b > ",
        ]
    );
}
