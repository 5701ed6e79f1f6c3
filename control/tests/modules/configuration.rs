//! Configuration of agents: desired documents, and the revisions applied.

use fairlead_api::{Code, config::CONFIG_PATH, gitops::KEYS_PATH, resources::Role};
use fairlead_runtime::Process;
use fairlead_seam::AgentPeer;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tokio::{
    task::yield_now,
    time::{Duration, Instant, pause},
};

use crate::rig::{Reply, Rig, admin, caller, peer};

const AGENT: &str = "/v1/clusters/c-demo/agent";

async fn agent(rig: &Rig, name: &str, tenant: &str) -> AgentPeer {
    let join = rig.cluster(name, tenant).await;
    peer(&rig.enrolled(&join).await.1)
}

async fn pull(rig: &Rig, peer: &AgentPeer, known: Option<&str>) -> Reply {
    let mut request = Request::get(CONFIG_PATH);
    if let Some(known) = known {
        request = request.header(header::IF_NONE_MATCH, known);
    }
    rig.agent(peer, request.body(String::new()).unwrap()).await
}

fn tag(reply: &Reply) -> String {
    reply.headers[header::ETAG].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_agent_pulls_its_own_configuration_when_changed() {
    let rig = Rig::new().await;
    let demo = agent(&rig, "demo", "t-default").await;
    let other = agent(&rig, "other", "t-default").await;
    let first = pull(&rig, &demo, None).await;
    assert_eq!(
        first.good(),
        json!({ "revisions": {}, "facts": { "annotationPrefixes": [], "contactPrefixes": ["a8r.io/"] } })
    );
    assert_eq!(
        pull(&rig, &demo, Some(&tag(&first))).await.status,
        StatusCode::NOT_MODIFIED
    );

    let said = json!({ "version": "0.2.0", "allowConnect": ["db:5432"] });
    rig.call(&admin(), Method::PUT, AGENT, said.clone())
        .await
        .good();
    assert_eq!(rig.get(&admin(), AGENT).await.good(), said);
    let second = pull(&rig, &demo, Some(&tag(&first))).await;
    assert_eq!(second.good()["agentVersion"], "0.2.0");
    assert_eq!(second.good()["allowConnect"], json!(["db:5432"]));
    assert_eq!(
        rig.get(&admin(), "/v1/clusters/c-demo/config").await.good(),
        second.good()
    );
    assert_eq!(
        tag(&pull(&rig, &other, None).await),
        tag(&first),
        "no business of others"
    );
    let anonymous = pull(&rig, &AgentPeer::Anonymous, None).await;
    assert_eq!(anonymous.code(), Code::EnrolOnly);
}

#[tokio::test]
async fn an_agent_with_an_older_configuration_is_outdated() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let demo = agent(&rig, "demo", "t-default").await;
    agent(&rig, "new", "t-acme").await;
    let stands = async |tenant: Option<&str>| {
        let items = rig
            .get(&caller(Role::Viewer, tenant), "/v1/agents")
            .await
            .good()["items"]
            .clone();
        let items = items.as_array().unwrap().iter();
        items
            .map(|it| {
                (
                    it["cluster"].as_str().unwrap().to_owned(),
                    it["outdated"].as_bool().unwrap(),
                    it["applied"].is_string(),
                )
            })
            .collect::<Vec<_>>()
    };
    let demo_is = |outdated, has_said| ("c-demo".to_owned(), outdated, has_said);
    let new = ("c-new".to_owned(), false, false);
    assert_eq!(stands(None).await, [demo_is(false, false), new.clone()]);
    let directory = rig.control.seam().directory;
    let id = "c-demo".parse().unwrap();
    let pulled = tag(&pull(&rig, &demo, None).await);
    assert_eq!(stands(None).await[0], demo_is(false, false), "not applied");
    directory.record_applied_config(&id, pulled.trim_matches('"'));
    assert_eq!(stands(None).await[0], demo_is(false, true));
    rig.call(&admin(), Method::PUT, AGENT, json!({ "version": "0.2.0" }))
        .await
        .good();
    assert_eq!(stands(None).await[0], demo_is(true, true));
    assert_eq!(stands(Some("t-acme")).await, [new]);
    let desired = directory.desired_config(&id).unwrap();
    for invalid in ["x", "\u{1}", &"0".repeat(33), &format!("{desired}0")] {
        directory.record_applied_config(&id, invalid);
    }
    assert_eq!(
        stands(None).await[0],
        demo_is(true, true),
        "invalid revisions are ignored"
    );
    directory.record_applied_config(&id, &desired);
    assert_eq!(stands(None).await[0], demo_is(false, true));
    directory.record_applied_config(&"c-none".parse().unwrap(), &desired);
}

#[tokio::test]
async fn subscribers_are_notified_of_changes() {
    let rig = Rig::new().await;
    agent(&rig, "demo", "t-default").await;
    let directory = rig.control.seam().directory;
    let id = "c-demo".parse().unwrap();
    let before = directory.desired_config(&id).unwrap();
    let mut changes = directory.config_changes().unwrap();
    rig.call(&admin(), Method::PUT, AGENT, json!({ "version": "0.2.0" }))
        .await
        .good();
    assert_ne!(directory.desired_config(&id).unwrap(), before);
    assert_eq!(changes.try_recv().unwrap(), id);
    assert!(changes.try_recv().is_err(), "once");
    assert_eq!(directory.desired_config(&"c-none".parse().unwrap()), None);
}

#[tokio::test]
async fn changes_are_announced_within_a_second() {
    let rig = Rig::new().await;
    agent(&rig, "demo", "t-default").await;
    let mut changes = rig.control.seam().directory.config_changes().unwrap();
    let modules = rig.control.seam().modules;
    let mut modules = modules.into_iter();
    let configuration = modules.find(|it| it.name() == "configuration").unwrap();
    let _watches = tokio::spawn(async move { configuration.run(Process::new()).await });
    // By now the watcher has processed all changes.
    yield_now().await;
    rig.call(&admin(), Method::PUT, AGENT, json!({ "version": "0.2.0" }))
        .await
        .good();
    // From here on the clock advances from one timer to the next.
    pause();
    let changed = Instant::now();
    assert_eq!(changes.recv().await.unwrap().as_str(), "c-demo");
    assert!(changed.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn settings_require_admin_and_valid_values() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let operator = caller(Role::Operator, None);
    let refused = rig.call(&operator, Method::PUT, AGENT, json!({})).await;
    assert_eq!(refused.code(), Code::NotAllowed);
    let stranger = caller(Role::Admin, Some("t-other"));
    let hidden = rig.call(&stranger, Method::PUT, AGENT, json!({})).await;
    assert_eq!(hidden.code(), Code::NoSuchCluster);
    for (bad, says) in [
        (json!({ "version": "a b" }), "version"),
        (json!({ "allowConnect": ["db"] }), "allowConnect"),
        (
            json!({ "facts": { "intervalSeconds": 0 } }),
            "intervalSeconds",
        ),
        (json!({ "colour": "red" }), "colour"),
    ] {
        let reply = rig.call(&admin(), Method::PUT, AGENT, bad).await;
        assert_eq!(reply.code(), Code::Invalid);
        assert!(reply.text.contains(says), "{reply:?}");
    }
}

#[tokio::test]
async fn outdated_settings_are_not_overwritten() {
    let rig = Rig::new().await;
    agent(&rig, "demo", "t-default").await;
    let read = rig.get(&admin(), AGENT).await;
    let put = async |demand: &str, version: &str| {
        let demand = (header::IF_MATCH, demand);
        let said = json!({ "version": version });
        rig.with_precondition(&admin(), Method::PUT, AGENT, demand, said)
            .await
    };
    let first = put(&tag(&read), "1").await;
    first.good();
    assert_eq!(tag(&rig.get(&admin(), AGENT).await), tag(&first));
    // Unrelated changes of the cluster do not invalidate the precondition.
    let renamed = json!({ "displayName": "Other" });
    let renamed = rig
        .call(&admin(), Method::PATCH, "/clusters/c-demo", renamed)
        .await;
    renamed.good();
    assert_eq!(put(&tag(&read), "2").await.code(), Code::ChangedMeanwhile);
    put(&tag(&first), "3").await.good();
    put("*", "4").await.good();
    assert_eq!(rig.get(&admin(), AGENT).await.good()["version"], "4");
    let known = (header::IF_NONE_MATCH, tag(&rig.get(&admin(), AGENT).await));
    let known = (known.0, known.1.as_str());
    let same = rig
        .with_precondition(&admin(), Method::GET, AGENT, known, json!({}))
        .await;
    assert_eq!(same.status, StatusCode::NOT_MODIFIED);
}

const FIRST: &str = "ssh-ed25519 AAAA";
const SECOND: &str = "ssh-ed25519 BBBB";

async fn report(rig: &Rig, peer: &AgentPeer, expected: Value, keys: Value) -> Reply {
    let body = json!({ "expected": expected, "keys": keys }).to_string();
    let request = Request::post(KEYS_PATH).header(header::CONTENT_TYPE, "application/json");
    rig.agent(peer, request.body(body).unwrap()).await
}

#[tokio::test]
async fn agent_replaces_its_deploy_keys_unless_its_decision_is_outdated() {
    let rig = Rig::new().await;
    let demo = agent(&rig, "demo", "t-default").await;
    let first = json!({ "current": FIRST });
    let refused = report(&rig, &demo, json!({}), first.clone()).await;
    assert_eq!(refused.code(), Code::Invalid, "no repository: {refused:?}");
    let repo = json!({ "gitRepo": { "url": "ssh://git@git.example/a/b.git", "type": "unmanaged", "deployKeys": { "ci": { "key": "ssh-rsa CCCC" } } } });
    rig.call(
        &admin(),
        Method::PUT,
        "/clusters/c-demo",
        repo_of(&rig, repo).await,
    )
    .await
    .good();
    let flux = json!({ "gitops": { "tool": "flux", "rotation": 1 } });
    rig.call(&admin(), Method::PUT, AGENT, flux).await.good();

    let taken = report(&rig, &demo, json!({}), first.clone()).await.good();
    assert_eq!(taken, json!({ "keys": first }));
    let both = json!({ "current": FIRST, "next": SECOND });
    report(&rig, &demo, first.clone(), both.clone())
        .await
        .good();
    let config = pull(&rig, &demo, None).await.good();
    let gitops = json!({ "tool": "flux", "keyType": "ed25519", "rotation": 1, "keys": both, "registered": false });
    assert_eq!(config["gitops"], gitops);
    let outdated = report(&rig, &demo, first.clone(), json!({ "current": SECOND })).await;
    assert_eq!(
        outdated.good(),
        json!({ "keys": both }),
        "nothing is replaced"
    );

    let shown = rig.get(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(shown["gitRepo"]["deployKey"], FIRST);
    assert_eq!(
        shown["gitRepo"]["deployKeys"]["steward-next"]["key"],
        SECOND
    );
    let fewer = json!({ "gitRepo": { "deployKeys": { "ci": null, "steward-next": null } } });
    rig.call(&admin(), Method::PATCH, "/clusters/c-demo", fewer)
        .await
        .good();
    let shown = rig.get(&admin(), "/clusters/c-demo").await.good();
    let keys = shown["gitRepo"]["deployKeys"].as_object().unwrap();
    assert_eq!(
        keys.keys().collect::<Vec<_>>(),
        ["steward-next"],
        "the agent manages it"
    );

    let invalid = report(&rig, &demo, both.clone(), json!({ "current": "nonsense" })).await;
    assert_eq!(invalid.code(), Code::Invalid);
    let anonymous = report(&rig, &AgentPeer::Anonymous, both, json!({})).await;
    assert_eq!(anonymous.code(), Code::EnrolOnly);
}

/// The document of the cluster with another repository.
async fn repo_of(rig: &Rig, repo: Value) -> Value {
    let mut document = rig.get(&admin(), "/clusters/c-demo").await.good();
    document["gitRepo"] = repo["gitRepo"].clone();
    document
}
