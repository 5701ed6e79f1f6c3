//! Facts reported by agents: stored once, shown with their age, searchable within the caller's
//! visibility.

use fairlead_api::{
    Code,
    facts::{FACTS_PATH, MAX_REPORT_BYTES},
    resources::Role,
};
use fairlead_seam::{AgentPeer, ClusterScope};
use http::{Method, Request, header};
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Reply, Rig, admin, caller, peer};

const FACTS: &str = "/v1/clusters/c-demo/facts";

/// An agent of a new cluster.
async fn agent(rig: &Rig, name: &str, tenant: &str) -> AgentPeer {
    let join = rig.cluster(name, tenant).await;
    peer(&rig.enrolled(&join).await.1)
}

fn report(sequence: u64, base: Option<&str>, facts: Value) -> Value {
    let facts: serde_json::Map<String, Value> = (facts.as_object().unwrap().iter())
        .map(|(name, value)| {
            let fact = match value {
                Value::Null => Value::Null,
                value => json!({ "value": value, "observed": 1_000 }),
            };
            (name.clone(), fact)
        })
        .collect();
    let run = "00000000000000000000000000000001";
    json!({ "instance": run, "sequence": sequence, "intervalSeconds": 3600, "base": base, "facts": facts })
}

async fn post(rig: &Rig, peer: &AgentPeer, body: &Value) -> Reply {
    let request = Request::post(FACTS_PATH).header("content-type", "application/json");
    rig.agent(peer, request.body(body.to_string()).unwrap())
        .await
}

async fn told(rig: &Rig, peer: &AgentPeer, body: &Value) -> Option<String> {
    let reply = post(rig, peer, body).await.good();
    reply["etag"].as_str().map(str::to_owned)
}

/// Names and values of the shown facts.
async fn shown(rig: &Rig) -> Value {
    let items = rig.get(&admin(), FACTS).await.good()["items"].clone();
    let items = items.as_array().unwrap().iter();
    items
        .map(|fact| {
            (
                fact["name"].as_str().unwrap().to_owned(),
                fact["value"].clone(),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn reports_are_idempotent_and_changes_apply_to_their_base() {
    let rig = Rig::new().await;
    let agent = agent(&rig, "demo", "t-default").await;
    let whole = report(1, None, json!({ "nodes": { "count": 3 }, "racks": 12 }));
    let first = told(&rig, &agent, &whole).await.unwrap();
    assert_eq!(
        shown(&rig).await,
        json!({ "nodes": { "count": 3 }, "racks": 12 })
    );
    rig.advance(Duration::hours(1));

    // The response was lost, another agent of the cluster sends the same report, and an hour
    // passes.
    assert_eq!(
        told(&rig, &agent, &whole).await.as_deref(),
        Some(first.as_str())
    );
    let nothing = report(2, Some(&first), json!({}));
    assert_eq!(
        told(&rig, &agent, &nothing).await.as_deref(),
        Some(first.as_str())
    );
    let fact = rig.get(&admin(), FACTS).await.good()["items"][0].clone();
    assert_eq!(
        fact["received"], "2026-11-21T12:00:00.25Z",
        "nothing was written"
    );
    assert_eq!(fact["lastReported"], "2026-11-21T13:00:00.25Z");

    let change = report(3, Some(&first), json!({ "racks": null, "site": "Berlin" }));
    let second = told(&rig, &agent, &change).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(
        shown(&rig).await,
        json!({ "nodes": { "count": 3 }, "site": "Berlin" })
    );
    let on_the_old_base = report(4, Some(&first), json!({ "site": "Rome" }));
    assert_eq!(told(&rig, &agent, &on_the_old_base).await, None);
    let late = post(&rig, &agent, &report(1, None, json!({}))).await;
    assert_eq!(late.code(), Code::Conflict);
    assert_eq!(shown(&rig).await["site"], "Berlin");
}

#[tokio::test]
async fn facts_show_their_age_and_become_stale() {
    let rig = Rig::new().await;
    let agent = agent(&rig, "demo", "t-default").await;
    let etag = told(&rig, &agent, &report(1, None, json!({ "racks": 12 }))).await;
    rig.advance(Duration::hours(2));
    told(&rig, &agent, &report(2, etag.as_deref(), json!({}))).await;
    rig.advance(Duration::hours(3));
    let fact = async || rig.get(&admin(), FACTS).await.good()["items"][0].clone();
    assert_eq!(
        fact().await,
        json!({
            "name": "racks", "value": 12, "dynamic": true, "source": "agent",
            "observed": "1970-01-01T00:00:01Z", "received": "2026-11-21T12:00:00.25Z",
            "lastReported": "2026-11-21T14:00:00.25Z", "stale": false,
        })
    );
    rig.advance(Duration::seconds(1));
    assert_eq!(fact().await["stale"], true);
}

#[tokio::test]
async fn rejected_patches_do_not_refresh_facts() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let mut steward = caller(Role::Cluster, None);
    steward.clusters = ClusterScope::One("c-demo".parse().unwrap());
    let path = "/clusters/c-demo";
    let facts = || json!({ "dynamicFacts": { "racks": 12 } });
    let patch = async |body: Value| rig.call(&steward, Method::PATCH, path, body).await;
    let seen = async || rig.get(&admin(), FACTS).await.good()["items"][0]["lastReported"].clone();
    patch(facts()).await.good();
    assert_eq!(seen().await, "2026-11-21T12:00:00.25Z");

    rig.advance(Duration::hours(1));
    let stale = (header::IF_MATCH, "\"77\"");
    let lost = rig.with_precondition(&steward, Method::PATCH, path, stale, facts());
    assert_eq!(lost.await.code(), Code::ChangedMeanwhile);
    let mut of_no_repo = facts();
    of_no_repo["gitRepo"] = json!({ "deployKey": "ssh-ed25519 AAAA" });
    assert_eq!(patch(of_no_repo).await.code(), Code::Invalid);
    let mut unread = facts();
    unread["dynamicFacts"]["x".repeat(400)] = json!(1);
    assert_eq!(patch(unread).await.code(), Code::Invalid);
    assert_eq!(seen().await, "2026-11-21T12:00:00.25Z");

    patch(facts()).await.good();
    assert_eq!(seen().await, "2026-11-21T13:00:00.25Z", "the same again");
    rig.advance(Duration::hours(1));
    patch(json!({ "dynamicFacts": { "racks": 12, "site": "Berlin" } }))
        .await
        .good();
    assert_eq!(seen().await, "2026-11-21T14:00:00.25Z");
}

#[tokio::test]
async fn an_agent_reports_for_its_own_cluster_within_limits() {
    let rig = Rig::new().await;
    let agent = agent(&rig, "demo", "t-default").await;
    let anonymous = post(&rig, &AgentPeer::Anonymous, &report(1, None, json!({}))).await;
    assert_eq!(anonymous.code(), Code::EnrolOnly);
    let deep = (0..9).fold(json!(1), |deep, _| json!([deep]));
    for (facts, says) in [
        (json!({ "deep": deep }), "deep is more than 8 levels deep"),
        (
            json!({ "long": "x".repeat(65 * 1024) }),
            "long is longer than 65536 bytes",
        ),
        (json!({ "a b": 1 }), "a fact's name"),
    ] {
        let reply = post(&rig, &agent, &report(1, None, facts)).await;
        assert_eq!(reply.code(), Code::Invalid);
        assert!(reply.text.contains(says), "{reply:?}");
    }
    let endless = json!({ "x": "x".repeat(MAX_REPORT_BYTES) });
    assert_eq!(post(&rig, &agent, &endless).await.code(), Code::BadRequest);
    assert_eq!(shown(&rig).await, json!({}));
}

#[tokio::test]
async fn clusters_are_found_by_facts_within_visibility() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let old = agent(&rig, "old", "t-default").await;
    let new = agent(&rig, "new", "t-acme").await;
    let facts = |version: &str, host: &str| {
        json!({
            "kubernetesVersion": { "major": "1", "minor": "30", "gitVersion": version },
            "ingressHosts": { host: ["shop/web"] },
            "services": { "postgresql": { "15.3": ["db/pg"] } },
            "nodes": { "count": 3, "labels": { "zone=a": 3 } },
        })
    };
    told(
        &rig,
        &old,
        &report(1, None, facts("v1.30.4-eks-1", "*.example.com")),
    )
    .await;
    told(
        &rig,
        &new,
        &report(1, None, facts("v1.31.0", "shop.example.org")),
    )
    .await;
    let acme = caller(Role::Viewer, Some("t-acme"));
    let everything = ["c-new", "c-old"].as_slice();
    for (query, all, of_acme) in [
        ("host=Shop.example.com", ["c-old"].as_slice(), [].as_slice()),
        ("host=shop.example.org", &["c-new"], &["c-new"]),
        ("version=%3C1.31", &["c-old"], &[]),
        ("version=%3E%3D1.29,%3C1.32", everything, &["c-new"]),
        ("service=postgres", everything, &["c-new"]),
        ("service=postgres%3C15", &[], &[]),
        ("fact=nodes.count%3E%3D3", everything, &["c-new"]),
        ("fact=nodes.labels.zone%3Da", &[], &[]),
        ("fact=nodes&version=%3C1.31", &["c-old"], &[]),
        ("fact=distribution", &[], &[]),
    ] {
        for (who, expected) in [(admin(), all), (acme.clone(), of_acme)] {
            let found = rig.get(&who, &format!("/v1/find?{query}")).await.good();
            let ids: Vec<_> = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["id"].clone())
                .collect();
            assert_eq!(ids, expected, "{query} of {}", who.name);
        }
    }
    let found = rig.get(&acme, "/v1/find?service=postgres").await.good();
    assert_eq!(
        found["items"][0],
        json!({ "id": "c-new", "tenant": "t-acme", "displayName": "c-new", "matches": [
            { "fact": "services", "key": "postgresql 15.3", "value": ["db/pg"], "stale": false },
        ] })
    );
    for bad in ["", "?colour=red", "?version=new", "?host="] {
        let reply = rig.get(&admin(), &format!("/v1/find{bad}")).await;
        assert_eq!(reply.code(), Code::Invalid, "{bad}");
    }
    let hidden = rig.get(&acme, "/v1/clusters/c-old/facts").await;
    let absent = rig.get(&acme, "/v1/clusters/c-none/facts").await;
    assert_eq!((hidden.status, hidden.text), (absent.status, absent.text));
}

#[tokio::test]
async fn lists_and_searches_use_the_same_effective_facts() {
    let rig = Rig::new().await;
    let template = json!({ "clusterTemplate": { "facts": { "sla": "gold", "zone": "a" } } });
    rig.call(&admin(), Method::PATCH, "/tenants/t-default", template)
        .await
        .good();
    let agent = agent(&rig, "demo", "t-default").await;
    let facts = json!({ "facts": { "zone": "b" } });
    rig.call(&admin(), Method::PATCH, "/clusters/c-demo", facts)
        .await
        .good();
    let whole = json!({ "sla": "none", "zone": "c", "racks": "12" });
    told(&rig, &agent, &report(1, None, whole)).await;
    for (name, value, other) in [
        ("sla", "gold", "none"),
        ("zone", "b", "c"),
        ("racks", "12", "13"),
    ] {
        for (value, count) in [(value, 1), (other, 0)] {
            let list = rig
                .get(&admin(), &format!("/clusters?fact={name}:{value}"))
                .await;
            assert_eq!(list.good().as_array().unwrap().len(), count, "{name}");
            let found = rig
                .get(&admin(), &format!("/v1/find?fact={name}={value}"))
                .await;
            let found = found.good()["items"].clone();
            assert_eq!(found.as_array().unwrap().len(), count, "{name}: {found}");
        }
    }
}

#[tokio::test]
async fn a_silent_sources_facts_are_stale_and_can_be_excluded() {
    let rig = Rig::new().await;
    let agent = agent(&rig, "demo", "t-default").await;
    told(&rig, &agent, &report(1, None, json!({ "racks": "12" }))).await;
    let shown = async || rig.get(&admin(), "/clusters/c-demo").await.good();
    let count = async |query: &str| {
        let list = rig.get(&admin(), &format!("/clusters?{query}")).await;
        list.good().as_array().unwrap().len()
    };
    assert_eq!(shown().await["staleFacts"], Value::Null);
    assert_eq!(count("fact=racks:12&stale=false").await, 1);
    rig.advance(Duration::hours(3) + Duration::seconds(1));
    let old = shown().await;
    assert_eq!(old["staleFacts"], json!(["racks"]));
    assert_eq!(old["dynamicFacts"], json!({ "racks": "12" }));
    let listed = rig.get(&admin(), "/clusters").await.good();
    assert_eq!(listed[0]["staleFacts"], json!(["racks"]));
    for (query, clusters) in [
        ("fact=racks:12", 1),
        ("fact=racks:12&stale=true", 1),
        ("fact=racks:12&stale=false", 0),
        ("selector=racks&stale=false", 0),
        ("selector=!racks&stale=false", 1),
    ] {
        assert_eq!(count(query).await, clusters, "{query}");
    }
    let wrong = rig.get(&admin(), "/clusters?stale=maybe").await;
    assert_eq!(wrong.code(), Code::Invalid);
}

/// Both sources report the fact with different fields, as for `kubernetesVersion`.
#[tokio::test]
async fn steward_and_agent_do_not_alternate_versions_of_a_fact() {
    let rig = Rig::new().await;
    let agent = agent(&rig, "demo", "t-default").await;
    let steward = fairlead_seam::Caller {
        clusters: ClusterScope::One("c-demo".parse().unwrap()),
        ..caller(Role::Cluster, None)
    };
    let from_steward =
        json!({ "dynamicFacts": { "kubernetesVersion": { "minor": "31" }, "own": 1 } });
    let patched = async || {
        let patch = from_steward.clone();
        rig.call(&steward, Method::PATCH, "/clusters/c-demo", patch)
            .await
            .good();
    };
    let versions = async || {
        let history = format!("{FACTS}/history?fact=kubernetesVersion");
        let items = rig.get(&admin(), &history).await.good()["items"].clone();
        let items = items.as_array().unwrap().iter();
        items.map(|it| it["source"].clone()).collect::<Vec<_>>()
    };
    patched().await;
    let precise = json!({ "kubernetesVersion": { "minor": "31", "emulationMajor": "1" } });
    let etag = told(&rig, &agent, &report(1, None, precise.clone())).await;
    assert_eq!(versions().await, ["steward", "agent"]);
    let revision = *rig.control.revision().borrow();
    for hour in 0..3 {
        for _ in 0..60 {
            rig.advance(Duration::minutes(1));
            patched().await;
        }
        told(&rig, &agent, &report(2 + hour, etag.as_deref(), json!({}))).await;
    }
    assert_eq!(*rig.control.revision().borrow(), revision);
    assert_eq!(
        shown(&rig).await["kubernetesVersion"],
        precise["kubernetesVersion"]
    );

    // The agent is silent until its next report below.
    rig.advance(Duration::hours(3) + Duration::milliseconds(1));
    patched().await;
    patched().await;
    assert_eq!(versions().await, ["steward", "agent", "steward"]);
    let nothing = report(9, etag.as_deref(), json!({}));
    assert_eq!(
        told(&rig, &agent, &nothing).await,
        None,
        "it is to tell all of it"
    );
    told(&rig, &agent, &report(10, None, precise)).await;
    patched().await;
    assert_eq!(versions().await, ["steward", "agent", "steward", "agent"]);
}
