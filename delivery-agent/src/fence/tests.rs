use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::testing::FakeApi;

const LOCK: &str = "/api/v1/namespaces/fairlead-delivery/secrets/run-b-shop";
const ACCOUNT: &str = "/api/v1/namespaces/fairlead-delivery/serviceaccounts/deployer";

async fn api() -> FakeApi {
    let api = FakeApi::start().await;
    for namespace in ["fairlead-delivery", "team"] {
        let path = format!("/api/v1/namespaces/{namespace}");
        api.put(&path, json!({"metadata": {"name": namespace}}));
    }
    api.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}));
    let team = "/api/v1/namespaces/team/serviceaccounts/ci";
    api.put(team, json!({"metadata": {"name": "ci"}}));
    api
}

fn fences(api: &FakeApi, process: ProcessIdentity) -> Fences {
    let waits = FenceWaits {
        unknown_process: Duration::from_millis(300),
        dead_process: Duration::from_millis(100),
        gone: Duration::from_secs(20),
    };
    Fences::new(api.client(), Arc::new(process)).with_waits(waits)
}

fn bundle(text: &str) -> BundleId {
    text.parse().unwrap()
}

async fn acquire(fences: &Fences, of: &str, account: &str) -> Result<RunFence, RunFailure> {
    let run = crate::run_ids::new_run_id(time::OffsetDateTime::now_utc());
    let attempt = FencedAttempt {
        bundle: &bundle(of),
        run: &run,
        attempt: 1,
    };
    fences
        .acquire(attempt, &AccountName::parse(account).unwrap())
        .await
}

#[tokio::test]
async fn token_of_a_run_ends_with_its_lock() {
    let api = api().await;
    let fences = fences(&api, ProcessIdentity::of_pod("a"));
    let fence = acquire(&fences, "b-shop", "deployer").await.unwrap();
    assert_eq!(api.get(LOCK).unwrap()["type"], "fairlead/run");
    assert!(fence.kube.get(ACCOUNT).await.unwrap().is_some());
    let kube = fence.kube.clone();
    fences.release(fence).await.unwrap();
    assert_eq!(api.get(LOCK), None);
    assert_eq!(kube.get(ACCOUNT).await.unwrap_err().status(), Some(401));
}

#[tokio::test]
async fn second_run_of_a_bundle_gets_no_lock() {
    let api = api().await;
    let fences = fences(&api, ProcessIdentity::of_pod("a"));
    let _first = acquire(&fences, "b-shop", "deployer").await.unwrap();
    let failure = acquire(&fences, "b-shop", "deployer").await.err().unwrap();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Waiting, Code::RunFenced)
    );
    assert!(acquire(&fences, "b-other", "deployer").await.is_ok());
}

#[tokio::test]
async fn takeover_waits_longer_if_the_process_may_live() {
    for (other, millis) in [("a", 100), ("b", 300)] {
        let api = api().await;
        let earlier = fences(&api, ProcessIdentity::of_pod(other));
        let _lost = acquire(&earlier, "b-shop", "deployer").await.unwrap();
        let own = fences(&api, ProcessIdentity::of_pod("a"));
        let start = Instant::now();
        own.take_over(&bundle("b-shop"), None, EarlierAttempts::default())
            .await
            .unwrap();
        assert!(start.elapsed() >= Duration::from_millis(millis));
        assert_eq!(api.get(LOCK), None);
        acquire(&own, "b-shop", "deployer").await.unwrap();
    }
}

#[tokio::test]
async fn takeover_waits_longer_while_a_program_may_live() {
    let api = api().await;
    let own = fences(&api, ProcessIdentity::of_pod("a"));
    let _lost = acquire(&own, "b-shop", "deployer").await.unwrap();
    let earlier = EarlierAttempts {
        may_live: true,
        ..EarlierAttempts::default()
    };
    let start = Instant::now();
    let taken = own.take_over(&bundle("b-shop"), None, earlier).await;
    taken.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300));
    // A released lock tells nothing about a program.
    let start = Instant::now();
    let taken = own.take_over(&bundle("b-shop"), None, earlier).await;
    taken.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn lock_with_a_finalizer_is_waited_for() {
    let api = api().await;
    let earlier = fences(&api, ProcessIdentity::of_pod("a"));
    let _lost = acquire(&earlier, "b-shop", "deployer").await.unwrap();
    api.world.lock().unwrap().finalized.push(LOCK.to_owned());
    let mut own = fences(&api, ProcessIdentity::of_pod("a"));
    own.waits.gone = Duration::ZERO;
    let failure = own
        .take_over(&bundle("b-shop"), None, EarlierAttempts::default())
        .await
        .unwrap_err();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Waiting, Code::RunFenced)
    );
    assert!(failure.sentence.contains("run-b-shop"), "{failure}");
}

#[tokio::test]
async fn account_of_another_namespace_gets_one_of_four_slots() {
    let api = api().await;
    let fences = fences(&api, ProcessIdentity::of_pod("a"));
    // The fake API server knows no conflicts of managers.
    api.set_fault(|method, path, body| {
        let is_first = path.ends_with("fairlead-run-0") && method == axum::http::Method::PATCH;
        let is_other = body["metadata"]["labels"]["fairlead/lock"] == "b-other";
        (is_first && is_other).then(|| crate::testing::status(409, "Conflict", "taken"))
    });
    let first = acquire(&fences, "b-shop", "team/ci").await.unwrap();
    let second = acquire(&fences, "b-other", "team/ci").await.unwrap();
    assert_eq!(
        (first.lock.name.as_str(), second.lock.name.as_str()),
        ("fairlead-run-0", "fairlead-run-1")
    );
    assert_eq!(second.user, "system:serviceaccount:team:ci");
}

#[tokio::test]
async fn missing_account_is_named_and_leaves_no_lock() {
    let api = api().await;
    let fences = fences(&api, ProcessIdentity::of_pod("a"));
    let failure = acquire(&fences, "b-shop", "nobody").await.err().unwrap();
    assert_eq!(
        (failure.class, failure.code),
        (FailureClass::Waiting, Code::AccountUnusable)
    );
    assert!(
        failure.sentence.contains("fairlead-delivery/nobody"),
        "{failure}"
    );
    assert_eq!(api.get(LOCK), None);
}
