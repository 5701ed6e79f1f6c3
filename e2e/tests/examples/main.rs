//! Every command of README, `docs/` and `--help` runs against a fresh hub with a real cluster. None may fail,
//! and no table may be empty.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod collect;
mod mentions;
mod rules;
mod run;
mod world;

use anyhow::ensure;
use collect::{documents, helps};
use rules::Rules;
use world::ExamplesWorld;

#[tokio::test]
async fn every_command_of_the_documents_and_of_the_help_works() -> anyhow::Result<()> {
    let mut pages = documents()?;
    pages.extend(helps().await?);
    let cluster = world::cluster().await?;
    let mut failures = Vec::new();
    let mut world = None;
    for page in pages {
        let here = match world.take() {
            Some(world) => world,
            None => ExamplesWorld::start(cluster).await?,
        };
        for command in &page.commands {
            match run::run(&here, command).await {
                Ok(outcome) => println!("{}: {command}\n    {outcome}", page.name),
                Err(error) => failures.push(format!("{}: {command}\n    {error:#}", page.name)),
            }
        }
        let is_spoilt = page.commands.iter().any(|command| Rules::spoils(command));
        world = (!is_spoilt).then_some(here);
    }
    ensure!(failures.is_empty(), "\n{}", failures.join("\n"));
    Ok(())
}

#[tokio::test]
async fn every_command_and_flag_that_a_document_mentions_exists() -> anyhow::Result<()> {
    let wrong = mentions::wrong().await?;
    ensure!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn every_rule_matches_a_command() -> anyhow::Result<()> {
    let mut pages = documents()?;
    pages.extend(helps().await?);
    let commands: Vec<String> = pages.into_iter().flat_map(|page| page.commands).collect();
    let idle = Rules::idle(&commands);
    ensure!(idle.is_empty(), "no command needs these rules: {idle:?}");
    Ok(())
}
