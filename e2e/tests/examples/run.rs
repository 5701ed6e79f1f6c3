//! Runs one command in a shell.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use fairlead_e2e::{Launch, Process, eventually};
use tokio::process::Command;
use tokio::time::timeout;

use crate::rules::{EndCondition, Rules};
use crate::world::ExamplesWorld;

/// Deadline for a command to end, or to print its expected text.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);

/// Runs a command and returns its result as one line.
pub(crate) async fn run(world: &ExamplesWorld, command: &str) -> anyhow::Result<String> {
    let line = world.translated(command).await?;
    match Rules::of(command) {
        Some(EndCondition::Left(reason)) => Ok(format!("not run: {reason}")),
        Some(EndCondition::Until(text)) => {
            let mut process = start(world, &line)?;
            process.wait_for_log(text, COMMAND_DEADLINE).await?;
            end(process, text).await
        }
        Some(EndCondition::Follow(text)) => follow(world, &line, text).await,
        Some(EndCondition::Silent) => to_its_end(world, &line, true).await,
        None => to_its_end(world, &line, false).await,
    }
}

/// Starts a shell that leads a process group.
fn start(world: &ExamplesWorld, line: &str) -> anyhow::Result<Process> {
    let launch = Launch::new("env").args(["-C".as_ref(), world.folder().as_os_str()]);
    let launch = launch.args(["setsid", "bash", "-c", line]);
    let environment = world.environment().into_iter();
    environment
        .fold(launch, |launch, (name, value)| launch.env(name, value))
        .spawn(world.next_log())
}

async fn end(mut process: Process, text: &str) -> anyhow::Result<String> {
    // The shell does not end the programs of a pipe with itself.
    let group = format!("-{}", process.pid());
    let kill = Command::new("kill").args(["-TERM", "--", &group]).status();
    ensure!(kill.await?.success(), "its process group has ended before");
    process.wait(COMMAND_DEADLINE).await?;
    Ok(format!("printed {text:?}, and was ended"))
}

/// Makes changes until the command shows one.
async fn follow(world: &ExamplesWorld, line: &str, text: &str) -> anyhow::Result<String> {
    let process = start(world, line)?;
    let shown = eventually(COMMAND_DEADLINE, line, async || {
        if let Err(error) = world.stir().await {
            return Some(Err(error));
        }
        match process.log() {
            Ok(log) => log.contains(text).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    });
    let shown = shown.await.flatten();
    shown.with_context(|| process.log().unwrap_or_default())?;
    end(process, text).await
}

async fn to_its_end(world: &ExamplesWorld, line: &str, silent: bool) -> anyhow::Result<String> {
    let mut command = Command::new("bash");
    command
        .args(["-o", "pipefail", "-c", line])
        .current_dir(world.folder())
        .env_clear()
        .envs(world.environment())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(COMMAND_DEADLINE, command.output()).await;
    let output = output.with_context(|| format!("not within {COMMAND_DEADLINE:?}: {line}"))??;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{}: {stdout}{stderr}", output.status);
    }
    let rows = stdout.lines().filter(|line| !line.trim().is_empty());
    let rows = rows.count();
    ensure!(silent || rows > 0, "it printed nothing; stderr: {stderr}");
    ensure!(rows != 1 || !is_header(&stdout), "an empty table: {stdout}");
    Ok(format!("{rows} lines"))
}

/// `true` for a line of column titles only.
fn is_header(line: &str) -> bool {
    let letters = || line.chars().filter(|c| c.is_alphabetic());
    line.contains("  ") && letters().count() > 0 && letters().all(char::is_uppercase)
}
