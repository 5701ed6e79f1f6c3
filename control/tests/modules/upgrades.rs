//! Upgrades of agents: start, waves, reports of agents, states, rights.

use fairlead_api::{
    Code,
    config::CONFIG_PATH,
    resources::{ClusterState, ClusterStatus, Role},
    upgrade::UPGRADE_PATH,
};
use fairlead_runtime::Process;
use fairlead_seam::AgentPeer;
use fairlead_testkit::wait;
use http::{Method, Request};
use serde_json::{Value, json};
use time::Duration;
use tokio::task::JoinHandle;

use crate::rig::{Reply, Rig, START, admin, caller, peer};

const ALL: &str = "/v1/agent-upgrades";

struct World {
    rig: Rig,
    agents: Vec<(String, AgentPeer)>,
    driver: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl World {
    /// Connected clusters `c-0`, `c-1` and so on of the tenant `t-a`; the background work of the module runs.
    async fn new(count: usize) -> Self {
        let rig = Rig::new().await;
        rig.tenant("a").await;
        let mut agents = Vec::new();
        for number in 0..count {
            let join = rig.cluster(&number.to_string(), "t-a").await;
            let agent = peer(&rig.enrolled(&join).await.1);
            let id = format!("c-{number}");
            set_state(&rig, &id, ClusterState::Connected).await;
            agents.push((id, agent));
        }
        let modules = rig.control.seam().modules;
        let module = modules.into_iter().find(|it| it.name() == "upgrades");
        let module = module.unwrap();
        let driver = tokio::spawn(async move { module.run(Process::new()).await });
        World {
            rig,
            agents,
            driver,
        }
    }

    async fn start(&self, body: Value) -> String {
        let started = self.rig.post(&admin(), ALL, body).await.good();
        started["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, id: &str) -> Value {
        self.rig.get(&admin(), &format!("{ALL}/{id}")).await.good()
    }

    /// States of the clusters, in the order of the waves.
    async fn states(&self, id: &str) -> Vec<String> {
        let upgrade = self.get(id).await;
        let clusters = upgrade["clusters"].as_array().unwrap().iter();
        clusters
            .map(|it| it["state"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn until_states(&self, id: &str, states: &[&str]) {
        wait::until(async || self.states(id).await == states).await;
    }

    async fn until_state(&self, id: &str, state: &str) {
        wait::until(async || self.get(id).await["state"] == state).await;
    }

    fn agent(&self, cluster: &str) -> &AgentPeer {
        let mut agents = self.agents.iter();
        &agents.find(|(id, _)| id == cluster).unwrap().1
    }

    /// Upgrade in the configuration of a cluster's agent.
    async fn desired(&self, cluster: &str) -> Value {
        let request = Request::get(CONFIG_PATH).body(String::new()).unwrap();
        let document = self.rig.agent(self.agent(cluster), request).await.good();
        document["upgrade"].clone()
    }

    async fn report(&self, cluster: &str, body: Value) -> Reply {
        let request = Request::post(UPGRADE_PATH).header("content-type", "application/json");
        let request = request.body(body.to_string()).unwrap();
        self.rig.agent(self.agent(cluster), request).await
    }
}

async fn set_state(rig: &Rig, id: &str, state: ClusterState) {
    let status = ClusterStatus {
        state,
        since: START,
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    let directory = rig.control.seam().directory;
    let id = id.parse().unwrap();
    directory.report(&id, status).await.unwrap();
}

fn of(clusters: &[&str]) -> Value {
    json!({ "version": "0.1.0", "clusters": clusters })
}

#[tokio::test]
async fn clusters_are_upgraded_wave_by_wave() {
    let world = World::new(3).await;
    let id = world.start(of(&["c-2", "c-0", "c-1"])).await;
    world
        .until_states(&id, &["Upgrading", "Waiting", "Waiting"])
        .await;
    let desired = world.desired("c-2").await;
    assert_eq!(
        desired,
        json!({
            "id": id, "version": "0.1.0", "image": "registry.example/fairlead:0.1.0", "timeoutSeconds": 300,
        })
    );
    assert_eq!(world.desired("c-0").await, Value::Null);
    for (cluster, states) in [
        ("c-2", ["Done", "Upgrading", "Waiting"]),
        ("c-0", ["Done", "Done", "Upgrading"]),
        ("c-1", ["Done", "Done", "Done"]),
    ] {
        let begun = json!({ "id": id, "state": "Upgrading" });
        world.report(cluster, begun).await.good();
        let done = json!({ "id": id, "state": "Done" });
        world.report(cluster, done).await.good();
        world.until_states(&id, &states).await;
        assert_eq!(world.desired(cluster).await, Value::Null, "it has a result");
    }
    world.until_state(&id, "Done").await;
    let list = world.rig.get(&admin(), ALL).await.good();
    assert_eq!(list["items"][0]["id"], json!(id));
}

#[tokio::test]
async fn first_failure_stops_and_the_others_stay_untouched() {
    let world = World::new(3).await;
    let id = world
        .start(json!({ "version": "0.1.0", "selector": "" }))
        .await;
    world
        .until_states(&id, &["Upgrading", "Waiting", "Waiting"])
        .await;
    let cause = "FL-1521: new: ImagePullBackOff\n\u{1b}[31m";
    let back = json!({ "id": id, "state": "RolledBack", "cause": cause });
    world.report("c-0", back).await.good();
    world.until_state(&id, "Stopped").await;
    let upgrade = world.get(&id).await;
    assert_eq!(upgrade["reason"], "failed: c-0");
    let shown = upgrade["clusters"][0]["cause"].as_str().unwrap();
    assert!(
        shown.starts_with("FL-1521: new: ImagePullBackOff"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no escapes of a terminal");
    assert_eq!(world.desired("c-1").await, Value::Null);
    let resume = format!("{ALL}/{id}/resume");
    let resumed = world.rig.post(&admin(), &resume, Value::Null).await;
    assert_eq!(resumed.code(), Code::UpgradeState);
    // The next one may have the same clusters.
    world.start(of(&["c-1"])).await;
}

#[tokio::test]
async fn cluster_without_a_report_fails_after_its_time() {
    let world = World::new(1).await;
    let id = world.start(of(&["c-0"])).await;
    world.until_states(&id, &["Upgrading"]).await;
    world.rig.advance(Duration::minutes(8));
    // A change of the store wakes the driver.
    world.rig.cluster("other", "t-a").await;
    world.until_states(&id, &["Failed"]).await;
    assert_eq!(world.desired("c-0").await, Value::Null, "too late");
    let done = json!({ "id": id, "state": "Done" });
    world.report("c-0", done).await.good();
    assert_eq!(world.states(&id).await, ["Failed"]);
}

#[tokio::test]
async fn disconnected_clusters_are_skipped_and_busy_ones_refused() {
    let world = World::new(2).await;
    set_state(&world.rig, "c-1", ClusterState::Lost).await;
    let id = world.start(of(&["c-0", "c-1"])).await;
    world.until_states(&id, &["Upgrading", "Skipped"]).await;
    let busy = world.rig.post(&admin(), ALL, of(&["c-0"])).await;
    assert_eq!(busy.code(), Code::UpgradeBusy);
    assert!(busy.text.contains(&id), "{}", busy.text);
    let of_skipped = world.start(of(&["c-1"])).await;
    assert_eq!(world.get(&of_skipped).await["state"], "Done");
}

#[tokio::test]
async fn paused_upgrade_begins_nothing_until_it_is_resumed() {
    let world = World::new(2).await;
    let id = world.start(of(&["c-0", "c-1"])).await;
    world.until_states(&id, &["Upgrading", "Waiting"]).await;
    let order = async |verb: &str| {
        let path = format!("{ALL}/{id}/{verb}");
        let reply = world.rig.post(&admin(), &path, Value::Null).await;
        reply.good()["state"].clone()
    };
    assert_eq!(order("pause").await, "Paused");
    let done = json!({ "id": id, "state": "Done" });
    world.report("c-0", done).await.good();
    world.until_states(&id, &["Done", "Waiting"]).await;
    assert_eq!(order("resume").await, "Running");
    world.until_states(&id, &["Done", "Upgrading"]).await;
    assert_eq!(order("cancel").await, "Cancelled");
    let refused = json!({ "id": id, "state": "Refused", "cause": "FL-1520: x" });
    world.report("c-1", refused).await.good();
    world.until_states(&id, &["Done", "Refused"]).await;
    assert_eq!(world.get(&id).await["state"], "Cancelled");
}

#[tokio::test]
async fn bad_requests_name_the_mistake() {
    let world = World::new(1).await;
    let one = ["c-0"];
    for (body, code) in [
        (
            json!({ "version": "0.1.1", "clusters": one }),
            Code::UpgradeVersion,
        ),
        (
            json!({ "version": "1.0.0", "clusters": one }),
            Code::UpgradeVersion,
        ),
        (
            json!({ "version": "latest", "clusters": one }),
            Code::Invalid,
        ),
        (json!({ "version": "0.1.0" }), Code::Invalid),
        (
            json!({ "version": "0.1.0", "clusters": one, "selector": "" }),
            Code::Invalid,
        ),
        (
            json!({ "version": "0.1.0", "selector": "a=b" }),
            Code::Invalid,
        ),
        (
            json!({ "version": "0.1.0", "clusters": one, "image": "a b" }),
            Code::Invalid,
        ),
        (
            json!({ "version": "0.1.0", "clusters": one, "timeoutSeconds": 1 }),
            Code::Invalid,
        ),
        (
            json!({ "version": "0.1.0", "clusters": one, "force": true }),
            Code::Invalid,
        ),
        (
            json!({ "version": "0.1.0", "clusters": ["c-none"] }),
            Code::NoSuchCluster,
        ),
    ] {
        let reply = world.rig.post(&admin(), ALL, body.clone()).await;
        assert_eq!(reply.code(), code, "{body}");
    }
    let missing = world.rig.get(&admin(), &format!("{ALL}/au-none")).await;
    assert_eq!(missing.code(), Code::NoSuchUpgrade);
    let hub_only = json!({ "id": "x", "state": "Skipped" });
    assert_eq!(world.report("c-0", hub_only).await.code(), Code::Invalid);
    let request = Request::post(UPGRADE_PATH).header("content-type", "application/json");
    let request = request.body(json!({ "id": "x", "state": "Done" }).to_string());
    let anonymous = world
        .rig
        .agent(&AgentPeer::Anonymous, request.unwrap())
        .await;
    assert_eq!(anonymous.code(), Code::EnrolOnly);
}

#[tokio::test]
async fn tenants_see_and_order_only_upgrades_of_their_clusters() {
    let world = World::new(1).await;
    world.rig.tenant("b").await;
    let join = world.rig.cluster("of-b", "t-b").await;
    world.rig.enrolled(&join).await;
    set_state(&world.rig, "c-of-b", ClusterState::Connected).await;
    let of_a = caller(Role::Tenant, Some("t-a"));
    let of_b = caller(Role::Tenant, Some("t-b"));
    let hidden = world.rig.post(&of_a, ALL, of(&["c-of-b"])).await;
    assert_eq!(hidden.code(), Code::NoSuchCluster);

    let own = world.rig.post(&of_a, ALL, of(&["c-0"])).await.good();
    let path = format!("{ALL}/{}", own["id"].as_str().unwrap());
    let other = world.rig.get(&of_b, &path).await;
    assert_eq!(other.code(), Code::NoSuchUpgrade);
    assert_eq!(world.rig.get(&of_b, ALL).await.good()["items"], json!([]));
    let viewer = caller(Role::Viewer, Some("t-a"));
    world.rig.get(&viewer, &path).await.good();
    let cancel = format!("{path}/cancel");
    let denied = world
        .rig
        .call(&viewer, Method::POST, &cancel, Value::Null)
        .await;
    assert_eq!(denied.code(), Code::NotAllowed);
    world.rig.post(&of_a, &cancel, Value::Null).await.good();

    // One of all tenants: each tenant sees its own cluster of it.
    let all = json!({ "version": "0.1.0", "selector": "", "maxFailed": 9 });
    let all = world.start(all).await;
    let part = world.rig.get(&of_b, &format!("{ALL}/{all}")).await.good();
    let clusters = part["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 1);
    assert_eq!(clusters[0]["cluster"], "c-of-b");
}
