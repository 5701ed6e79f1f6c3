//! The change log for callers with limited visibility: nothing is missed when resources enter or
//! leave their visibility, at any time of reading.

use std::collections::BTreeSet;

use fairlead_api::resources::Role;
use fairlead_seam::Caller;
use http::{Method, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::rig::{Reply, Rig, admin, caller};

async fn child(rig: &Rig, name: &str, parent: &str) {
    let body = json!({ "id": name, "tenantRef": parent, "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", body).await.good();
}

/// Tenants a (with child and grandchild) and b; each has a cluster of its name.
async fn world() -> Rig {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.tenant("b").await;
    child(&rig, "child", "t-a").await;
    child(&rig, "grand", "t-child").await;
    for tenant in ["a", "b", "child", "grand"] {
        rig.cluster(tenant, &format!("t-{tenant}")).await;
    }
    rig
}

async fn now(rig: &Rig) -> u64 {
    let told = rig.get(&admin(), "/v1/changes").await.good();
    told["revision"].as_u64().unwrap()
}

async fn since(rig: &Rig, who: &Caller, since: u64) -> Value {
    let path = format!("/v1/changes?since={since}");
    rig.get(who, &path).await.good()["items"].clone()
}

/// Kind, id, operation and tenant of each change: `cluster c-a deleted t-a`.
async fn told(rig: &Rig, who: &Caller, from: u64) -> Vec<String> {
    let items = since(rig, who, from).await;
    let items = items.as_array().unwrap().iter();
    items
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap_or("-");
            let [kind, id, operation, tenant] = ["kind", "id", "operation", "tenant"].map(text);
            format!("{kind} {id} {operation} {tenant}")
        })
        .collect()
}

async fn move_to(rig: &Rig, cluster: &str, tenant: &str) {
    let path = format!("/v1/clusters/{cluster}/tenant");
    let body = json!({ "tenant": tenant });
    rig.post(&admin(), &path, body).await.good();
}

fn viewer(tenant: &str) -> Caller {
    caller(Role::Viewer, Some(tenant))
}

#[tokio::test]
async fn a_moved_cluster_is_deleted_for_one_tenant_and_created_for_the_other() {
    let rig = world().await;
    let from = now(&rig).await;
    move_to(&rig, "c-a", "t-b").await;
    assert_eq!(
        told(&rig, &viewer("t-a"), from).await,
        ["cluster c-a deleted t-a"]
    );
    assert_eq!(
        told(&rig, &viewer("t-b"), from).await,
        ["cluster c-a created t-b"]
    );
    assert_eq!(
        told(&rig, &caller(Role::Viewer, None), from).await,
        ["cluster c-a updated t-b"]
    );
    assert!(told(&rig, &viewer("t-child"), from).await.is_empty());
    let of_a = since(&rig, &viewer("t-a"), from).await;
    assert!(!of_a.to_string().contains("t-b"), "{of_a}");

    let from = now(&rig).await;
    move_to(&rig, "c-child", "t-a").await;
    assert_eq!(
        told(&rig, &viewer("t-a"), from).await,
        ["cluster c-child updated t-a"],
        "it was in sight all the time"
    );
    assert_eq!(
        told(&rig, &viewer("t-child"), from).await,
        ["cluster c-child deleted t-child"]
    );
}

#[tokio::test]
async fn deletions_of_descendants_are_visible_to_ancestors() {
    let rig = world().await;
    let from = now(&rig).await;
    rig.delete(&admin(), "/clusters/c-grand").await.good();
    rig.delete(&admin(), "/tenants/t-child?cascade=true")
        .await
        .good();
    let all = [
        "cluster c-grand deleted t-grand",
        "tenant t-child deleted t-child",
        "tenant t-grand deleted t-grand",
        "cluster c-child deleted t-child",
    ];
    for who in [viewer("t-a"), caller(Role::Viewer, None)] {
        assert_eq!(told(&rig, &who, from).await, all);
    }
    assert_eq!(told(&rig, &viewer("t-child"), from).await, all);
    let below = told(&rig, &viewer("t-grand"), from).await;
    assert_eq!(below, [all[0], all[2]]);
    assert!(told(&rig, &viewer("t-b"), from).await.is_empty());
}

#[tokio::test]
async fn a_moved_tenant_takes_its_descendants_along() {
    let rig = world().await;
    let from = now(&rig).await;
    let named = json!({ "displayName": "before" });
    rig.call(&admin(), Method::PATCH, "/clusters/c-grand", named)
        .await
        .good();
    let to_b = json!({ "tenantRef": "t-b" });
    rig.call(&admin(), Method::PATCH, "/tenants/t-child", to_b)
        .await
        .good();
    let named = json!({ "displayName": "after" });
    rig.call(&admin(), Method::PATCH, "/clusters/c-grand", named)
        .await
        .good();
    let updated = "cluster c-grand updated t-grand";
    assert_eq!(
        told(&rig, &viewer("t-a"), from).await,
        [updated, "tenant t-child deleted t-child"]
    );
    assert_eq!(
        told(&rig, &viewer("t-b"), from).await,
        ["tenant t-child created t-child", updated]
    );
    assert_eq!(
        told(&rig, &viewer("t-child"), from).await,
        [updated, "tenant t-child updated t-child", updated]
    );
}

#[tokio::test]
async fn followers_and_late_readers_get_the_same_changes() {
    let rig = world().await;
    let from = now(&rig).await;
    let events = (header::ACCEPT, "text/event-stream");
    let path = format!("/v1/changes?since={from}");
    let of_a = viewer("t-a");
    let mut stream = rig.stream(&of_a, &path, events).await;
    move_to(&rig, "c-a", "t-b").await;
    let frame = stream.frame().await.unwrap().unwrap();
    let first = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    assert!(first.contains("\"operation\":\"deleted\""), "{first}");
    assert!(!first.contains("t-b"), "{first}");

    let now = now(&rig).await;
    let waiting = format!("/v1/changes?since={now}&wait=20");
    let gone = async {
        rig.delete(&admin(), "/tenants/t-child?cascade=true")
            .await
            .good();
    };
    let (polled, ()) = tokio::join!(rig.get(&of_a, &waiting), gone);
    let polled = polled.good();
    let ids = polled["items"].as_array().unwrap().iter();
    let ids: BTreeSet<_> = ids.map(|it| it["id"].as_str().unwrap()).collect();
    let below = ["c-child", "c-grand", "t-child", "t-grand"];
    assert_eq!(ids, BTreeSet::from(below));
}

/// A connection may break between any two events.
#[tokio::test]
async fn a_half_received_change_is_sent_again() {
    let rig = world().await;
    let from = now(&rig).await;
    rig.delete(&admin(), "/tenants/t-child?cascade=true")
        .await
        .good();
    rig.tenant("c").await;
    let events = (header::ACCEPT, "text/event-stream");
    let path = format!("/v1/changes?since={from}");
    let mut stream = rig.stream(&admin(), &path, events).await;
    let frame = stream.frame().await.unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let ids = text.split_terminator("\n\n").map(|event| {
        let id = event.lines().find_map(|line| line.strip_prefix("id: "));
        id.map(|id| id.parse::<u64>().unwrap() - from)
    });
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids, [None, None, None, Some(1), Some(2)], "{text}");
}

/// A list plus the changes after it equals the next list, after any move.
#[tokio::test]
async fn a_list_plus_its_changes_equals_the_next_list() {
    let rig = world().await;
    let whos = ["t-a", "t-b", "t-child", "t-grand"].map(viewer);
    let ids = async |who: &Caller| {
        let list = rig.get(who, "/clusters").await;
        let revision = list.headers["fairlead-revision"].to_str().unwrap();
        let ids = list.good().as_array().unwrap().clone();
        let ids = ids.iter().map(|it| it["id"].as_str().unwrap().to_owned());
        (
            revision.parse::<u64>().unwrap(),
            ids.collect::<BTreeSet<_>>(),
        )
    };
    let mut known = Vec::new();
    for who in &whos {
        known.push(ids(who).await);
    }
    move_to(&rig, "c-a", "t-grand").await;
    move_to(&rig, "c-grand", "t-b").await;
    rig.cluster("new", "t-child").await;
    move_to(&rig, "c-new", "t-a").await;
    rig.delete(&admin(), "/clusters/c-child").await.good();
    move_to(&rig, "c-b", "t-grand").await;
    rig.delete(&admin(), "/tenants/t-child?cascade=true")
        .await
        .good();
    rig.cluster("child", "t-b").await;
    for (who, (from, mut kept)) in whos.iter().zip(known) {
        for item in since(&rig, who, from).await.as_array().unwrap() {
            if item["kind"] != "cluster" {
                continue;
            }
            let id = item["id"].as_str().unwrap().to_owned();
            match item["operation"].as_str().unwrap() {
                "created" => assert!(kept.insert(id), "{}: {item}", who.name),
                "deleted" => assert!(kept.remove(&id), "{}: {item}", who.name),
                _ => assert!(kept.contains(&id), "{}: {item}", who.name),
            }
        }
        assert_eq!(kept, ids(who).await.1, "{}", who.name);
    }
}

/// All pages of an audit.
async fn pages(rig: &Rig, who: &Caller, query: &str) -> Vec<Vec<Value>> {
    let mut path = format!("/v1/audit?{query}");
    let mut pages = Vec::new();
    loop {
        let reply = rig.get(who, &path).await;
        pages.push(reply.good()["items"].as_array().unwrap().clone());
        match next(&reply) {
            Some(link) => path = link,
            None => return pages,
        }
    }
}

fn next(reply: &Reply) -> Option<String> {
    let link = reply.headers.get(header::LINK)?.to_str().unwrap();
    let link = link.strip_prefix('<').unwrap();
    Some(link.strip_suffix(">; rel=\"next\"").unwrap().to_owned())
}

#[tokio::test]
async fn hidden_lines_do_not_shorten_audit_pages() {
    let rig = world().await;
    for n in 0..30 {
        let body = json!({ "displayName": format!("{n}") });
        rig.call(&admin(), Method::PATCH, "/clusters/c-b", body)
            .await
            .good();
    }
    let of_a = caller(Role::Admin, Some("t-a"));
    let lines = |pages: &[Vec<Value>]| {
        let lines = pages.concat().into_iter();
        let lines = lines.map(|it| format!("{} {}", it["kind"], it["id"]).replace('"', ""));
        lines.collect::<Vec<_>>()
    };
    let all = [
        "cluster c-grand",
        "cluster c-child",
        "cluster c-a",
        "tenant t-grand",
        "tenant t-child",
        "tenant t-a",
    ];
    for limit in [1, 2, 5, 6, 7, 1000] {
        let pages = pages(&rig, &of_a, &format!("limit={limit}")).await;
        assert_eq!(lines(&pages), all, "limit={limit}");
        assert_eq!(pages.len(), all.len().div_ceil(limit), "limit={limit}");
    }
    let below = caller(Role::Admin, Some("t-child"));
    let below = pages(&rig, &below, "limit=3").await;
    assert_eq!(
        lines(&below),
        [all[0], all[1], all[3], all[4]],
        "the child's own and its descendants'"
    );
    let one = pages(&rig, &of_a, "limit=1&cluster=c-child").await;
    assert_eq!(lines(&one), ["cluster c-child"]);
    for bad in ["cursor=x", "cursor=1", "cursor=-1-1", "limit=0"] {
        let reply = rig.get(&of_a, &format!("/v1/audit?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn an_audit_resumes_within_a_change() {
    let rig = world().await;
    rig.delete(&admin(), "/tenants/t-a?cascade=true")
        .await
        .good();
    for limit in [1, 2, 3, 4, 5] {
        let pages = pages(&rig, &admin(), &format!("limit={limit}")).await;
        let gone = pages.concat().into_iter();
        let gone = gone.filter(|it| it["operation"] == "deleted");
        assert_eq!(gone.count(), 6, "three tenants, three clusters");
    }
}

#[tokio::test]
async fn an_audit_shows_moves_within_the_auditors_visibility() {
    let rig = world().await;
    move_to(&rig, "c-a", "t-b").await;
    let line = async |tenant: &str| {
        let who = caller(Role::Admin, Some(tenant));
        let reply = rig.get(&who, "/v1/audit?cluster=c-a&limit=1").await.good();
        reply["items"][0].clone()
    };
    let (of_a, of_b) = (line("t-a").await, line("t-b").await);
    assert_eq!(
        (&of_a["operation"], &of_a["tenant"]),
        (&json!("deleted"), &json!("t-a"))
    );
    assert_eq!(of_a["before"]["tenant"], "t-a");
    assert!(!of_a.to_string().contains("t-b"), "{of_a}");
    assert_eq!(
        (&of_b["operation"], &of_b["tenant"]),
        (&json!("created"), &json!("t-b"))
    );
    assert_eq!(of_b["after"]["tenant"], "t-b");
    assert!(!of_b.to_string().contains("t-a"), "{of_b}");
    let asked = caller(Role::Admin, Some("t-a"));
    let asked = pages(&rig, &asked, "tenant=t-a&limit=1").await;
    assert_eq!(asked[0][0]["id"], "c-a", "it was that tenant's");
}

#[tokio::test]
async fn a_cluster_token_is_logged_for_the_clusters_tenant() {
    let rig = world().await;
    let from = now(&rig).await;
    let asked = json!({ "name": "ci", "role": "cluster", "cluster": "c-child" });
    rig.post(&admin(), "/v1/tokens", asked).await.good();
    let count = async |who: Caller| told(&rig, &who, from).await.len();
    assert_eq!(count(caller(Role::Admin, Some("t-a"))).await, 1);
    assert_eq!(count(caller(Role::Admin, Some("t-child"))).await, 1);
    assert_eq!(count(caller(Role::Admin, Some("t-b"))).await, 0);
    assert_eq!(count(viewer("t-a")).await, 0);
}

#[tokio::test]
async fn changes_and_audit_filter_by_kind_id_and_tenant() {
    let rig = world().await;
    let of_child = caller(Role::Admin, Some("t-child"));
    rig.delete(&admin(), "/clusters/c-grand").await;
    rig.delete(&admin(), "/tenants/t-grand").await;
    let ids = async |who: &Caller, path: &str| {
        let items = rig.get(who, path).await.good()["items"].clone();
        let ids = items.as_array().unwrap().iter();
        let ids: BTreeSet<_> = ids
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect();
        Vec::from_iter(ids).join(" ")
    };
    for (who, filter, found) in [
        (
            &admin(),
            "tenant=t-child",
            "c-child c-grand t-child t-grand",
        ),
        (&admin(), "tenant=t-grand", "c-grand t-grand"),
        (&admin(), "tenant=t-none", ""),
        (&of_child, "tenant=t-grand", "c-grand t-grand"),
        (
            &of_child,
            "tenant=t-child",
            "c-child c-grand t-child t-grand",
        ),
        (&of_child, "tenant=t-a", ""),
    ] {
        let of_log = ids(who, &format!("/v1/audit?{filter}")).await;
        assert_eq!(of_log, found, "audit {filter}");
        let of_changes = ids(who, &format!("/v1/changes?since=first&{filter}")).await;
        assert_eq!(of_changes, found, "changes {filter}");
    }
    for (filter, found) in [
        ("kind=tenant&tenant=t-child", "t-child t-grand"),
        ("kind=cluster", "c-a c-b c-child c-grand"),
        ("id=c-grand", "c-grand"),
        ("kind=tenant&id=c-grand", ""),
    ] {
        let of_changes = ids(&admin(), &format!("/v1/changes?since=first&{filter}")).await;
        assert_eq!(of_changes, found, "{filter}");
    }
    for bad in ["kind=foo", "kind=", "tenant=nonsense"] {
        let reply = rig.get(&admin(), &format!("/v1/changes?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
    let future = rig.get(&admin(), "/v1/changes?since=99999").await;
    assert_eq!(future.status, 410);
    assert!(
        future.text.contains("has not reached 99999"),
        "{}",
        future.text
    );
}
