//! Git repositories, with a scripted Git server plugged in.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::resources::{DeployKey, GeneratedKey};
use fairlead_control::repositories::{
    DesiredFile, DesiredRepo, GitServer, GitServerError, GitServers, KnownRepo, RepoSecrets,
    ReportedAccessToken, ReportedRepo, RetiredRepo,
};
use fairlead_runtime::Process;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

use crate::rig::{Rig, admin};

mod contents;
mod credentials;
mod generated_keys;
mod host_keys;
mod lifecycle;
mod pipeline;

/// Serves repositories at `git.example`, and those with a path but no URL yet.
#[derive(Default)]
struct Server {
    said: Mutex<ScriptedServer>,
    asked: Notify,
}

#[derive(Default)]
struct ScriptedServer {
    /// Scripted answers by owner; all others succeed.
    of: BTreeMap<String, GitServerError>,
    /// All requests received.
    asked: Vec<DesiredRepo>,
    /// Knowledge of the hub at each of them.
    known: Vec<KnownRepo>,
    /// Opened secrets of each of them.
    secrets: Vec<RepoSecrets>,
    retired: Vec<RetiredRepo>,
    /// Corrections that each answer reports.
    corrected: Vec<String>,
    is_silent: bool,
    panics: bool,
    /// Host keys of its SSH server.
    scanned: Option<String>,
    /// True if answers have no host keys.
    gives_no_keys: bool,
}

impl Server {
    fn said(&self) -> MutexGuard<'_, ScriptedServer> {
        self.said.lock().unwrap()
    }

    fn says(&self, owner: &str, trouble: Option<GitServerError>) {
        let of = &mut self.said().of;
        match trouble {
            Some(trouble) => of.insert(owner.to_owned(), trouble),
            None => of.remove(owner),
        };
    }

    fn times_asked(&self, owner: &str) -> usize {
        let said = self.said();
        let of = said.asked.iter();
        of.filter(|it| it.owner.to_string() == owner).count()
    }
}

#[async_trait]
impl GitServer for Server {
    fn name(&self) -> &str {
        "git.example"
    }

    fn url_of(&self, wanted: &DesiredRepo) -> Option<String> {
        let place = || {
            Some(format!(
                "{}/{}",
                wanted.path.as_ref()?,
                wanted.name.as_ref()?
            ))
        };
        match &wanted.url {
            Some(url) => self.canonical_url(url),
            None => Some(format!("ssh://git@git.example/{}.git", place()?)),
        }
    }

    fn canonical_url(&self, url: &str) -> Option<String> {
        let path = url
            .split_once("@git.example")?
            .1
            .trim_start_matches([':', '/']);
        Some(format!("ssh://git@git.example/{path}"))
    }

    async fn scan_host_keys(&self) -> Result<String, GitServerError> {
        let keys = self.said().scanned.clone();
        keys.ok_or_else(|| GitServerError::Unavailable("no route to git.example".to_owned()))
    }

    async fn retire(
        &self,
        retired: &RetiredRepo,
        secrets: &RepoSecrets,
    ) -> Result<(), GitServerError> {
        let refusal = {
            let mut said = self.said();
            said.secrets.push(secrets.clone());
            said.retired.push(retired.clone());
            said.of.get(&retired.owner.to_string()).cloned()
        };
        self.asked.notify_waiters();
        refusal.map_or(Ok(()), Err)
    }

    async fn ensure(
        &self,
        wanted: &DesiredRepo,
        known: &KnownRepo,
        secrets: &RepoSecrets,
    ) -> Result<ReportedRepo, GitServerError> {
        let (corrected, gives_no_keys) = {
            let said = self.said();
            (said.corrected.clone(), said.gives_no_keys)
        };
        let (said, is_silent, panics) = {
            let mut said = self.said();
            said.asked.push(wanted.clone());
            said.known.push(known.clone());
            said.secrets.push(secrets.clone());
            let of = said.of.get(&wanted.owner.to_string()).cloned();
            (of, said.is_silent, said.panics)
        };
        self.asked.notify_waiters();
        assert!(!panics, "a bug of this server's");
        if is_silent {
            std::future::pending::<()>().await;
        }
        if let Some(trouble) = said {
            return Err(trouble);
        }
        let path = wanted.path.as_deref().unwrap_or("group");
        let name = wanted.name.as_deref().unwrap_or("name");
        let url = wanted.url.clone();
        Ok(ReportedRepo {
            url: url.unwrap_or_else(|| format!("ssh://git@git.example/{path}/{name}.git")),
            host_keys: (!gives_no_keys).then(|| HOST_KEY.to_owned()),
            deploy_keys: wanted.deploy_keys.keys().cloned().collect(),
            generated_keys: generated(&wanted.deploy_keys),
            files: written(&wanted.files),
            ci_variables: wanted.ci_variables.keys().cloned().collect(),
            access_token: (wanted.access_token.as_ref()).map(|_| ReportedAccessToken::Valid {
                id: "7".to_owned(),
                expires: "2027-01-01".to_owned(),
            }),
            corrected,
            unmet: Vec::new(),
        })
    }
}

/// Public halves of generated keys.
fn generated(keys: &BTreeMap<String, DeployKey>) -> BTreeMap<String, GeneratedKey> {
    let public = GeneratedKey {
        key: "ssh-ed25519 AAAA".to_owned(),
        fingerprint: "SHA256:x".to_owned(),
    };
    let keys = keys.iter().filter(|(_, key)| key.generate);
    keys.map(|(name, _)| (name.clone(), public.clone()))
        .collect()
}

/// Ids of declared files: their contents.
fn written(files: &BTreeMap<String, DesiredFile>) -> BTreeMap<String, String> {
    let files = files.iter().filter_map(|(path, file)| match file {
        DesiredFile::Declared(content) => Some((path.clone(), content.clone())),
        _ => None,
    });
    files.collect()
}

/// A running hub with that server.
struct World {
    rig: Rig,
    server: Arc<Server>,
    /// Number of polls of the module's task.
    turns: Arc<AtomicUsize>,
}

impl World {
    async fn new() -> World {
        let server = Arc::new(Server::default());
        let plugged = Arc::clone(&server);
        let rig = Rig::with(|config| config.git_servers = GitServers::new(vec![plugged])).await;
        let process = Process::new();
        let modules = rig.control.seam().modules;
        let module = modules.into_iter().find(|it| it.name() == "repositories");
        let module = module.unwrap();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        tokio::spawn(async move {
            let mut run = pin!(module.run(process));
            poll_fn(|turn| {
                counted.fetch_add(1, Ordering::Relaxed);
                run.as_mut().poll(turn)
            })
            .await;
        });
        World { rig, server, turns }
    }

    async fn state(&self, path: &str) -> Value {
        let shown = self.rig.get(&admin(), path).await.good();
        shown["gitRepo"]["state"].clone()
    }

    /// Waits until the repository has this phase and reason; any change wakes it.
    async fn becomes(&self, path: &str, phase: &str, reason: Value) -> Value {
        let mut revisions = self.rig.control.revision();
        let come = async {
            loop {
                revisions.mark_unchanged();
                let state = self.state(path).await;
                if state["phase"] == phase && state["reason"] == reason {
                    return state;
                }
                revisions.changed().await.unwrap();
            }
        };
        match timeout(Duration::from_secs(60), come).await {
            Ok(state) => state,
            Err(_) => panic!(
                "{path}: {phase}, {reason} expected, {}",
                self.state(path).await
            ),
        }
    }

    async fn patch(&self, path: &str, patch: Value) {
        let answer = self.rig.call(&admin(), Method::PATCH, path, patch).await;
        answer.good();
    }

    async fn make(&self, id: &str, repo: Value) {
        let body = json!({ "id": id, "tenant": "t-default", "gitRepo": repo });
        self.rig.post(&admin(), "/clusters", body).await.good();
    }

    /// Runs `change` and waits for the next request for this owner.
    async fn asked_after(&self, owner: &str, change: impl Future<Output = ()>) {
        let before = self.server.times_asked(owner);
        change.await;
        let asked = async {
            loop {
                let asked = self.server.asked.notified();
                if self.server.times_asked(owner) > before {
                    return;
                }
                asked.await;
            }
        };
        timeout(Duration::from_secs(60), asked).await.unwrap();
    }

    /// Advances the clock repeatedly until the next request for this owner: it may not be scheduled
    /// yet.
    async fn later_asked(&self, owner: &str, by: Duration) {
        let before = self.server.times_asked(owner);
        while self.server.times_asked(owner) == before {
            let asked = self.server.asked.notified();
            later(by).await;
            // No request yet; it was too early.
            let _ = timeout(Duration::from_millis(100), asked).await;
        }
    }
}

async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

const HOST_KEY: &str = "git.example ssh-ed25519 AAAA\n";
const URL: &str = "ssh://git@git.example/clusters/one.git";

fn refused(reason: &str) -> Option<GitServerError> {
    Some(GitServerError::Rejected(reason.to_owned()))
}

#[tokio::test]
async fn a_changed_desired_state_resets_the_repository_to_unknown() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    let state = world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    assert!(state["since"].is_string(), "{state}");
    let key = json!({ "gitRepo": { "deployKey": "ssh-ed25519 AAAA" } });
    world
        .server
        .says("c-one", refused("a key that nobody can use"));
    world.patch("/clusters/c-one", key).await;
    let at_once = world.state("/clusters/c-one").await;
    assert_ne!(
        at_once["phase"], "created",
        "with another key it is another"
    );
    let reason = json!("a key that nobody can use");
    world.becomes("/clusters/c-one", "failed", reason).await;
    let asked = world.server.said().asked.last().cloned().unwrap();
    assert_eq!(asked.deploy_keys["steward"].key, "ssh-ed25519 AAAA");
    let page = world.rig.get(&admin(), "/v1/audit?cluster=c-one").await;
    assert!(page.text.contains("a key that nobody can use"), "{page:?}");
}

#[tokio::test]
async fn a_failed_repository_is_retried_until_created() {
    let world = World::new().await;
    world.server.says("c-one", refused("no such group"));
    world.make("one", json!({ "url": URL })).await;
    let reason = json!("no such group");
    world.becomes("/clusters/c-one", "failed", reason).await;
    world.server.says("c-one", None);
    world.later_asked("c-one", Duration::from_secs(10)).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
}

#[tokio::test]
async fn an_unavailable_server_keeps_the_phase_and_a_silent_one_is_reported() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let away = GitServerError::Unavailable("no route to git.example".to_owned());
    world.server.says("c-one", Some(away.clone()));
    world.server.says("c-two", Some(away));
    world.later_asked("c-one", Duration::from_secs(3600)).await;
    world.make("two", json!({ "url": URL })).await;
    let reason = json!("no route to git.example");
    world.becomes("/clusters/c-two", "unknown", reason).await;
    assert_eq!(world.state("/clusters/c-one").await["phase"], "created");

    world.server.said().is_silent = true;
    let asked = world.server.asked.notified();
    world.make("three", json!({ "url": URL })).await;
    timeout(Duration::from_secs(60), asked).await.unwrap();
    later(Duration::from_secs(60)).await;
    let reason = json!("git.example did not answer within 60 s");
    world.becomes("/clusters/c-three", "unknown", reason).await;
}

#[tokio::test]
async fn a_change_during_a_call_waits_without_busy_polling() {
    let world = World::new().await;
    world.server.said().is_silent = true;
    let make = world.make("one", json!({ "url": URL }));
    world.asked_after("c-one", make).await;
    let key = json!({ "gitRepo": { "deployKey": "ssh-ed25519 AAAA" } });
    world.patch("/clusters/c-one", key).await;
    // The second repository is processed after the first one's change.
    let make = world.make("two", json!({ "url": URL }));
    world.asked_after("c-two", make).await;
    let before = world.turns.load(Ordering::Relaxed);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let turns = world.turns.load(Ordering::Relaxed) - before;
    assert!(turns < 10, "{turns} turns, while all wait for the server");
    assert_eq!(world.server.times_asked("c-one"), 1);

    world.server.said().is_silent = false;
    world
        .asked_after("c-one", later(Duration::from_secs(60)))
        .await;
    let asked = world.server.said().asked.last().cloned().unwrap();
    assert_eq!(asked.deploy_keys["steward"].key, "ssh-ed25519 AAAA");
}

#[tokio::test]
async fn a_panicking_server_is_retried() {
    let world = World::new().await;
    world.server.said().panics = true;
    world.make("one", json!({ "url": URL })).await;
    let reason = json!("the client of git.example panicked; see the hub's log");
    world.becomes("/clusters/c-one", "unknown", reason).await;
    world.server.said().panics = false;
    world.later_asked("c-one", Duration::from_secs(10)).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
}

#[tokio::test]
async fn the_servers_answer_fills_empty_fields() {
    let world = World::new().await;
    let template = json!({ "clusterTemplate": { "gitRepo": { "path": "clusters" } } });
    world.patch("/tenants/t-default", template).await;
    world.make("one", json!({ "repoName": "catalog" })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let repo = world.rig.get(&admin(), "/clusters/c-one").await.good()["gitRepo"].clone();
    assert_eq!(repo["url"], "ssh://git@git.example/clusters/catalog.git");
    assert_eq!(repo["hostKeys"], "git.example ssh-ed25519 AAAA\n");
    let asked = world.server.times_asked("c-one");
    world
        .patch("/clusters/c-one", json!({ "facts": { "a": "b" } }))
        .await;
    // The second repository is created later, so that change is fully processed.
    world.make("two", json!({ "repoName": "other" })).await;
    world
        .becomes("/clusters/c-two", "created", Value::Null)
        .await;
    assert_eq!(
        world.server.times_asked("c-one"),
        asked,
        "nothing else is wanted"
    );
    let template = json!({ "clusterTemplate": { "creationPolicy": "Adopt" } });
    world.patch("/tenants/t-default", template).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    assert!(
        world.server.times_asked("c-one") > asked,
        "its template has changed"
    );
}

#[tokio::test]
async fn unmanaged_and_unserved_repositories_cause_no_call() {
    let world = World::new().await;
    let tenant = |id: &str, repo: Value| json!({ "id": id, "gitRepo": repo });
    for body in [
        tenant(
            "own",
            json!({ "url": "ssh://git@git.example/tenants/own.git" }),
        ),
        tenant("free", json!({ "url": URL, "type": "unmanaged" })),
        tenant(
            "far",
            json!({ "url": "ssh://git@elsewhere.example/a/b.git" }),
        ),
    ] {
        world.rig.post(&admin(), "/tenants", body).await.good();
    }
    world
        .becomes("/tenants/t-own", "created", Value::Null)
        .await;
    let reason = json!("the repository is unmanaged");
    world.becomes("/tenants/t-free", "unknown", reason).await;
    let reason = json!("no Git server of this hub serves this URL");
    world.becomes("/tenants/t-far", "unknown", reason).await;
    assert_eq!(world.server.times_asked("t-own"), 1);
    let others = ["t-free", "t-far"].map(|it| world.server.times_asked(it));
    assert_eq!(others, [0, 0]);
}

#[tokio::test]
async fn without_git_servers_repositories_are_plain_data() {
    let rig = Rig::new().await;
    let body = json!({ "id": "one", "tenant": "t-default", "gitRepo": { "url": URL } });
    rig.post(&admin(), "/clusters", body).await.good();
    let shown = rig.get(&admin(), "/clusters/c-one").await.good();
    let state =
        json!({ "phase": "unknown", "reason": "no Git server of this hub serves this URL" });
    assert_eq!(shown["gitRepo"]["state"], state);
    rig.cluster("bare", "t-default").await;
    let shown = rig.get(&admin(), "/clusters/c-bare").await.good();
    assert_eq!(shown["gitRepo"], json!({}), "no repository, no state");
}
