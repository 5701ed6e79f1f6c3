//! Kills of Helm, of its runner, and of the agent, each in the middle of an upgrade and at the ends of a step.

use anyhow::{Context, ensure};
use fairlead_api::{Code, delivery::CancelMode};
use fairlead_delivery_agent::{
    engine::{Executor, FailureClass, RunFailure},
    helm::{HelmStep, HelmWork, RunnerMark},
};
use fairlead_e2e::eventually;
use fairlead_runner::{RunKey, RunState, Runner};
use rustix::process::Signal;
use serde_json::json;

use super::{
    charts::SHOP,
    leftovers,
    world::{Attempt, Deployment, STEP_DEADLINE, World, log_of, signal},
};

#[tokio::test]
async fn kills_leave_no_pending_revision() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    let mut shop = world.deployment("b-shop", SHOP, json!({"text": "one"}))?;
    world.synced(&mut shop).await?;
    kill_helm(&world, &mut shop).await?;
    cancel(&world, &mut shop).await?;
    kill_agent(&world, &mut shop).await?;
    attach_after_a_restart(&world, &mut shop).await?;
    kill_agent_at_the_ends_of_a_step(&world, &mut shop).await?;
    leftovers::of_a_killed_upgrade(&world).await?;
    kill_runner(&mut world, &mut shop).await?;
    world.end().await
}

/// Newest revision after an attempt that hangs in a hook.
async fn next(world: &World) -> anyhow::Result<u32> {
    let newest = world.history("shop").await?.pop();
    Ok(newest.context("no revision")?.number + 1)
}

/// Starts an upgrade that hangs in a hook, and meanwhile does something to it. Returns the end of the attempt.
async fn disturb(
    world: &World,
    shop: &mut Deployment,
    disturbance: impl AsyncFnOnce(&World, &Attempt) -> anyhow::Result<()>,
) -> anyhow::Result<RunFailure> {
    let number = next(world).await?;
    shop.set_value("hook", "hangs");
    let attempt = world.begin(shop, 1).await?;
    let disturb = async {
        world.pending("shop", number).await?;
        disturbance(world, &attempt).await
    };
    let (result, disturbed) = tokio::join!(world.executor.sync(&attempt.context), disturb);
    disturbed?;
    let log = log_of(&attempt.context.log);
    world.finish(shop, attempt, false).await?;
    shop.set_value("hook", "");
    result
        .err()
        .with_context(|| format!("the run succeeded; the log: {log}"))
}

/// The newest revision failed, and the next attempt makes one more.
async fn goes_on(world: &World, shop: &mut Deployment) -> anyhow::Result<()> {
    let newest = world.revisions("shop").await?.pop();
    ensure!(newest.is_some_and(|it| it.1 == "failed"), "{newest:?}");
    let number = next(world).await?;
    world.synced(shop).await?;
    let newest = world.revisions("shop").await?.pop();
    ensure!(newest == Some((number, "deployed")), "{newest:?}");
    Ok(())
}

pub(crate) async fn pid(world: &World, key: &RunKey) -> anyhow::Result<u32> {
    match world.runner.client().status(key).await?.state {
        RunState::Running { pid } => Ok(pid),
        RunState::Ended(ending) => anyhow::bail!("Helm has ended: {ending:?}"),
    }
}

pub(crate) fn key(attempt: &Attempt) -> RunKey {
    RunKey {
        run: attempt.context.run.clone(),
        attempt: attempt.context.attempt,
    }
}

async fn kill_helm(world: &World, shop: &mut Deployment) -> anyhow::Result<()> {
    let failure = disturb(world, shop, async |world, attempt| {
        signal(pid(world, &key(attempt)).await?, Signal::KILL)
    });
    let failure = failure.await?;
    ensure!(
        (failure.code, failure.class) == (Code::HelmFailed, FailureClass::Retry),
        "{failure:?}"
    );
    ensure!(
        failure.sentence.ends_with("Helm was ended by signal 9"),
        "{failure}"
    );
    goes_on(world, shop).await
}

async fn cancel(world: &World, shop: &mut Deployment) -> anyhow::Result<()> {
    let failure = disturb(world, shop, async |_, attempt| {
        attempt.cancel.send_replace(Some(CancelMode::Hard));
        Ok(())
    });
    let failure = failure.await?;
    ensure!(failure.class == FailureClass::Cancelled, "{failure:?}");
    goes_on(world, shop).await
}

/// An upgrade that hangs in a hook, and whose agent is gone.
async fn abandoned(world: &World, shop: &mut Deployment) -> anyhow::Result<Attempt> {
    let number = next(world).await?;
    shop.set_value("hook", "hangs");
    let attempt = world.begin(shop, 1).await?;
    tokio::select! {
        result = world.executor.sync(&attempt.context) => anyhow::bail!("the run ended: {result:?}"),
        pending = world.pending("shop", number) => pending?,
    }
    Ok(attempt)
}

/// The next attempt kills the program of the earlier one.
async fn kill_agent(world: &World, shop: &mut Deployment) -> anyhow::Result<()> {
    let attempt = abandoned(world, shop).await?;
    let number = next(world).await?;
    let pid = pid(world, &key(&attempt)).await?;
    world.finish(shop, attempt, false).await?;
    shop.set_value("hook", "");
    let attempt = world.begin(shop, 2).await?;
    let result = world.executor.sync(&attempt.context).await;
    let log = log_of(&attempt.context.log);
    world.finish(shop, attempt, result.is_ok()).await?;
    result.with_context(|| log)?;
    ensure!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let states = world.revisions("shop").await?;
    ensure!(
        states.ends_with(&[(number - 1, "failed"), (number, "deployed")]),
        "{states:?}"
    );
    Ok(())
}

/// The same attempt goes on: its program is followed, and no other one is started.
async fn attach_after_a_restart(world: &World, shop: &mut Deployment) -> anyhow::Result<()> {
    let attempt = abandoned(world, shop).await?;
    let number = next(world).await? - 1;
    let mut log = String::new();
    let end_hook = async {
        // Before that the program may end, and the attempt would find its end.
        eventually(STEP_DEADLINE, "the program is followed", async || {
            let (_, piece) = attempt.context.log.take(usize::MAX);
            log += &String::from_utf8_lossy(&piece);
            log.contains("goes on").then_some(())
        })
        .await?;
        let patch = r#"{"spec":{"activeDeadlineSeconds":1}}"#;
        world
            .kubectl(&["patch", "job", "shop-hook", "-p", patch])
            .await
    };
    let (result, ended) = tokio::join!(world.executor.sync(&attempt.context), end_hook);
    ended.with_context(|| format!("{result:?}"))?;
    log += &log_of(&attempt.context.log);
    world.finish(shop, attempt, false).await?;
    let failure = result.err().context("the hook failed")?;
    ensure!(failure.code == Code::HelmHookFailed, "{failure:?}: {log}");
    let newest = world.revisions("shop").await?.pop();
    ensure!(newest == Some((number, "failed")), "{newest:?}");
    shop.set_value("hook", "");
    goes_on(world, shop).await
}

/// Killed after the note and before Helm, and killed after Helm and before the next note.
async fn kill_agent_at_the_ends_of_a_step(
    world: &World,
    shop: &mut Deployment,
) -> anyhow::Result<()> {
    let step = async |shop: &Deployment, attempt: &Attempt, before: u32| {
        let runner = RunnerMark::from(&world.runner.client().info().await?);
        let step = HelmStep {
            key: key(attempt),
            work: HelmWork::UpgradeInstall,
            before: Some(before),
            runner,
        };
        let update = shop
            .journal
            .update(|state| state.record.helm.step = Some(step));
        anyhow::Ok(update.await?)
    };
    let number = next(world).await?;
    shop.set_value("text", "before Helm");
    let attempt = world.begin(shop, 1).await?;
    step(shop, &attempt, number - 1).await?;
    world.executor.sync(&attempt.context).await?;
    world.finish(shop, attempt, true).await?;
    ensure!(next(world).await? == number + 1);

    shop.set_value("text", "after Helm");
    let attempt = world.begin(shop, 1).await?;
    world.executor.sync(&attempt.context).await?;
    step(shop, &attempt, number).await?;
    let applied = world.executor.sync(&attempt.context).await?;
    world.finish(shop, attempt, true).await?;
    ensure!(applied.objects.len() == 2 && next(world).await? == number + 2);
    ensure!(shop.journal.state().await.record.helm.step.is_none());
    Ok(())
}

/// Helm ends with its runner.
async fn kill_runner(world: &mut World, shop: &mut Deployment) -> anyhow::Result<()> {
    let failure = disturb(world, shop, async |world, attempt| {
        let old = world.runner.client().info().await?;
        let program = pid(world, &key(attempt)).await?;
        signal(old.pid, Signal::KILL)?;
        eventually(STEP_DEADLINE, "end of the program", async || {
            let stat = std::fs::read_to_string(format!("/proc/{program}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
                .then_some(())
        })
        .await?;
        // The contact of the first runner goes on with the next one at the same socket.
        std::mem::forget(Runner::spawn(&world.launch).await?);
        Ok(())
    });
    let failure = failure.await?;
    ensure!(
        (failure.code, failure.class) == (Code::RunnerAway, FailureClass::Waiting),
        "{failure:?}"
    );
    goes_on(world, shop).await
}
