use fairlead_api::{Code, gitops::GitOpsTool};
use serde_json::json;

use super::*;
use crate::testing::{ARGOCD_HOSTS as HOSTS, ARGOCD_SECRET, Fake, KEYRING as RING, SECRET, SOURCE};

/// Runs a worker until its status matches.
async fn until(fake: &Fake, matches: impl Fn(&GitOpsStatus) -> bool) -> GitOpsStatus {
    let (worker, mut status) = fake.worker();
    let wait = async {
        let found = status.wait_for(|status| status.as_ref().is_some_and(&matches));
        found.await.unwrap().clone().unwrap()
    };
    tokio::select! {
        () = worker.run() => panic!("the worker has ended"),
        found = wait => found,
        () = tokio::time::sleep(Duration::from_secs(3600)) => panic!("no such status in an hour"),
    }
}

fn is_settled(status: &GitOpsStatus) -> bool {
    status.phase == Phase::Settled
}

fn code(status: &GitOpsStatus) -> Option<Code> {
    status.problem().map(Problem::code)
}

fn rotate(fake: &Fake) {
    fake.configure(|config| config.gitops.rotation += 1);
}

#[tokio::test]
async fn key_is_made_and_registered_and_its_private_half_stays() {
    let fake = Fake::start().await;
    let status = until(&fake, is_settled).await;
    let (secret, record, sent) = fake.world(|world| {
        let secret = world.objects[SECRET].clone();
        (secret, world.record.clone(), world.sent_to_hub.concat())
    });
    let key = record.current.unwrap();
    assert_eq!(status.key, fingerprint(&key));
    assert_eq!(
        secret["metadata"]["annotations"]["fairlead/public-key"],
        key
    );
    let hosts = "Z2l0LmV4YW1wbGUgc3NoLWVkMjU1MTkgQUFBQQo=";
    assert_eq!(secret["data"]["known_hosts"], hosts);
    let private = secret["data"]["identity"].as_str().unwrap();
    assert!(private.len() > 300 && !sent.contains(private), "{sent}");
    assert!(!sent.contains("PRIVATE"), "{sent}");
}

#[tokio::test]
async fn secret_of_someone_else_is_left_alone() {
    let fake = Fake::start().await;
    let foreign = json!({ "metadata": { "resourceVersion": "1" }, "data": { "identity": "eA==" } });
    fake.world(|world| world.objects.insert(SECRET.to_owned(), foreign.clone()));
    let status = until(&fake, |status| status.phase == Phase::Stopped).await;
    assert_eq!(code(&status), Some(Code::GitOpsForeignSecret));
    fake.world(|world| {
        assert_eq!(world.objects[SECRET], foreign);
        assert!(world.requests.iter().all(|it| it.starts_with("GET ")));
    });
}

#[tokio::test]
async fn corrected_host_keys_reach_the_tool() {
    let fake = Fake::start().await;
    until(&fake, is_settled).await;
    let key = fake.world(|world| world.key());
    fake.configure(|config| config.repository.as_mut().unwrap().host_keys = None);
    let status = until(&fake, is_settled).await;
    assert_eq!(code(&status), Some(Code::GitOpsRepositoryUnusable));
    fake.world(|world| {
        assert_eq!(world.objects[SECRET]["data"]["known_hosts"], "");
        assert_eq!(world.key(), key);
    });
}

#[tokio::test]
async fn rotation_proves_the_next_key_before_the_old_one_goes() {
    let fake = Fake::start().await;
    fake.put_source();
    let first = until(&fake, is_settled).await;
    rotate(&fake);
    let second = until(&fake, is_settled).await;
    assert_ne!(first.key, second.key);
    fake.world(|world| {
        assert_eq!(world.refused_syncs, 0);
        assert!(!world.objects.contains_key(RING), "the rotation has ended");
        assert_eq!(world.record.next, None);
        assert_eq!(world.record.current, world.key());
        let proven = world
            .requests
            .iter()
            .rposition(|it| *it == format!("PUT {SOURCE}"));
        let withdrawn = world.requests.iter().rposition(|it| it == "hub");
        assert!(proven < withdrawn, "{:?}", world.requests);
    });
}

#[tokio::test]
async fn other_type_rotates_the_key() {
    let fake = Fake::start().await;
    until(&fake, is_settled).await;
    fake.configure(|config| config.gitops.key_type = SshKeyType::Rsa);
    until(&fake, is_settled).await;
    let key = fake.world(|world| world.key().unwrap());
    assert!(key.starts_with("ssh-rsa "), "{key}");
}

#[tokio::test]
async fn unmanaged_repository_waits_for_an_operator() {
    let fake = Fake::start().await;
    let first = until(&fake, is_settled).await;
    fake.world(|world| world.git_follows = false);
    rotate(&fake);
    let waiting = until(&fake, |status| status.phase == Phase::Registering).await;
    assert_eq!(code(&waiting), Some(Code::GitOpsKeyNotRegistered));
    assert_eq!(waiting.key, first.key, "the old key is in use");
    let next = waiting.next_key.clone().unwrap();
    fake.configure(|config| config.gitops.confirmed_key = Some(next.clone()));
    let settled = until(&fake, is_settled).await;
    assert_eq!(settled.key, Some(next));
}

#[tokio::test]
async fn failed_sync_gives_the_old_key_back_until_the_next_request() {
    let fake = Fake::start().await;
    fake.put_source();
    let first = until(&fake, is_settled).await;
    fake.world(|world| world.fails_with = Some("no such\nbranch".to_owned()));
    rotate(&fake);
    let failed = |status: &GitOpsStatus| code(status) == Some(Code::GitOpsRotationFailed);
    let second = until(&fake, failed).await;
    assert_eq!(second.key, first.key);
    assert!(
        second
            .problem()
            .unwrap()
            .to_string()
            .ends_with("no such branch")
    );
    fake.world(|world| {
        assert_eq!(world.record.next, None);
        world.fails_with = None;
    });
    rotate(&fake);
    let third = until(&fake, |status| is_settled(status) && code(status).is_none()).await;
    assert_ne!(third.key, first.key);
}

/// Cuts the agent off after each number of writes, restarts it, and lets it end the rotation.
#[tokio::test]
async fn killed_agent_ends_the_rotation_without_a_refused_sync() {
    for writes in 0.. {
        let fake = Fake::start().await;
        fake.put_source();
        let first = until(&fake, is_settled).await;
        rotate(&fake);
        fake.world(|world| world.writes_left = writes);
        let cut = |status: &GitOpsStatus| {
            code(status) == Some(Code::GitOpsUnreachable) || is_settled(status)
        };
        until(&fake, cut).await;
        let is_whole = fake.world(|world| {
            let key = world.key().unwrap();
            assert!(
                world.git_accepts(&key),
                "{writes} writes: {key} is not registered"
            );
            std::mem::replace(&mut world.writes_left, usize::MAX) > 0
        });
        let second = until(&fake, is_settled).await;
        assert_ne!(second.key, first.key, "{writes} writes");
        fake.world(|world| {
            assert_eq!(world.refused_syncs, 0, "{writes} writes");
            assert!(!world.objects.contains_key(RING));
            assert_eq!(world.record.current, world.key());
        });
        if is_whole {
            assert!(writes >= 6, "a rotation has at least six writes");
            return;
        }
    }
}

#[tokio::test]
async fn argocd_gets_a_repository_secret_and_the_host_keys_of_this_repository() {
    let fake = Fake::start().await;
    fake.use_argocd();
    let first = until(&fake, is_settled).await;
    fake.world(|world| {
        let secret = &world.objects[ARGOCD_SECRET];
        let label = &secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"];
        assert_eq!(label, "repository");
        assert_eq!(secret["data"]["type"], "Z2l0");
        let url = "c3NoOi8vZ2l0QGdpdC5leGFtcGxlL2EvYi5naXQ=";
        assert_eq!(secret["data"]["url"], url);
        let hosts = &world.objects[HOSTS]["data"]["ssh_known_hosts"];
        let expected = "github.com ssh-rsa A\ngit.example ssh-ed25519 AAAA\n";
        assert_eq!(hosts, expected, "lines of other hosts stay");
    });
    rotate(&fake);
    let second = until(&fake, is_settled).await;
    assert_ne!(first.key, second.key);
    fake.world(|world| assert_eq!(world.record.current, world.key()));

    let other = "ssh://git@git.example/a/c.git";
    fake.configure(|config| other.clone_into(&mut config.repository.as_mut().unwrap().url));
    until(&fake, is_settled).await;
    fake.world(|world| {
        let url = "c3NoOi8vZ2l0QGdpdC5leGFtcGxlL2EvYy5naXQ=";
        assert_eq!(world.objects[ARGOCD_SECRET]["data"]["url"], url);
    });
}

#[tokio::test]
async fn argocd_without_its_config_map_is_absent() {
    let fake = Fake::start().await;
    fake.use_argocd();
    fake.world(|world| world.objects.remove(HOSTS));
    let status = until(&fake, |status| status.phase == Phase::Stopped).await;
    assert_eq!(code(&status), Some(Code::GitOpsToolAbsent));
}

#[tokio::test]
async fn missing_right_is_named_with_its_path() {
    let fake = Fake::start().await;
    fake.world(|world| {
        world.writes_left = 0;
        world.status_of_writes = 403;
    });
    let status = until(&fake, |status| status.phase == Phase::Stopped).await;
    assert_eq!(code(&status), Some(Code::GitOpsForbidden));
    let cause = status.problem().unwrap().to_string();
    assert_eq!(
        cause,
        "the agent may not create /api/v1/namespaces/flux-system/secrets"
    );
    fake.world(|world| world.status_of_writes = 404);
    let status = until(&fake, |status| status.phase == Phase::Stopped).await;
    assert_eq!(code(&status), Some(Code::GitOpsToolAbsent));
}

#[tokio::test]
async fn nothing_is_requested_without_a_tool() {
    let fake = Fake::start().await;
    fake.configure(|config| config.gitops.tool = GitOpsTool::None);
    let (worker, mut status) = fake.worker();
    let started = tokio::spawn(worker.run());
    assert!(status.borrow_and_update().is_none());
    fake.configure(|config| config.gitops.tool = GitOpsTool::Flux);
    status.wait_for(Option::is_some).await.unwrap();
    fake.world(|world| world.requests.clear());
    fake.configure(|config| config.gitops.tool = GitOpsTool::None);
    status.wait_for(Option::is_none).await.unwrap();
    started.abort();
}

const EVENTS: &str = "/api/v1/namespaces/flux-system/events";
const REPAIRS: &str = "/api/v1/namespaces/fairlead-delivery/secrets/gitops-repairs";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Waits for a status of a worker that runs already.
async fn next(
    status: &mut watch::Receiver<Option<GitOpsStatus>>,
    matches: impl Fn(&GitOpsStatus) -> bool,
) -> GitOpsStatus {
    let found = status.wait_for(|status| status.as_ref().is_some_and(&matches));
    found.await.unwrap().clone().unwrap()
}

/// Begins the next round of a running worker.
fn wake(fake: &Fake) {
    fake.configure(|_| ());
}

#[tokio::test]
async fn replaced_host_keys_are_repaired_with_one_event() {
    let fake = Fake::start().await;
    let (worker, mut status) = fake.worker();
    let worker = tokio::spawn(worker.run());
    next(&mut status, is_settled).await;
    fake.world(|world| {
        assert!(!world.requests.contains(&format!("POST {EVENTS}")));
        world.change(SECRET, |secret| {
            secret["data"]["known_hosts"] = json!("ZXZpbA==")
        });
    });
    wake(&fake);
    let repaired = next(&mut status, |status| !status.repairs.is_empty()).await;
    assert_eq!(repaired.repairs[0].object, "Secret flux-system/flux-system");
    fake.world(|world| {
        let hosts = "Z2l0LmV4YW1wbGUgc3NoLWVkMjU1MTkgQUFBQQo=";
        assert_eq!(world.objects[SECRET]["data"]["known_hosts"], hosts);
        let events = world
            .requests
            .iter()
            .filter(|it| **it == format!("POST {EVENTS}"));
        assert_eq!(events.count(), 1);
    });
    // Other host keys of the registry are no repair.
    fake.configure(|config| config.repository.as_mut().unwrap().host_keys = None);
    let has_none = |status: &GitOpsStatus| code(status) == Some(Code::GitOpsRepositoryUnusable);
    next(&mut status, has_none).await;
    fake.world(|world| {
        let events = world
            .requests
            .iter()
            .filter(|it| **it == format!("POST {EVENTS}"));
        assert_eq!(events.count(), 1);
        assert!(world.objects.contains_key(REPAIRS));
    });
    worker.abort();
}

#[tokio::test]
async fn paused_namespace_keeps_other_host_keys() {
    let fake = Fake::start().await;
    let (worker, mut status) = fake.worker();
    let worker = tokio::spawn(worker.run());
    next(&mut status, is_settled).await;
    let paused = json!({ "metadata": { "annotations": { "fairlead/paused": "true" } } });
    fake.world(|world| {
        world
            .objects
            .insert(NAMESPACES.to_owned(), json!({ "items": [paused] }));
        world.change(SECRET, |secret| {
            secret["data"]["known_hosts"] = json!("ZXZpbA==")
        });
    });
    wake(&fake);
    let is_paused = |status: &GitOpsStatus| code(status) == Some(Code::GitOpsRepairPaused);
    next(&mut status, is_paused).await;
    fake.world(|world| {
        assert_eq!(world.objects[SECRET]["data"]["known_hosts"], "ZXZpbA==");
        world.objects.remove(NAMESPACES);
    });
    wake(&fake);
    next(&mut status, |status| code(status).is_none()).await;
    fake.world(|world| assert_ne!(world.objects[SECRET]["data"]["known_hosts"], "ZXZpbA=="));
    worker.abort();
}

#[tokio::test]
async fn unavailable_workload_and_missing_definition_are_in_the_fact() {
    let fake = Fake::start().await;
    let workload =
        json!({ "metadata": { "name": "source-controller" }, "spec": { "replicas": 1 } });
    fake.world(|world| {
        let path = "/apis/apps/v1/namespaces/flux-system/deployments";
        world
            .objects
            .insert(path.to_owned(), json!({ "items": [workload] }));
    });
    let status = until(&fake, |status| status.health.is_some()).await;
    let fact = status.to_fact()["health"].clone();
    assert_eq!(fact["ready"], false);
    let codes: Vec<_> = fact["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].clone())
        .collect();
    assert_eq!(codes, ["FL-6812", "FL-6813", "FL-6813"]);
}
