//! Edits of applied objects on a real API server, each with its expected answer: for manifests, and for a Helm release.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod corpus;
mod edits;
mod helm;
mod objects;
mod world;

use std::time::Duration;

use edits::{EDITS, Expected};
use fairlead_api::{Code, delivery::DriftPolicy};
use fairlead_delivery_agent::drift::DriftEvent;
use tokio::time::sleep;
use world::{Case, World};

/// Edits at the same time. Each starts a kubectl.
const CONCURRENT_EDITS: usize = 4;
/// Time for a comparison and a correction.
const ANSWER_DEADLINE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_edit_gets_its_answer() -> anyhow::Result<()> {
    let world = World::start().await?;
    let mut cases = Vec::new();
    for (number, edit) in EDITS.iter().enumerate() {
        cases.push(world.case(number, edit).await?);
    }
    for case in &cases {
        world.follow(case, DriftPolicy::Correct).await;
    }
    // First comparisons, and the second of the apply.
    sleep(Duration::from_secs(5)).await;
    world.forget_events();
    let mut wrong = Vec::new();
    for cases in cases.chunks(CONCURRENT_EDITS) {
        let edits = cases.iter().map(|case| (case.edit.edit)(&world, case));
        for (case, edited) in cases
            .iter()
            .zip(futures_util::future::join_all(edits).await)
        {
            if let Err(error) = edited {
                wrong.push(format!("{}: {error:#}", case.edit.name));
            }
        }
    }
    for case in &cases {
        if let Err(error) = check(&world, case).await {
            wrong.push(format!("{}: {error:#}", case.edit.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    println!("{} edits got their answers", cases.len());
    Ok(())
}

/// Waits for the expected answer, and compares the object with its manifest.
async fn check(world: &World, case: &Case) -> anyhow::Result<()> {
    match case.edit.expected {
        Expected::Corrected(fields) => {
            let corrected = world
                .until(case, ANSWER_DEADLINE, "a correction", |event| match event {
                    DriftEvent::Corrected { objects, .. } if !objects.is_empty() => {
                        Some(objects.clone())
                    }
                    _ => None,
                })
                .await?;
            let mut observed: Vec<_> = corrected
                .iter()
                .flat_map(|it| {
                    let manager = it.manager.as_deref().unwrap_or("nobody");
                    let field = |field: &String| format!("{field} {manager}");
                    let whole = it.fields.is_empty().then(|| format!("whole {manager}"));
                    it.fields.iter().map(field).chain(whole).collect::<Vec<_>>()
                })
                .collect();
            observed.sort();
            let mut expected: Vec<_> = fields.iter().map(|it| (*it).to_owned()).collect();
            expected.sort();
            anyhow::ensure!(observed == expected, "{observed:?} instead of {expected:?}");
        }
        Expected::TakenBack => {
            world
                .until(
                    case,
                    ANSWER_DEADLINE,
                    "ownership taken back",
                    |event| match event {
                        DriftEvent::Corrected { objects, .. } => Some(objects.is_empty()),
                        DriftEvent::Drifted { objects, .. } if !objects.is_empty() => Some(false),
                        _ => None,
                    },
                )
                .await?
                .then_some(())
                .ok_or_else(|| anyhow::anyhow!("it counted as drift"))?;
        }
        Expected::Silent => {
            // All corrections of others have passed by now.
            let events = world.events(case);
            let is_news = |event: &&DriftEvent| {
                matches!(event, DriftEvent::Drifted { objects, .. } if !objects.is_empty())
                    || matches!(event, DriftEvent::Corrected { .. } | DriftEvent::Blocked(_))
            };
            let news: Vec<_> = events.iter().filter(is_news).collect();
            anyhow::ensure!(news.is_empty(), "{news:?}");
        }
    }
    world.equals_its_manifest(case).await?;
    if let Some((pointer, value)) = case.edit.kept {
        let live = world.live(case).await?;
        let found = live.pointer(pointer).map(|it| it.to_string());
        anyhow::ensure!(
            found.as_deref() == Some(value),
            "{pointer} is {found:?} instead of {value}"
        );
    }
    Ok(())
}

/// A loop like that of an autoscaler whose object is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_scaling_is_a_fight() -> anyhow::Result<()> {
    let world = World::start().await?;
    let edit = EDITS.iter().find(|it| it.name == "scale").unwrap();
    let case = world.case(0, edit).await?;
    world.follow(&case, DriftPolicy::Correct).await;
    sleep(Duration::from_secs(3)).await;
    world.forget_events();
    for round in 0..6 {
        (edit.edit)(&world, &case).await?;
        if round < 5 {
            world
                .until(&case, ANSWER_DEADLINE, "a correction", |event| {
                    matches!(event, DriftEvent::Corrected { objects, .. } if !objects.is_empty())
                        .then_some(())
                })
                .await?;
            world.forget_events();
        }
    }
    let failure = world
        .until(&case, ANSWER_DEADLINE, "a block", |event| match event {
            DriftEvent::Blocked(failure) => failure.clone(),
            _ => None,
        })
        .await?;
    assert_eq!(failure.code, Code::DriftFight);
    assert!(
        failure
            .cause
            .starts_with("kubectl and this bundle fight over .spec.replicas of Deployment"),
        "{failure}"
    );
    Ok(())
}

/// A deployment at rest sends nothing beside its watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rest_costs_no_request() -> anyhow::Result<()> {
    let world = World::start().await?;
    let mut cases = Vec::new();
    for (number, edit) in EDITS.iter().take(10).enumerate() {
        let case = world.case(number, edit).await?;
        world.follow(&case, DriftPolicy::Correct).await;
        cases.push(case);
    }
    sleep(Duration::from_secs(20)).await;
    let before = world.requests()?;
    sleep(Duration::from_secs(30)).await;
    let during = world.requests()? - before;
    assert!(during <= 4, "{during} requests in 30 s");
    Ok(())
}
