//! Very many fact changes of one cluster beside lines of people in several tenants. `make million` runs it at full size.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use fairlead_store::{
    Asked, Change, LogPlace, Retention, Revision,
    model::{Fact, FactSource},
};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::*;

/// Fact changes without `FAIRLEAD_FACT_CHANGES`.
const DEFAULT_FACT_CHANGES: u64 = 20_000;
/// Changes that are queued together; the store commits them together.
const CHANGES_PER_STEP: u64 = 256;
/// Removals of old lines while the cluster reports, as by the hourly one of a hub.
const TIDY_COUNT: u64 = 10;
const TENANTS: [&str; 3] = ["t-a", "t-b", "t-c"];
/// Changes by people of each tenant: before, between and after those of the agent.
const PEOPLES_CHANGES: u64 = 100;
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// A change by a person of one tenant.
async fn rename(store: &Store, tenant: &str, number: u64) {
    let id = cluster_id(&format!("c-{}", &tenant[2..]));
    let rename = move |draft: &mut Draft| {
        draft.amend_cluster(&id, |it| it.display_name = Some(format!("Name {number}")))
    };
    change(store, rename).await.unwrap();
}

/// Fact changes of the noisy cluster by its agent, with these numbers.
async fn report(store: &Store, numbers: std::ops::Range<u64>) {
    let changes = numbers.map(|number| {
        let fact = Fact {
            value: number.into(),
            source: FactSource::Agent,
            received: 1,
            observed: 2,
        };
        let report = move |draft: &mut Draft| {
            let facts = [("nodes".to_owned(), fact.clone())].into_iter().collect();
            draft.amend_cluster(&cluster_id("c-noisy"), |it| it.dynamic_facts = facts)
        };
        store.change::<(), StoreError, _>(Actor::Agent(cluster_id("c-noisy")), report)
    });
    for done in join_all(changes).await {
        done.unwrap();
    }
}

/// All lines of people that members of a tenant see, newest first.
async fn peoples_lines(store: &Store, tenant: &str) -> Vec<Change> {
    let asked = Asked {
        tenant: Some(tenant_id(tenant)),
        actor: Some("alice".to_owned()),
        seen_by: Some(tenant_id(tenant)),
        ..Asked::default()
    };
    let mut all: Vec<Change> = Vec::new();
    loop {
        let before = all.last().map_or(Revision(u64::MAX).into(), LogPlace::from);
        let page = store.audit(&asked, before, 200).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_fact_changes_of_one_cluster_displace_no_line_of_a_person() {
    let changes = fairlead_testkit::wait::setting("FAIRLEAD_FACT_CHANGES");
    let changes = changes.map_or(DEFAULT_FACT_CHANGES, |it| it.parse().unwrap());
    let home = home().await;
    let passed = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&passed);
    let clock = Clock::new(move || {
        let passed = clock.load(Ordering::SeqCst);
        NOW + time::Duration::milliseconds(passed)
    });
    let store = open_at(&home, clock).await;
    for tenant_of in TENANTS {
        put_tenant(&store, tenant(tenant_of)).await.unwrap();
        let id = format!("c-{}", &tenant_of[2..]);
        put_cluster(&store, cluster(&id, tenant_of)).await.unwrap();
    }
    put_cluster(&store, cluster("c-noisy", "t-c"))
        .await
        .unwrap();

    // As few lines as the agent alone fills.
    let keep = Retention {
        lines: changes.min(Retention::default().lines),
        ..Retention::default()
    };
    let (began, mut written, mut people) = (Instant::now(), 0, 0);
    let mut tidied = Duration::ZERO;
    while written < changes {
        if people < PEOPLES_CHANGES && written * PEOPLES_CHANGES >= people * changes / 2 {
            for tenant in TENANTS {
                rename(&store, tenant, people).await;
            }
            people += 1;
        }
        let next = (written + CHANGES_PER_STEP).min(changes);
        report(&store, written..next).await;
        if written * TIDY_COUNT / changes != next * TIDY_COUNT / changes {
            let tidying = Instant::now();
            store.tidy(&keep).await.unwrap();
            tidied = tidied.max(tidying.elapsed());
        }
        written = next;
    }
    let wrote = began.elapsed();
    // An agent that goes on alone: the log is full of its lines.
    let small = Retention {
        lines: 100,
        ..Retention::default()
    };
    let tidying = Instant::now();
    let gone = store.tidy(&small).await.unwrap();
    println!(
        "{changes} fact changes in {wrote:.1?}; the longest removal {tidied:.1?}; then {} lines removed in {:.1?}",
        gone.lines,
        tidying.elapsed()
    );
    for tenant in TENANTS {
        let reading = Instant::now();
        let lines = peoples_lines(&store, tenant).await;
        let took = reading.elapsed();
        let clusters = if tenant == "t-c" { 2 } else { 1 };
        let expected = usize::try_from(people + 1 + clusters).unwrap();
        assert_eq!(lines.len(), expected, "{tenant}");
        let own = lines.iter().all(|it| it.tenant == Some(tenant_id(tenant)));
        assert!(own, "{tenant}: lines of others");
        println!("{tenant}: {expected} lines of people in {took:.1?}");
    }

    // One year after the first lines: they go, the later ones stay.
    passed.store(200 * DAY_MILLIS, Ordering::SeqCst);
    rename(&store, "t-a", 1_000_000).await;
    passed.store(366 * DAY_MILLIS, Ordering::SeqCst);
    rename(&store, "t-b", 1_000_001).await;
    store.tidy(&keep).await.unwrap();
    let left = [1, 1, 0];
    for (tenant, left) in TENANTS.into_iter().zip(left) {
        assert_eq!(peoples_lines(&store, tenant).await.len(), left, "{tenant}");
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
