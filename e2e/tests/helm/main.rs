//! The runner with the real Helm against a real API server: releases, their records, kills, and the fence.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::expect_used,
    reason = "a test may panic, and waits for one future at a time"
)]

mod world;

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use fairlead_runner::{
    Cause, Exit, Operation, Rollback, RunState, StatusQuery, Uninstall,
    release::{Attempt, Judgement, ObjectRef, ProcessState, Record, ReleaseStatus, Work, judge},
    spec_label,
};
use serde_json::Value;
use world::{NAMESPACE, RELEASE, World, key, spec};

/// Time after which a token is refused once its Secret is gone: the API server's cache of 10 s.
const FENCE_DELAY: Duration = Duration::from_secs(11);

fn attempt(run: u32, work: Work, before: Option<u32>, process: ProcessState) -> Attempt {
    Attempt {
        run: key(run).run,
        work,
        before,
        process,
    }
}

#[tokio::test]
async fn release_is_installed_killed_unlocked_rolled_back_and_removed() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    install(&world).await?;
    repeat_and_query(&world).await?;
    kill_and_unlock(&world).await?;
    cancel(&world).await?;
    roll_back(&world).await?;
    by_hand(&world).await?;
    remove(&world).await?;
    lose_the_runner(&mut world).await?;
    fence(&world).await?;
    world.end().await
}

async fn install(world: &World) -> anyhow::Result<()> {
    let before = attempt(1, Work::UpgradeInstall, None, ProcessState::Dead);
    ensure!(judge(&world.history().await?, &before) == Judgement::Start);
    world.upgrade(&key(1), "{text: dry}").await?;
    let rendered: Value = serde_json::from_str(&world.succeeded(&key(1)).await?)?;
    ensure!(
        rendered["manifest"]
            .as_str()
            .context("manifest")?
            .contains("dry")
    );
    ensure!(
        world.history().await?.is_empty(),
        "a dry run writes nothing"
    );

    world.upgrade(&key(1), "{text: one}").await?;
    world.succeeded(&key(1)).await?;
    let (revision, record) = world.newest().await?;
    ensure!(revision.number == 1 && revision.status == ReleaseStatus::Deployed);
    ensure!(revision.run == Some(key(1).run), "{revision:?}");
    ensure!(
        revision.spec == Some(spec_label(&spec().parse()?)),
        "{revision:?}"
    );
    ensure!(
        judge(std::slice::from_ref(&revision), &before) == Judgement::Done(Some(revision.clone()))
    );
    let object = |api_version: &str, kind: &str, name: &str| ObjectRef {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: None,
        name: name.into(),
    };
    let objects = record.objects()?;
    let expected = [
        object("v1", "ConfigMap", "settings"),
        object("apps/v1", "Deployment", "web"),
    ];
    ensure!(objects == expected, "{objects:?}");
    ensure!(
        Record::decode(&record.encode()?)? == record,
        "the record changed on its way"
    );
    Ok(())
}

async fn repeat_and_query(world: &World) -> anyhow::Result<()> {
    world.upgrade(&key(2), "{text: two}").await?;
    world.succeeded(&key(2)).await?;
    let text = [
        "get",
        "configmap",
        "settings",
        "-o",
        "jsonpath={.data.text}",
    ];
    ensure!(world.kubectl(&text).await? == "two");
    let query = StatusQuery {
        release: RELEASE.parse()?,
        namespace: NAMESPACE.parse()?,
    };
    world
        .begin(&key(3), Operation::Status(query), Vec::new())
        .await?;
    let status: Value = serde_json::from_str(&world.succeeded(&key(3)).await?)?;
    ensure!(
        status["version"] == 2 && status["info"]["status"] == "deployed",
        "{status}"
    );
    world.begin(&key(3), Operation::Version, Vec::new()).await?;
    ensure!(world.succeeded(&key(3)).await?.trim() == "v4.3.0");
    Ok(())
}

async fn kill_and_unlock(world: &World) -> anyhow::Result<()> {
    world.upgrade(&key(4), "{text: three, hang: true}").await?;
    world.pending(3).await?;
    let alive = attempt(4, Work::UpgradeInstall, Some(2), ProcessState::Alive);
    ensure!(judge(&world.history().await?, &alive) == Judgement::Attach);
    world.client().cancel(&key(4), true).await?;
    let (status, _) = world.ended(&key(4)).await?;
    let ending = status.ending().context("no end")?;
    ensure!(ending.exit == Exit::Signal(9) && ending.cause == Cause::Cancelled);

    let dead = attempt(4, Work::UpgradeInstall, Some(2), ProcessState::Dead);
    let Judgement::Unlock(locked) = judge(&world.history().await?, &dead) else {
        anyhow::bail!("a pending revision must be unlocked");
    };
    ensure!(locked.number == 3);
    world.upgrade(&key(5), "{text: four}").await?;
    let (status, _) = world.ended(&key(5)).await?;
    ensure!(
        status.error_tail.contains("another operation"),
        "{status:?}"
    );

    let (_, record) = world.newest().await?;
    let patch = record
        .unlock_patch(&locked, "program was killed", 1_795_000_000)?
        .to_string();
    let unlock = [
        "patch",
        "secret",
        &locked.secret,
        "--type=merge",
        "-p",
        &patch,
    ];
    world.kubectl(&unlock).await?;
    let again = world.kubectl(&unlock).await;
    ensure!(
        again.is_err(),
        "an unlock with an old resource version must fail"
    );
    world.upgrade(&key(6), "{text: four}").await?;
    world.succeeded(&key(6)).await?;
    let history = world.history().await?;
    let states: Vec<_> = history.iter().map(|it| (it.number, it.status)).collect();
    let (deployed, failed) = (ReleaseStatus::Deployed, ReleaseStatus::Failed);
    let superseded = ReleaseStatus::Superseded;
    ensure!(
        states == [(1, superseded), (2, superseded), (3, failed), (4, deployed)],
        "{states:?}"
    );
    Ok(())
}

async fn cancel(world: &World) -> anyhow::Result<()> {
    world.upgrade(&key(7), "{text: five, hang: true}").await?;
    world.pending(5).await?;
    world.client().cancel(&key(7), false).await?;
    let (status, _) = world.ended(&key(7)).await?;
    ensure!(
        status.ending().context("no end")?.cause == Cause::Cancelled,
        "{status:?}"
    );
    let dead = attempt(7, Work::UpgradeInstall, Some(4), ProcessState::Dead);
    let judgement = judge(&world.history().await?, &dead);
    ensure!(
        matches!(&judgement, Judgement::Failed(it) if it.number == 5),
        "{judgement:?}"
    );
    Ok(())
}

async fn roll_back(world: &World) -> anyhow::Result<()> {
    let rollback = Rollback {
        release: RELEASE.parse()?,
        namespace: NAMESPACE.parse()?,
        revision: 2,
        timeout_seconds: 60,
        history_max: 10,
    };
    world
        .begin(&key(8), Operation::Rollback(rollback), Vec::new())
        .await?;
    world.succeeded(&key(8)).await?;
    let (revision, _) = world.newest().await?;
    ensure!(
        revision.run == Some(key(2).run),
        "a rollback has the label of its target"
    );
    let attempt = attempt(8, Work::Rollback { to: 2 }, Some(5), ProcessState::Dead);
    let judgement = judge(&[revision], &attempt);
    ensure!(
        matches!(&judgement, Judgement::Done(Some(it)) if it.number == 6),
        "{judgement:?}"
    );
    Ok(())
}

/// A person upgrades the release with a Helm of their own.
async fn by_hand(world: &World) -> anyhow::Result<()> {
    let chart = tempfile::tempdir()?;
    fs::write(
        chart.path().join("Chart.yaml"),
        "{apiVersion: v2, name: shop, version: 2.0.0}",
    )?;
    let mut helm = tokio::process::Command::new(&world.helm);
    helm.args(["upgrade", RELEASE, "-n", NAMESPACE, "--kubeconfig"])
        .arg(world.cluster.kubeconfig())
        .arg(chart.path())
        .env("HOME", chart.path());
    let output = helm.output().await?;
    ensure!(output.status.success(), "{output:?}");
    let dead = attempt(9, Work::UpgradeInstall, Some(6), ProcessState::Dead);
    let (revision, _) = world.newest().await?;
    let judgement = judge(&[revision], &dead);
    ensure!(
        matches!(&judgement, Judgement::SomebodyElse(it) if it.number == 7),
        "{judgement:?}"
    );
    Ok(())
}

async fn remove(world: &World) -> anyhow::Result<()> {
    let uninstall = Uninstall {
        release: RELEASE.parse()?,
        namespace: NAMESPACE.parse()?,
        timeout_seconds: 60,
    };
    // Again: a release that is gone is no failure.
    for run in [10, 11] {
        world
            .begin(
                &key(run),
                Operation::Uninstall(uninstall.clone()),
                Vec::new(),
            )
            .await?;
        world.succeeded(&key(run)).await?;
    }
    let dead = attempt(11, Work::Uninstall, Some(7), ProcessState::Dead);
    ensure!(judge(&world.history().await?, &dead) == Judgement::Done(None));
    Ok(())
}

/// The kernel ends Helm with its runner, in the middle of the first installation.
async fn lose_the_runner(world: &mut World) -> anyhow::Result<()> {
    world.upgrade(&key(12), "{text: six, hang: true}").await?;
    world.pending(1).await?;
    let RunState::Running { pid } = world.client().status(&key(12)).await?.state else {
        anyhow::bail!("Helm must wait for its hook");
    };
    world.kill_runner(pid).await?;
    let dead = attempt(12, Work::UpgradeInstall, None, ProcessState::Dead);
    let (revision, record) = world.newest().await?;
    let judgement = judge(std::slice::from_ref(&revision), &dead);
    ensure!(
        judgement == Judgement::Unlock(revision.clone()),
        "{judgement:?}"
    );
    let patch = record
        .unlock_patch(&revision, "program was killed", 1_795_000_000)?
        .to_string();
    let unlock = [
        "patch",
        "secret",
        &revision.secret,
        "--type=merge",
        "-p",
        &patch,
    ];
    world.kubectl(&unlock).await?;
    world.upgrade(&key(13), "{text: six}").await?;
    world.succeeded(&key(13)).await?;
    Ok(())
}

/// A program that runs while its Secret is deleted can write no more.
async fn fence(world: &World) -> anyhow::Result<()> {
    world.upgrade(&key(14), "{text: seven, hang: true}").await?;
    world.pending(3).await?;
    world.kubectl(&["delete", "secret", "run"]).await?;
    tokio::time::sleep(FENCE_DELAY).await;
    // Helm marks a cancelled release as failed, but its token is refused.
    world.client().cancel(&key(14), false).await?;
    let (status, _) = world.ended(&key(14)).await?;
    ensure!(!status.ending().context("no end")?.is_success());
    let (revision, _) = world.newest().await?;
    ensure!(
        revision.status == ReleaseStatus::PendingUpgrade,
        "{revision:?}, {status:?}"
    );
    Ok(())
}
