//! Child processes of the bench: pinned to a core, one log file each, ended when their handle is dropped. The error of a child
//! that fails names the step and the log file and quotes its last lines.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use fairlead_testkit::process::{Launch, Process};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    time,
};

/// Deadline of a role's ready file.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of a role's end after SIGTERM.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of a log that an error quotes.
const MAX_QUOTED_LINES: usize = 15;

pub(crate) struct Launcher {
    /// Cores of every process; empty: all cores.
    cores: Vec<usize>,
    logs: PathBuf,
    bench: PathBuf,
    sides: Sides,
    drain: bool,
}

/// Command prefixes into the networks of the hub and of the site, where they have some of their own.
///
/// Roles need the prefix of the hub even if the calling thread is in its network: another thread starts them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sides {
    pub(crate) hub: Vec<OsString>,
    pub(crate) site: Vec<OsString>,
}

impl Launcher {
    pub(crate) async fn new(pin: bool, core: Option<usize>, logs: PathBuf) -> anyhow::Result<Self> {
        let cores = match (pin, core) {
            (false, _) => Vec::new(),
            (true, Some(core)) => vec![core],
            (true, None) => allowed_cores()?.into_iter().rev().take(1).collect(),
        };
        for tool in ["taskset", "setpriv"] {
            ensure!(
                works(tool).await,
                "the bench needs `{tool}` (package util-linux)"
            );
        }
        Ok(Self {
            cores,
            logs,
            bench: std::env::current_exe()?,
            sides: Sides::default(),
            drain: false,
        })
    }

    /// Lets its roles drain at their end.
    pub(crate) fn set_drain(&mut self, drain: bool) {
        self.drain = drain;
    }

    /// The same launcher for roles in these networks.
    pub(crate) fn between(&self, sides: Sides) -> Self {
        Self {
            cores: self.cores.clone(),
            logs: self.logs.clone(),
            bench: self.bench.clone(),
            sides,
            drain: self.drain,
        }
    }

    /// The same launcher with one more core for its processes, which it shares.
    ///
    /// # Errors
    /// This process may use one core only.
    pub(crate) fn with_another_core(&self) -> anyhow::Result<Self> {
        let mut allowed = allowed_cores()?.into_iter().rev();
        let another = allowed.find(|core| !self.cores.contains(core));
        let another = another.context("this machine has one core only")?;
        let mut launcher = self.between(self.sides.clone());
        launcher.cores.push(another);
        Ok(launcher)
    }

    /// The core of every process, if there is one only.
    pub(crate) fn core(&self) -> Option<usize> {
        match *self.cores {
            [core] => Some(core),
            _ => None,
        }
    }

    /// Command line of the bench's own program in another role.
    pub(crate) fn bench(&self, role: &str) -> Command {
        let mut command = self.command(&self.bench);
        command.arg(role);
        command
    }

    /// A command that ends when its handle is dropped and when this process is killed.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::from(self.launch(&[], program).command());
        command.kill_on_drop(true);
        command
    }

    fn launch(&self, entrance: &[OsString], program: &Path) -> Launch {
        let launch = Launch::new(program).inherit_env().behind(entrance);
        if self.cores.is_empty() {
            return launch;
        }
        let cores: Vec<String> = self.cores.iter().map(ToString::to_string).collect();
        launch.behind(["taskset", "-c", &cores.join(",")])
    }

    /// The bench's own program in another role, to be started any number of times.
    pub(crate) fn own(&self, name: impl Into<String>, role: &str) -> Spec {
        Spec::new(name, self.bench.clone()).arg(role)
    }

    /// Starts a role that runs until it is ended. A role that is started again appends to its log.
    pub(crate) fn run(&self, spec: &Spec) -> anyhow::Result<Role> {
        let entrance = match spec.at_site {
            true => &self.sides.site,
            false => &self.sides.hub,
        };
        let mut launch = self.launch(entrance, &spec.program).args(&spec.args);
        for (name, value) in &spec.env {
            launch = launch.env(*name, value);
        }
        let name = spec.name.clone();
        let process = launch.spawn(self.logs.join(format!("{name}.log")));
        let process = process.with_context(|| format!("step: start {name}; {spec:?}"))?;
        Ok(Role {
            name,
            process,
            drain: self.drain,
        })
    }

    /// Runs a command to its end within `limit` and parses its standard output as JSON.
    pub(crate) async fn output<T: DeserializeOwned>(
        &self,
        step: &str,
        mut command: Command,
        limit: Duration,
    ) -> anyhow::Result<T> {
        let output = time::timeout(limit, command.output())
            .await
            .map_err(|_| anyhow!("no end within {limit:?}"));
        let parsed = async {
            let output = output??;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success(),
                "{}\n{}",
                output.status,
                stderr.trim_end()
            );
            let stdout = String::from_utf8_lossy(&output.stdout);
            serde_json::from_str(&stdout).with_context(|| format!("unexpected output: {stdout}"))
        };
        parsed.await.with_context(|| format!("step: {step}"))
    }
}

/// Program and arguments of a role.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    /// Names no secret, since errors print it.
    env: Vec<(&'static str, OsString)>,
    at_site: bool,
}

impl Spec {
    pub(crate) fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            at_site: false,
        }
    }

    /// Runs the role in the site's network.
    pub(crate) fn at_site(mut self) -> Self {
        self.at_site = true;
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// A running role.
pub(crate) struct Role {
    name: String,
    process: Process,
    drain: bool,
}

impl Role {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits for the ready file and reads it.
    pub(crate) async fn ready<T: DeserializeOwned>(&mut self, file: &Path) -> anyhow::Result<T> {
        let appeared = async {
            loop {
                self.alive()?;
                if let Ok(text) = std::fs::read(file)
                    && let Ok(ready) = serde_json::from_slice(&text)
                {
                    return anyhow::Ok(ready);
                }
                time::sleep(POLL_INTERVAL).await;
            }
        };
        match time::timeout(READY_DEADLINE, appeared).await {
            Ok(ready) => ready,
            Err(_) => Err(self.failed(&format!(
                "wait for {}, which does not exist after {READY_DEADLINE:?}",
                file.display()
            ))),
        }
    }

    /// # Errors
    /// The role has ended by itself. The error quotes the end of its log.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        match self.process.ended()? {
            None => Ok(()),
            Some(status) => {
                bail!(self.failed(&format!("run {}, which ended: {status}", self.name)))
            }
        }
    }

    pub(crate) fn failed(&self, step: &str) -> anyhow::Error {
        let log = self.process.log_path();
        anyhow!("step: {step}\nlog: {}\n{}", log.display(), last_lines(log))
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.term()?;
        let status = self.process.wait(STOP_DEADLINE).await?;
        ensure!(
            status.success(),
            self.failed(&format!("stop {}, which ended: {status}", self.name))
        );
        Ok(())
    }

    /// Stops the role if its launcher drains, and kills it otherwise.
    pub(crate) async fn end(self) {
        if !self.drain {
            return self.kill();
        }
        if let Err(error) = Box::pin(self.stop()).await {
            eprintln!("{error:#}");
        }
    }

    /// Kills the role.
    pub(crate) fn kill(mut self) {
        if let Err(error) = self.process.kill_9() {
            eprintln!("cannot kill {}: {error}", self.name);
        }
    }
}

/// Runs `work` to its end, or fails at the first signal to stop. Dropping the work ends its child processes.
pub(crate) async fn until_stopped<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let (mut interrupt, mut terminate, mut hangup) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    );
    let name = tokio::select! {
        result = work => return result,
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        _ = hangup.recv() => "SIGHUP",
    };
    bail!("stopped by {name}; every role is ended")
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(MAX_QUOTED_LINES)..)
        .unwrap_or_default()
        .join("\n")
}

async fn works(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

fn allowed_cores() -> anyhow::Result<Vec<usize>> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    listed_cores(&status).context("/proc/self/status has no Cpus_allowed_list")
}

/// Cores of a list such as `Cpus_allowed_list: 0-3,7`; never empty.
fn listed_cores(status: &str) -> Option<Vec<usize>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    (!cores.is_empty()).then_some(cores)
}

#[cfg(test)]
mod tests;
