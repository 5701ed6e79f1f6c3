//! The fence on a real API server: lost children, finalizers, slow webhooks, two agents, and an agent that is cut off.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use fairlead_api::Code;
use fairlead_delivery_agent::{
    ProcessIdentity,
    engine::{FailureClass, RunFailure},
    fence::{AccountName, EarlierAttempts, FenceWaits, FencedAttempt, Fences, RunFence},
    kube::Propagation,
};
use fairlead_e2e::eventually;
use fairlead_testkit::relay::Relay;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    hub::FakeHub,
    webhook::{SLOW_LABEL, SlowWebhook},
    world::World,
};

/// Time after which a token is refused once its Secret is gone: the API server's cache of 10 s.
const REFUSAL_DELAY: Duration = Duration::from_secs(11);
/// Longest wait for the takeover of a cut-off agent: 30 s for its Lease, 45 s for its fence, and a run.
const TAKEOVER_DEADLINE: Duration = Duration::from_secs(150);
const RESULT_DEADLINE: Duration = Duration::from_secs(30);

/// Fences of an agent in a pod of its own.
fn fences(world: &World, pod: &str) -> Fences {
    let process = ProcessIdentity::of_pod(pod);
    Fences::new(world.client.clone(), process.into())
}

async fn acquire(fences: &Fences, bundle: &str) -> anyhow::Result<RunFence> {
    let (bundle, run) = (bundle.parse()?, "run-01ARZ3NDEKTSV4RRFFQ69G5FAV".parse()?);
    let attempt = FencedAttempt {
        bundle: &bundle,
        run: &run,
        attempt: 1,
    };
    Ok(fences
        .acquire(attempt, &AccountName::parse("deployer")?)
        .await?)
}

async fn take_over(fences: &Fences, bundle: &str) -> Result<(), RunFailure> {
    let bundle = bundle.parse().unwrap();
    fences
        .take_over(&bundle, None, EarlierAttempts::default())
        .await
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/shop/configmaps/{name}")
}

fn config(name: &str, labels: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "shop", "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// Applies a ConfigMap with the token of a run. Returns the status of a refusal.
async fn write(fence: &RunFence, object: &Value) -> Result<(), Option<u16>> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = path(name);
    let applied = fence.kube.apply(&path, "run", false, false, object);
    applied.await.map(drop).map_err(|error| error.status())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_run_writes_nothing_and_one_of_two_agents_works() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    two_agents(&mut world).await?;
    lost_child(&world).await
}

/// A child of a run sleeps through the end of the run.
async fn lost_child(world: &World) -> anyhow::Result<()> {
    let fences = fences(world, "child");
    let fence = acquire(&fences, "b-child").await?;
    let before = config("child", json!({}));
    ensure!(write(&fence, &before).await == Ok(()), "the run writes");
    let place = fence.lock.path();
    world
        .client
        .delete(&place, None, Propagation::Background)
        .await?;
    sleep(REFUSAL_DELAY).await;
    let late = write(&fence, &config("late", json!({}))).await;
    ensure!(late == Err(Some(401)), "{late:?}");
    ensure!(world.client.get(&path("late")).await?.is_none());
    Ok(())
}

/// Of two agents one works. The other one goes on once the Lease is free.
async fn two_agents(world: &mut World) -> anyhow::Result<()> {
    let second = world.spawn_agent("second", world.hub.clone(), None)?;
    let file = |color: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: two}}\ndata: {{color: {color}}}\n"
        )
    };
    for (number, color) in [(1, "blue"), (2, "red")] {
        let files = [("a.yaml", &*file(color))];
        let etag = world.hub.release("b-two", number, &files, |_| {});
        world.probe(etag.clone());
        second.probe(etag);
        world.until_ready("b-two", number).await?;
        eventually(RESULT_DEADLINE, "result", async || {
            (world.hub.successes() == usize::try_from(number).ok()?).then_some(())
        })
        .await?;
        if number == 1 {
            world.kill_agent().await?;
        }
    }
    ensure!(world.get(&path("two")).await?["data"]["color"] == "red");
    ensure!(world.hub.successes() == 2, "one run for each generation");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits two minutes for leases and tokens: `make kills`"]
async fn takeover_outlasts_writes_finalizers_and_lost_agents() -> anyhow::Result<()> {
    let world = World::alone().await?;
    let webhook = SlowWebhook::start(&world).await?;
    let (slow, finalizer, cut) = tokio::join!(
        slow_write(&world, &webhook),
        finalizer(&world),
        cut_off_agent(&world, &webhook)
    );
    slow.context("slow write")?;
    finalizer.context("finalizer")?;
    cut.context("cut-off agent")
}

/// A write waits in a webhook while its run is taken over.
async fn slow_write(world: &World, webhook: &SlowWebhook) -> anyhow::Result<()> {
    let fence = acquire(&fences(world, "slow-1"), "b-slow").await?;
    let object = config("slow", json!({ SLOW_LABEL: "hold" }));
    let writing = async {
        let written = write(&fence, &object).await;
        (written, Instant::now())
    };
    let taking = async {
        webhook.held("slow").await?;
        let begin = Instant::now();
        take_over(&fences(world, "slow-2"), "b-slow").await?;
        anyhow::Ok((begin, Instant::now()))
    };
    let ((written, landed), taken) = tokio::join!(writing, taking);
    let (begin, end) = taken?;
    ensure!(written == Ok(()), "accepted before the end: {written:?}");
    ensure!(
        begin < landed && landed < end,
        "the write landed after the takeover"
    );
    ensure!(end - begin >= FenceWaits::default().unknown_process);
    let late = write(&fence, &config("slow-late", json!({}))).await;
    ensure!(late == Err(Some(401)), "{late:?}");
    Ok(())
}

/// A finalizer holds the lock of a run.
async fn finalizer(world: &World) -> anyhow::Result<()> {
    let fence = acquire(&fences(world, "finalizer-1"), "b-final").await?;
    let finalizers = |it: Value| json!({"metadata": {"finalizers": it}});
    let place = fence.lock.path();
    let patch = finalizers(json!(["example.org/hold"]));
    world.client.merge_patch(&place, &patch).await?;
    let waits = FenceWaits {
        gone: Duration::from_secs(2),
        ..FenceWaits::default()
    };
    let next = fences(world, "finalizer-2").with_waits(waits);
    let failure = take_over(&next, "b-final")
        .await
        .err()
        .context("taken over")?;
    ensure!(
        (failure.class, failure.code) == (FailureClass::Waiting, Code::RunFenced),
        "{failure:?}"
    );
    ensure!(failure.sentence.contains("example.org/hold"), "{failure}");
    // The token still works: only the end of the Secret ends it.
    let early = write(&fence, &config("final", json!({}))).await;
    ensure!(early == Ok(()), "{early:?}");
    world
        .client
        .merge_patch(&place, &finalizers(Value::Null))
        .await?;
    world.until_absent(&place).await?;
    sleep(REFUSAL_DELAY).await;
    let late = write(&fence, &config("final-late", json!({}))).await;
    ensure!(late == Err(Some(401)), "{late:?}");
    Ok(())
}

/// An agent is cut off with a write under way, beyond its Lease. Another one takes its run over.
async fn cut_off_agent(world: &World, webhook: &SlowWebhook) -> anyhow::Result<()> {
    let relay = Relay::to(world.api_address()).await;
    let (first_hub, second_hub) = (Arc::<FakeHub>::default(), Arc::<FakeHub>::default());
    let file = |color: &str, label: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cut, labels: {{{SLOW_LABEL}: {label}}}}}\ndata: {{color: {color}}}\n"
        )
    };
    let (old, new) = (file("blue", "hold"), file("red", "pass"));
    let first = world.spawn_agent("cut-1", first_hub.clone(), Some(relay.address()))?;
    first.probe(first_hub.release("b-cut", 1, &[("a.yaml", &old)], |_| {}));
    webhook.held("cut").await?;
    // Neither side learns that the other one is gone, so that the API server carries the write out.
    relay.control.discard_input();
    relay.control.discard_output();
    let second = world.spawn_agent("cut-2", second_hub.clone(), None)?;
    second.probe(second_hub.release("b-cut", 2, &[("a.yaml", &new)], |_| {}));
    let is_applied = || second_hub.report("b-cut").is_some_and(|it| it.applied == 2);
    let taken = eventually(TAKEOVER_DEADLINE, "takeover", async || {
        is_applied().then_some(())
    });
    let taken = taken.await;
    taken.with_context(|| format!("{:?}", second_hub.report("b-cut")))?;
    let applied = world.get(&path("cut")).await?;
    ensure!(applied["data"]["color"] == "red", "{applied}");
    // The first agent is back, and finds that another one has the Lease.
    let before = relay.connections_taken();
    relay.control.discard_nothing();
    eventually(TAKEOVER_DEADLINE, "return of the agent", async || {
        (relay.connections_taken() > before).then_some(())
    })
    .await?;
    sleep(REFUSAL_DELAY).await;
    let after = world.get(&path("cut")).await?;
    ensure!(after == applied, "{after}");
    eventually(RESULT_DEADLINE, "result", async || {
        (second_hub.successes() > 0).then_some(())
    })
    .await?;
    ensure!(second_hub.successes() == 1);
    Ok(())
}
