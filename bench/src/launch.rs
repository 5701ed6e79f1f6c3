//! Child processes: pinned, logged to a file each, ended with the handle that stands for them. A child that fails is reported with
//! the step, the log file and its last lines.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use tokio::{
    process::{Child, Command},
    time,
};

/// How long a role may take until its ready file appears.
const READY: Duration = Duration::from_secs(30);
/// How long one may take to end when it is asked to.
const STOP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const LAST_LINES: usize = 15;

pub(crate) struct Launcher {
    core: Option<usize>,
    bound: bool,
    logs: PathBuf,
    bench: PathBuf,
    /// The words that lead a program into the site's network, where the site has one of its own.
    site: Vec<OsString>,
}

impl Launcher {
    pub(crate) async fn new(pin: bool, core: Option<usize>, logs: PathBuf) -> anyhow::Result<Self> {
        let core = match (pin, core) {
            (false, _) => None,
            (true, Some(core)) => Some(core),
            (true, None) => Some(last_allowed_core()?),
        };
        ensure!(
            core.is_none() || works("taskset").await,
            "--pin needs `taskset` (package util-linux)"
        );
        Ok(Self {
            core,
            bound: works("setpriv").await,
            logs,
            bench: std::env::current_exe()?,
            site: Vec::new(),
        })
    }

    /// The same with the site behind that entrance.
    pub(crate) fn with_site(&self, entrance: Vec<OsString>) -> Self {
        Self {
            core: self.core,
            bound: self.bound,
            logs: self.logs.clone(),
            bench: self.bench.clone(),
            site: entrance,
        }
    }

    pub(crate) fn core(&self) -> Option<usize> {
        self.core
    }

    /// This very program in another role.
    pub(crate) fn bench(&self, role: &str) -> Command {
        let mut command = self.command(&self.bench);
        command.arg(role);
        command
    }

    /// A command that ends when its handle is dropped and, where `setpriv` exists, even when this process is killed outright.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.behind(&[], program)
    }

    fn behind(&self, entrance: &[OsString], program: &Path) -> Command {
        let mut words: Vec<PathBuf> = Vec::new();
        if self.bound {
            words.extend(["setpriv", "--pdeathsig", "KILL"].map(PathBuf::from));
        }
        words.extend(entrance.iter().map(PathBuf::from));
        if let Some(core) = self.core {
            words.extend(["taskset".into(), "-c".into(), core.to_string().into()]);
        }
        words.push(program.to_owned());
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// This very program in another role, to be started again and again.
    pub(crate) fn own(&self, name: impl Into<String>, role: &str) -> Spec {
        Spec::new(name, self.bench.clone()).arg(role)
    }

    pub(crate) fn run(&self, spec: &Spec) -> anyhow::Result<Role> {
        let entrance = if spec.at_site { &*self.site } else { &[] };
        let mut command = self.behind(entrance, &spec.program);
        command.args(&spec.args);
        self.start(&spec.name, command)
    }

    /// Starts a role that goes on until it is ended.
    pub(crate) fn start(
        &self,
        name: impl Into<String>,
        mut command: Command,
    ) -> anyhow::Result<Role> {
        let name = name.into();
        let log = self.logs.join(format!("{name}.log"));
        let started = log_to(&mut command, &log).and_then(|()| Ok(command.spawn()?));
        let child = started
            .with_context(|| format!("step: start {name}; command: {:?}", command.as_std()))?;
        Ok(Role { name, child, log })
    }

    /// Runs a command to its end within `limit` and reads its standard output as JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        step: &str,
        mut command: Command,
        limit: Duration,
    ) -> anyhow::Result<T> {
        let output = time::timeout(limit, command.output())
            .await
            .map_err(|_| anyhow!("no end within {limit:?}"));
        let asked = async {
            let output = output??;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success(),
                "{}\n{}",
                output.status,
                stderr.trim_end()
            );
            let stdout = String::from_utf8_lossy(&output.stdout);
            serde_json::from_str(&stdout)
                .with_context(|| format!("it printed no such JSON, but {stdout}"))
        };
        asked.await.with_context(|| format!("step: {step}"))
    }
}

/// What a role is started with, as often as needed.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    at_site: bool,
}

impl Spec {
    pub(crate) fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            at_site: false,
        }
    }

    /// It belongs to the site, and runs in its network.
    pub(crate) fn at_site(mut self) -> Self {
        self.at_site = true;
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

pub(crate) struct Role {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Role {
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child
            .id()
            .with_context(|| format!("{} has ended", self.name))
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
                time::sleep(LOOK).await;
            }
        };
        match time::timeout(READY, appeared).await {
            Ok(ready) => ready,
            Err(_) => Err(self.failed(&format!(
                "wait for {}, which is not there after {READY:?}",
                file.display()
            ))),
        }
    }

    /// # Errors
    /// If the role has ended by itself, with the end of its log.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!(self.failed(&format!("run {}, which ended: {status}", self.name)))
            }
        }
    }

    pub(crate) fn failed(&self, step: &str) -> anyhow::Error {
        anyhow!(
            "step: {step}\nlog: {}\n{}",
            self.log.display(),
            last_lines(&self.log)
        )
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid()?.try_into()?).context("a process has a number")?;
        kill_process(pid, Signal::TERM)?;
        match time::timeout(STOP, self.child.wait()).await {
            Ok(status) => {
                let status = status?;
                ensure!(
                    status.success(),
                    self.failed(&format!("it ended: {status}"))
                );
                Ok(())
            }
            Err(_) => Err(self.failed(&format!("it has not ended after {STOP:?}"))),
        }
    }

    pub(crate) async fn end(mut self) {
        if let Err(error) = self.child.kill().await {
            eprintln!("ending {}: {error}", self.name);
        }
    }
}

fn log_to(command: &mut Command, log: &Path) -> anyhow::Result<()> {
    // A role that is started again goes on in its log.
    let file = OpenOptions::new().create(true).append(true).open(log);
    let file = file.with_context(|| format!("making {}", log.display()))?;
    command.stderr(file.try_clone()?).stdout(file);
    Ok(())
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(LAST_LINES)..)
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

fn last_allowed_core() -> anyhow::Result<usize> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    last_in_list(&status).context("/proc/self/status has no Cpus_allowed_list")
}

/// Of `Cpus_allowed_list: 0-3,7`, the 7.
fn last_in_list(status: &str) -> Option<usize> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_allowed_core_is_read_from_a_list_of_ranges() {
        assert_eq!(
            last_in_list("Name:\tx\nCpus_allowed_list:\t0-3,7\n"),
            Some(7)
        );
        assert_eq!(last_in_list("Cpus_allowed_list:\t0-1\n"), Some(1));
        assert_eq!(last_in_list("Cpus_allowed_list:\t5\n"), Some(5));
        assert_eq!(last_in_list("Name:\tx\n"), None);
    }

    #[tokio::test]
    async fn a_role_that_ends_early_is_reported_with_the_end_of_its_log() {
        let dir = tempfile::TempDir::new().unwrap();
        let launcher = Launcher::new(false, None, dir.path().to_owned())
            .await
            .unwrap();
        let mut command = launcher.command(Path::new("sh"));
        command.args(["-c", "echo no such luck >&2; exit 3"]);
        let mut role = launcher.start("luckless", command).unwrap();
        let error = role
            .ready::<serde_json::Value>(&dir.path().join("ready.json"))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3")
                && error.contains("luckless.log")
                && error.contains("no such luck"),
            "{error}"
        );
    }
}
