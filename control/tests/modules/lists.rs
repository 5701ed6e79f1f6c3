//! Lists: paged, conditional, filtered, limited to the caller's visibility.

use fairlead_api::resources::Role;
use fairlead_seam::{Caller, ClusterScope};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::rig::{Reply, Rig, admin, caller};

/// Three nested tenants and an unrelated one, each with two clusters.
async fn world() -> Rig {
    let rig = Rig::new().await;
    for (id, above, name, sla) in [
        ("t-top", Value::Null, "Zenith", "gold"),
        ("t-mid", json!("t-top"), "Acme", "gold"),
        ("t-low", json!("t-mid"), "Base", "silver"),
        ("t-other", Value::Null, "Other", "none"),
    ] {
        let body = json!({
            "id": id, "tenantRef": above, "displayName": name, "annotations": { "sla": sla },
            "gitRepo": { "type": "unmanaged" },
        });
        rig.post(&admin(), "/tenants", body).await.good();
        for n in 0..2 {
            let cluster = format!("{}-{n}", id.replace("t-", "of-"));
            rig.cluster(&cluster, id).await;
            let path = format!("/clusters/c-{cluster}");
            let instances =
                json!({ "x": { "version": "v1" }, "y": { "component": "x", "version": "v2" } });
            let body =
                json!({ "facts": { "racks": "3" }, "compileMeta": { "instances": instances } });
            rig.call(&admin(), Method::PATCH, &path, body).await.good();
        }
        let token = json!({ "name": format!("bot-of-{id}"), "role": "viewer", "tenant": id });
        rig.post(&admin(), "/v1/tokens", token).await.good();
    }
    rig
}

fn items(reply: &Reply) -> Vec<Value> {
    let body = reply.good();
    let items = body.get("items").unwrap_or(&body);
    items.as_array().unwrap().clone()
}

/// `field` of each item, in order.
async fn told(rig: &Rig, who: &Caller, path: &str, field: &str) -> String {
    let items = items(&rig.get(who, path).await);
    let words: Vec<_> = items.iter().map(|it| it[field].as_str().unwrap()).collect();
    words.join(" ")
}

fn next(reply: &Reply) -> Option<String> {
    let link = reply.headers.get(header::LINK)?.to_str().unwrap();
    let link = link.strip_prefix('<').unwrap();
    Some(link.strip_suffix(">; rel=\"next\"").unwrap().to_owned())
}

#[tokio::test]
async fn pages_are_complete_and_known_lists_answer_304() {
    let rig = world().await;
    let of_top = caller(Role::Admin, Some("t-top"));
    for (path, count) in [
        ("/tenants?", 3),
        ("/tenants?sort_by=displayName&", 3),
        ("/clusters?", 6),
        ("/clusters?sort_by=tenant&", 6),
        ("/v1/tokens?", 3),
        ("/v1/bootstrap-tokens?", 6),
        ("/v1/compile-meta?", 6),
        ("/v1/compile-meta?component=x&", 12),
        ("/v1/agents?", 6),
        ("/v1/find?fact=racks%3D3&", 6),
    ] {
        let whole = rig.get(&of_top, path).await;
        let all = items(&whole);
        assert_eq!(all.len(), count, "{path}");
        assert_eq!(
            next(&whole),
            None,
            "a request without a page returns all: {path}"
        );
        assert!(whole.headers.contains_key("fairlead-revision"), "{path}");
        let etag = whole.headers[header::ETAG].to_str().unwrap();
        let known = (header::IF_NONE_MATCH, etag);
        let again = rig.with_precondition(&of_top, Method::GET, path, known, Value::Null);
        let again = again.await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{path}");
        assert_eq!(again.text, "", "{path}");
        for limit in [1, 2, 5, count] {
            let mut at = Some(format!("{path}limit={limit}"));
            let mut pages = Vec::new();
            while let Some(page) = at {
                let reply = rig.get(&of_top, &page).await;
                pages.push(items(&reply));
                at = next(&reply);
            }
            assert_eq!(pages.len(), count.div_ceil(limit), "{path}{limit}");
            assert_eq!(pages.concat(), all, "{path}{limit}");
        }
        for bad in [
            "limit=0",
            "limit=1001",
            "limit=",
            "cursor=x",
            "limit=1&limit=2",
        ] {
            let reply = rig.get(&of_top, &format!("{path}{bad}")).await;
            assert_eq!(reply.status, 400, "{path}{bad}");
        }
    }
}

#[tokio::test]
async fn tenants_are_filtered_and_invalid_parameters_are_400() {
    let rig = world().await;
    for (query, ids) in [
        ("", "t-default t-low t-mid t-other t-top"),
        ("?sort_by=id", "t-default t-low t-mid t-other t-top"),
        (
            "?sort_by=displayName",
            "t-mid t-low t-default t-other t-top",
        ),
        ("?tenant=t-mid", "t-low t-mid"),
        ("?tenant=t-top&sort_by=displayName", "t-mid t-low t-top"),
        ("?tenant=t-none", ""),
        ("?tenant=nonsense", ""),
        ("?selector=sla", "t-low t-mid t-other t-top"),
        ("?selector=sla%20in%20(gold)", "t-mid t-top"),
        ("?selector=!sla", "t-default"),
        ("?tenant=t-mid&selector=sla%3Dgold", "t-mid"),
        ("?text=ACM", "t-mid"),
        ("?text=t-o", "t-other"),
        ("?text=nothing", ""),
        (
            "?unknown=1&unknown=2",
            "t-default t-low t-mid t-other t-top",
        ),
    ] {
        let found = told(&rig, &admin(), &format!("/tenants{query}"), "id").await;
        assert_eq!(found, ids, "{query}");
    }
    for (bad, says) in [
        ("sort_by=", "sort_by"),
        ("sort_by=tenant", "id, displayName"),
        ("sort_by=id&sort_by=id", "sort_by"),
        ("tenant=", "tenant"),
        ("tenant=t-a&tenant=t-b", "tenant"),
        ("selector=a%20b", "selector"),
        ("text=", "text"),
        ("text=%00", "NUL"),
    ] {
        let reply = rig.get(&admin(), &format!("/tenants?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(reply.text.contains(says), "{bad}: {}", reply.text);
    }
}

#[tokio::test]
async fn descendants_are_visible_to_a_tenants_members() {
    let rig = world().await;
    let of_mid = caller(Role::Viewer, Some("t-mid"));
    let below = async |tenant: &str| {
        let path = format!("/tenants?tenant={tenant}");
        told(&rig, &of_mid, &path, "id").await
    };
    assert_eq!(below("t-mid").await, "t-low t-mid");
    assert_eq!(below("t-low").await, "t-low");
    for unseen in ["t-top", "t-other", "t-none"] {
        assert_eq!(below(unseen).await, "", "{unseen}");
    }
}

#[tokio::test]
async fn lists_filter_by_tenant_and_text() {
    let rig = world().await;
    let of_cluster = json!({ "name": "steward", "role": "cluster", "cluster": "c-of-mid-0" });
    rig.post(&admin(), "/v1/tokens", of_cluster).await.good();
    let of_all = json!({ "name": "root", "role": "viewer" });
    rig.post(&admin(), "/v1/tokens", of_all).await.good();
    let names = async |query: &str| {
        let tokens = items(&rig.get(&admin(), &format!("/v1/tokens?{query}")).await);
        let names = tokens
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned());
        let mut names: Vec<_> = names.collect();
        // Sorted by id, and ids are random.
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(
        names("tenant=t-mid").await,
        "bot-of-t-low bot-of-t-mid steward"
    );
    assert_eq!(names("text=BOT-OF").await.split(' ').count(), 4);
    assert_eq!(names("tenant=t-low&text=bot").await, "bot-of-t-low");
    assert_eq!(names("tenant=t-none").await, "");
    let of_low = caller(Role::Admin, Some("t-low"));
    for path in ["/v1/bootstrap-tokens", "/v1/compile-meta", "/v1/agents"] {
        for (who, query, clusters) in [
            (
                &admin(),
                "tenant=t-mid",
                "c-of-low-0 c-of-low-1 c-of-mid-0 c-of-mid-1",
            ),
            (&admin(), "tenant=t-low", "c-of-low-0 c-of-low-1"),
            (&admin(), "tenant=t-none", ""),
            (&admin(), "text=MID-1", "c-of-mid-1"),
            (&admin(), "text=t-mid&tenant=t-low", ""),
            (&of_low, "tenant=t-mid", ""),
            (&of_low, "", "c-of-low-0 c-of-low-1"),
        ] {
            let found = told(&rig, who, &format!("{path}?{query}"), "cluster").await;
            assert_eq!(found, clusters, "{path} {query}");
        }
        let empty = rig.get(&admin(), &format!("{path}?tenant=")).await;
        assert_eq!(empty.status, 400, "{path}");
    }
}

#[tokio::test]
async fn known_facts_answer_304() {
    let rig = world().await;
    let path = "/v1/clusters/c-of-top-0/facts";
    let first = rig.get(&admin(), path).await;
    let known = first.headers[header::ETAG].to_str().unwrap();
    let again = async || {
        let known = (header::IF_NONE_MATCH, known);
        rig.with_precondition(&admin(), Method::GET, path, known, Value::Null)
            .await
    };
    assert_eq!(again().await.status, StatusCode::NOT_MODIFIED);
    let body = json!({ "facts": { "racks": "4" } });
    let cluster = "/clusters/c-of-top-0";
    rig.call(&admin(), Method::PATCH, cluster, body)
        .await
        .good();
    assert_eq!(again().await.status, StatusCode::OK);
}

#[tokio::test]
async fn tenant_filters_include_descendants_and_hide_ancestors() {
    let rig = world().await;
    let of_low = caller(Role::Viewer, Some("t-low"));
    let mut steward = caller(Role::Cluster, None);
    steward.clusters = ClusterScope::One("c-of-mid-0".parse().unwrap());
    for (who, query, ids) in [
        (
            &admin(),
            "tenant=t-mid",
            "c-of-low-0 c-of-low-1 c-of-mid-0 c-of-mid-1",
        ),
        (&admin(), "tenant=t-low", "c-of-low-0 c-of-low-1"),
        (&admin(), "tenant=t-none", ""),
        (&of_low, "tenant=t-low", "c-of-low-0 c-of-low-1"),
        (&of_low, "tenant=t-mid", ""),
        (&steward, "tenant=t-mid", "c-of-mid-0"),
        (&steward, "tenant=t-top", ""),
        (
            &admin(),
            "fact=racks=3&tenant=t-low",
            "c-of-low-0 c-of-low-1",
        ),
        (
            &admin(),
            "fact=racks:3&tenant=t-low",
            "c-of-low-0 c-of-low-1",
        ),
        (&admin(), "fact=racks=4", ""),
    ] {
        let found = told(&rig, who, &format!("/clusters?{query}"), "id").await;
        assert_eq!(found, ids, "{query}");
    }
    for bad in [
        "fact==x",
        "fact=:x",
        &"fact=a=b&".repeat(17),
        "selector=env%3D(",
        "selector=a%20in%20(()",
    ] {
        let reply = rig.get(&admin(), &format!("/clusters?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
}
