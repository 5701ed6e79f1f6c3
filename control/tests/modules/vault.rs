//! Access of clusters to Vault, with a scripted Vault plugged in.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::{ClusterId, TenantId, facts::FACTS_PATH, resources::VaultNames};
use fairlead_runtime::Process;
use fairlead_vault::{
    DesiredAccess, KeysError, RetiredAccess, SecretAccess, SecretsEnd, VaultError,
};
use http::{Method, Request};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::rig::{Rig, admin, peer};

const RETIRED: &str = "/v1/retired-vault-access";
const ONE: &str = "/clusters/c-one";

/// Takes the keys as they are, and records all requests.
#[derive(Debug, Default)]
struct ScriptedVault {
    failure: Mutex<Option<VaultError>>,
    desired: Mutex<Vec<DesiredAccess>>,
    retired: Mutex<Vec<RetiredAccess>>,
}

#[async_trait]
impl SecretAccess for ScriptedVault {
    fn names(&self, tenant: &TenantId, cluster: &ClusterId) -> VaultNames {
        VaultNames {
            owner: format!("{cluster} of {tenant}"),
            mount: format!("fairlead-{tenant}-{cluster}"),
            policy: format!("fairlead-{tenant}-{cluster}"),
            kv: "clusters/kv".to_owned(),
            path: format!("{tenant}/{cluster}"),
        }
    }

    fn role(&self) -> &str {
        "cluster"
    }

    fn desired(
        &self,
        tenant: &TenantId,
        cluster: &ClusterId,
        keys: &Value,
    ) -> Result<DesiredAccess, KeysError> {
        let mut config = Map::new();
        config.insert("keys".to_owned(), keys.clone());
        Ok(DesiredAccess {
            method: "jwt",
            names: self.names(tenant, cluster),
            policy: String::new(),
            config,
            role: Map::new(),
        })
    }

    async fn ensure(&self, desired: &DesiredAccess) -> Result<Vec<String>, VaultError> {
        self.desired.lock().unwrap().push(desired.clone());
        self.result().map(|()| Vec::new())
    }

    async fn retire(&self, retired: &RetiredAccess) -> Result<(), VaultError> {
        self.result()?;
        self.retired.lock().unwrap().push(retired.clone());
        Ok(())
    }
}

impl ScriptedVault {
    fn set(&self, failure: Option<VaultError>) {
        *self.failure.lock().unwrap() = failure;
    }

    fn result(&self) -> Result<(), VaultError> {
        self.failure.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn retired(&self) -> Vec<(String, SecretsEnd)> {
        let retired = self.retired.lock().unwrap();
        let all = retired.iter();
        all.map(|it| (it.names.mount.clone(), it.secrets)).collect()
    }
}

/// A hub with that Vault, whose module runs.
struct World {
    rig: Rig,
    vault: Arc<ScriptedVault>,
}

impl World {
    async fn new() -> Self {
        let vault = Arc::new(ScriptedVault::default());
        let plugged = Arc::clone(&vault);
        let rig = Rig::with(|config| config.vault = Some(plugged)).await;
        let modules = rig.control.seam().modules;
        let module = modules.into_iter().find(|it| it.name() == "vault").unwrap();
        tokio::spawn(async move { module.run(Process::new()).await });
        World { rig, vault }
    }

    /// A new cluster whose agent reports these keys.
    async fn cluster(&self, keys: Value) {
        let join = self.rig.cluster("one", "t-default").await;
        let agent = peer(&self.rig.enrolled(&join).await.1);
        let facts = json!({ "serviceAccountKeys": { "value": keys, "observed": 1_000 } });
        let run = "00000000000000000000000000000001";
        let body = json!({ "instance": run, "sequence": 1, "intervalSeconds": 3600, "base": null, "facts": facts });
        let request = Request::post(FACTS_PATH).header("content-type", "application/json");
        let request = request.body(body.to_string()).unwrap();
        self.rig.agent(&agent, request).await.good();
    }

    async fn shown(&self) -> Value {
        self.rig.get(&admin(), ONE).await.good()["vault"].clone()
    }

    async fn retired(&self) -> Value {
        self.rig.get(&admin(), RETIRED).await.good()["items"].clone()
    }

    /// Waits for a state of the registry; any change wakes it.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let mut revisions = self.rig.control.revision();
        let held = async {
            loop {
                revisions.mark_unchanged();
                if holds().await {
                    return;
                }
                revisions.changed().await.unwrap();
            }
        };
        if timeout(Duration::from_secs(60), held).await.is_err() {
            panic!("{what}: {}, {}", self.shown().await, self.retired().await);
        }
    }

    async fn until_ready(&self) {
        let is_ready = async || self.shown().await["state"]["phase"] == "ready";
        self.until("a ready access", is_ready).await;
    }
}

fn keys(name: &str) -> Value {
    json!({ "issuer": "https://issuer", "keys": [{ "kid": name }] })
}

#[tokio::test]
async fn only_keys_of_the_own_agent_count() {
    let world = World::new().await;
    let body = json!({ "id": "one", "tenant": "t-default" });
    world.rig.post(&admin(), "/clusters", body).await.good();
    let forged = json!({ "dynamicFacts": { "serviceAccountKeys": keys("forged") } });
    let patched = world.rig.call(&admin(), Method::PATCH, ONE, forged).await;
    patched.good();
    let shown = world.shown().await;
    assert_eq!(shown["state"]["phase"], "waiting", "{shown}");
    assert_eq!(shown["mount"], "fairlead-t-default-c-one");
    let reason = shown["state"]["reason"].as_str().unwrap();
    assert!(reason.contains("has not reported the keys"), "{reason}");

    world.rig.delete(&admin(), ONE).await.good();
    world.cluster(keys("own")).await;
    world.until_ready().await;
    let desired = world.vault.desired.lock().unwrap();
    let asked: Vec<_> = desired.iter().map(|it| &it.config["keys"]).collect();
    assert!(asked.iter().all(|it| **it == keys("own")), "{asked:?}");
}

#[tokio::test]
async fn a_deleted_cluster_is_removed_before_its_successor_gets_access() {
    let world = World::new().await;
    world.cluster(keys("first")).await;
    world.until_ready().await;
    world.vault.set(Some(VaultError::Sealed));
    world.rig.delete(&admin(), ONE).await.good();
    let is_refused = async || {
        let reason = world.retired().await[0]["reason"].clone();
        reason
            .as_str()
            .is_some_and(|it| it.starts_with("FL-4150: "))
    };
    world.until("a reason", is_refused).await;
    let calls = world.vault.desired.lock().unwrap().len();
    world.cluster(keys("second")).await;
    assert_eq!(world.shown().await["state"]["phase"], "waiting");

    world.vault.set(None);
    world.until_ready().await;
    let mount = "fairlead-t-default-c-one".to_owned();
    assert_eq!(world.vault.retired(), [(mount, SecretsEnd::Delete)]);
    let desired = world.vault.desired.lock().unwrap();
    let later = desired.iter().skip(calls);
    assert!(later.clone().count() > 0);
    assert!(
        later
            .into_iter()
            .all(|it| it.config["keys"] == keys("second"))
    );
}

#[tokio::test]
async fn a_moved_cluster_leaves_no_access_behind_and_keeps_its_secrets() {
    let world = World::new().await;
    world.rig.tenant("t-b").await;
    world.cluster(keys("own")).await;
    world.until_ready().await;
    let moved = json!({ "tenant": "t-b" });
    let path = "/v1/clusters/c-one/tenant";
    world.rig.post(&admin(), path, moved).await.good();
    let has_moved = async || {
        let mount = world.shown().await["mount"].clone();
        mount == "fairlead-t-b-c-one" && !world.vault.retired().is_empty()
    };
    world.until("the end of the former access", has_moved).await;
    let mount = "fairlead-t-default-c-one".to_owned();
    assert_eq!(world.vault.retired(), [(mount, SecretsEnd::Keep)]);
    world.until_ready().await;
}

#[tokio::test]
async fn a_retired_access_can_be_kept() {
    let world = World::new().await;
    world.cluster(keys("own")).await;
    world.until_ready().await;
    world.vault.set(Some(VaultError::Sealed));
    world.rig.delete(&admin(), ONE).await.good();
    let id = world.retired().await[0]["id"].as_str().unwrap().to_owned();
    let kept = format!("{RETIRED}/{id}");
    let missing = format!("{RETIRED}/c-one.0");
    assert_eq!(world.rig.delete(&admin(), &missing).await.status, 404);
    world.rig.delete(&admin(), &kept).await.good();
    assert_eq!(world.retired().await, json!([]));
    assert_eq!(world.vault.retired(), []);
}
