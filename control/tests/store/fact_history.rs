//! The history of facts: by time, range and name, its pages and its cut.

use std::{sync::atomic::Ordering, time::Duration};

use fairlead_store::{FactPlace, Retention, Span, model::FactSource};
use serde_json::{Value, json};

use crate::{
    history::{START_MILLIS, clocked, fact},
    *,
};

/// Sets the dynamic facts of c-demo.
async fn say(store: &Store, facts: Value) {
    let facts: Vec<_> = facts.as_object().unwrap().clone().into_iter().collect();
    change(store, move |draft| {
        let facts = facts.clone().into_iter();
        let facts = facts.map(|(name, value)| (name, fact(value, FactSource::Agent)));
        let facts = facts.collect();
        draft.amend_cluster(&cluster_id("c-demo"), |it| it.dynamic_facts = facts)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn history_answers_by_time_range_and_fact() {
    let (store, _dir, now) = clocked().await;
    put_cluster(&store, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    put_cluster(&store, cluster("c-other", "t-default"))
        .await
        .unwrap();
    for (at, facts) in [
        (1000, json!({"version": "1.30", "nodes": 3})),
        (2000, json!({"version": "1.31", "nodes": 3})),
        (3000, json!({"version": "1.31", "nodes": {"count": 4}})),
        (4000, json!({"version": "1.31"})),
    ] {
        now.store(at, Ordering::SeqCst);
        say(&store, facts).await;
    }
    let id = cluster_id("c-demo");
    for (at, was) in [
        (999, json!([])),
        (1000, json!([["nodes", 3], ["version", "1.30"]])),
        (1999, json!([["nodes", 3], ["version", "1.30"]])),
        (2000, json!([["nodes", 3], ["version", "1.31"]])),
        (3500, json!([["nodes", {"count": 4}], ["version", "1.31"]])),
        (9999, json!([["version", "1.31"]])),
    ] {
        let facts = store.facts_at(&id, None, START_MILLIS + at).await.unwrap();
        let facts: Vec<_> = facts.iter().map(|it| json!([it.name, it.value])).collect();
        assert_eq!(json!(facts), was, "{at}");
    }
    let one = store
        .facts_at(&id, Some("version"), START_MILLIS + 1500)
        .await
        .unwrap();
    assert_eq!((one.len(), &one[0].value), (1, &Some(json!("1.30"))));
    assert_eq!(
        (one[0].source, one[0].observed, one[0].dynamic),
        (FactSource::Agent, 2, true)
    );

    let between = Span {
        after: START_MILLIS + 1000,
        until: START_MILLIS + 3000,
    };
    let changed = store.fact_versions(&id, None, between, 100).await.unwrap();
    let changed: Vec<_> = changed
        .iter()
        .map(|it| (it.name.as_str(), it.at - START_MILLIS))
        .collect();
    assert_eq!(changed, [("version", 2000), ("nodes", 3000)]);
    let nodes = store
        .fact_versions(&id, Some("nodes"), Span::default(), 100)
        .await
        .unwrap();
    let values: Vec<_> = nodes.iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [Some(json!(3)), Some(json!({"count": 4})), None]);
    let page = store
        .fact_versions(&id, Some("nodes"), Span::default(), 2)
        .await
        .unwrap();
    assert_eq!(page.len(), 2);

    let since = Span {
        after: START_MILLIS + 1000,
        ..Span::default()
    };
    let clusters = store
        .facts_changed("version", since, None, 100)
        .await
        .unwrap();
    let clusters: Vec<_> = clusters
        .iter()
        .map(|it| (it.cluster.as_str(), it.at - START_MILLIS))
        .collect();
    assert_eq!(clusters, [("c-demo", 2000)]);
}

#[tokio::test]
async fn unchanged_reports_write_no_history_and_deletion_ends_facts() {
    let (store, _dir, now) = clocked().await;
    put_cluster(&store, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    say(&store, json!({"version": "1.30"})).await;
    let before = store.view().revision();
    say(&store, json!({"version": "1.30"})).await;
    assert_eq!(store.view().revision(), before);
    now.store(5000, Ordering::SeqCst);
    delete_cluster(&store, "c-demo").await.unwrap();
    let id = cluster_id("c-demo");
    let was = store
        .facts_at(&id, None, START_MILLIS + 4999)
        .await
        .unwrap();
    assert_eq!(was.len(), 1);
    assert!(
        store
            .facts_at(&id, None, START_MILLIS + 5000)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn old_facts_are_trimmed_except_the_version_at_the_cutoff() {
    let (store, _dir, now) = clocked().await;
    put_cluster(&store, cluster("c-demo", "t-default"))
        .await
        .unwrap();
    for (at, facts) in [
        (1000, json!({"version": "1", "gone": 1})),
        (2000, json!({"version": "2"})),
        (8000, json!({"version": "3"})),
    ] {
        now.store(at, Ordering::SeqCst);
        say(&store, facts).await;
    }
    now.store(10_000, Ordering::SeqCst);
    let keep = Retention {
        facts: Duration::from_secs(5),
        ..Retention::default()
    };
    assert_eq!(store.tidy(&keep).await.unwrap().facts, 3);
    let id = cluster_id("c-demo");
    let left = store
        .fact_versions(&id, None, Span::default(), 100)
        .await
        .unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|it| (it.name.as_str(), it.at - START_MILLIS))
        .collect();
    assert_eq!(left, [("version", 2000), ("version", 8000)]);
    assert_eq!(store.tidy(&keep).await.unwrap().facts, 0);
}

#[tokio::test]
async fn changes_of_a_fact_resume_after_any_position() {
    let (store, _dir, now) = clocked().await;
    for n in 0..3 {
        let mut new = cluster(&format!("c-{n}"), "t-default");
        let known = fact(json!("said"), FactSource::People);
        new.facts.insert("version".to_owned(), known.clone());
        new.dynamic_facts.insert("version".to_owned(), known);
        // The last two share one timestamp.
        now.store(1000 * n.min(1), Ordering::SeqCst);
        put_cluster(&store, new).await.unwrap();
    }
    let read = async |span: Span, behind: Option<&FactPlace>, limit| {
        store
            .facts_changed("version", span, behind, limit)
            .await
            .unwrap()
    };
    let whole = read(Span::default(), None, 100).await;
    assert_eq!(whole.len(), 6);
    for limit in [1, 2, 4, 5] {
        let (mut behind, mut all) = (None, Vec::new());
        loop {
            let page = read(Span::default(), behind.as_ref(), limit).await;
            behind = page.last().map(FactPlace::from);
            if behind.is_none() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, whole, "{limit}");
    }
    let early = Span {
        until: START_MILLIS,
        ..Span::default()
    };
    assert_eq!(read(early, None, 100).await, whole[4..]);
    let late = FactPlace::from(&whole[1]);
    assert_eq!(read(early, Some(&late), 100).await, whole[4..]);
}
