//! Pages of fact histories: together they are complete, even for changes within one millisecond.

use fairlead_api::resources::Role;
use fairlead_seam::Caller;
use http::{Method, header};
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Rig, admin, caller};

/// Two clusters of one tenant and one of another, with a repeatedly changing fact `racks`.
async fn world() -> Rig {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.tenant("b").await;
    for (cluster, tenant) in [("one", "t-a"), ("two", "t-a"), ("theirs", "t-b")] {
        rig.cluster(cluster, tenant).await;
    }
    for racks in 0..12 {
        for cluster in ["one", "theirs", "two"] {
            let path = format!("/clusters/c-{cluster}");
            let body = json!({ "dynamicFacts": { "racks": racks, "site": format!("s{racks}") } });
            rig.call(&admin(), Method::PATCH, &path, body).await.good();
        }
        // Four changes in a row share one timestamp.
        if racks % 4 == 3 {
            rig.advance(Duration::seconds(1));
        }
    }
    rig
}

async fn pages(rig: &Rig, who: &Caller, path: &str) -> Vec<Vec<Value>> {
    let mut path = path.to_owned();
    let mut pages = Vec::new();
    loop {
        let reply = rig.get(who, &path).await;
        pages.push(reply.good()["items"].as_array().unwrap().clone());
        let Some(link) = reply.headers.get(header::LINK) else {
            return pages;
        };
        let link = link.to_str().unwrap().strip_prefix('<').unwrap();
        link.strip_suffix(">; rel=\"next\"")
            .unwrap()
            .clone_into(&mut path);
    }
}

#[tokio::test]
async fn pages_of_a_history_are_complete() {
    let rig = world().await;
    let of_a = caller(Role::Viewer, Some("t-a"));
    for (path, count) in [
        ("/v1/facts/racks/changes?", 24),
        ("/v1/facts/racks/changes?from=2026-11-21T12:00:01Z&", 16),
        ("/v1/facts/racks/changes?to=2026-11-21T12:00:01Z&", 8),
        ("/v1/clusters/c-one/facts/history?", 24),
        ("/v1/clusters/c-one/facts/history?fact=racks&", 12),
        (
            "/v1/clusters/c-one/facts/history?from=2026-11-21T12:00:01Z&",
            16,
        ),
    ] {
        let whole = pages(&rig, &of_a, &format!("{path}limit=1000")).await;
        assert_eq!(whole.len(), 1, "{path}");
        let whole = whole.concat();
        assert_eq!(whole.len(), count, "{path}");
        let theirs = whole.iter().filter(|it| it["cluster"] == "c-theirs");
        assert_eq!(theirs.count(), 0, "{path}");
        for limit in [1, 3, 8, 23, 24] {
            let pages = pages(&rig, &of_a, &format!("{path}limit={limit}")).await;
            assert_eq!(pages.len(), count.div_ceil(limit), "{path}{limit}");
            assert!(pages.iter().all(|page| page.len() <= limit));
            assert_eq!(pages.concat(), whole, "{path}{limit}");
        }
    }
}

#[tokio::test]
async fn foreign_cursors_are_rejected() {
    let rig = world().await;
    for path in [
        "/v1/facts/racks/changes",
        "/v1/clusters/c-one/facts/history",
    ] {
        for bad in [
            "",
            "x",
            "1",
            "1.c-one",
            "1.c-one.2.1",
            "1.c-one.1.1.1",
            "1.-1",
        ] {
            let reply = rig.get(&admin(), &format!("{path}?cursor={bad}")).await;
            assert_eq!(reply.status, 400, "{path} {bad:?}");
        }
    }
}
