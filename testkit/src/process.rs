//! Programs under test: the built `fairlead` and the programs that it works with.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};

use crate::spawner::{die_with_parent, on_lasting_thread};
use crate::wait::{build_folder, eventually, setting};

/// A place that programs run in, such as a network namespace or a pod.
pub trait ProcessLocation {
    /// Command prefix that leads a program into the place. Each word must replace itself by the next program, so
    /// that the process keeps its id.
    fn entrance(&self) -> Vec<OsString>;

    /// Environment variables that every program finds there.
    fn environment(&self) -> Vec<(OsString, OsString)>;
}

/// A program and its arguments, not yet started.
///
/// Its environment holds `PATH` and the variables set here, unless [`Launch::inherit_env`] is called.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    entrance: Vec<OsString>,
    inherits_env: bool,
}

impl Launch {
    /// The built `fairlead`: `FAIRLEAD_BIN`, or the one in this test's build folder.
    ///
    /// # Errors
    /// There is none. The error tells how to build it.
    pub fn fairlead() -> anyhow::Result<Self> {
        Self::from_setting("FAIRLEAD_BIN").unwrap_or_else(|| Self::built("fairlead"))
    }

    /// The `fairlead` of the hub and of its users: `FAIRLEAD_HUB_BIN`.
    ///
    /// Hub and agent may be of two versions.
    ///
    /// # Errors
    /// As [`Launch::fairlead`].
    pub fn hub() -> anyhow::Result<Self> {
        Self::from_setting("FAIRLEAD_HUB_BIN").unwrap_or_else(Self::fairlead)
    }

    /// The `fairlead` of the agent: `FAIRLEAD_AGENT_BIN`.
    ///
    /// # Errors
    /// As [`Launch::fairlead`].
    pub fn agent() -> anyhow::Result<Self> {
        Self::from_setting("FAIRLEAD_AGENT_BIN").unwrap_or_else(Self::fairlead)
    }

    fn from_setting(variable: &str) -> Option<anyhow::Result<Self>> {
        let path = PathBuf::from(setting(variable)?);
        Some(if path.exists() {
            Ok(Self::new(path))
        } else {
            Err(anyhow::anyhow!("{variable}: {} is missing", path.display()))
        })
    }

    /// A program in this test's build folder.
    ///
    /// # Errors
    /// There is none. The error tells how to build it.
    pub fn built(name: &str) -> anyhow::Result<Self> {
        let program = build_folder()?.join(name);
        if !program.exists() {
            let place = program.display();
            bail!(
                "{place} is missing: `cargo build --bin {name}`, or for fairlead set FAIRLEAD_BIN"
            );
        }
        Ok(Self::new(program))
    }

    /// A program by its path, or by its name in `PATH`.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let path = ("PATH".into(), setting("PATH").unwrap_or_default().into());
        Self {
            program: program.into(),
            args: Vec::new(),
            env: vec![path],
            entrance: Vec::new(),
            inherits_env: false,
        }
    }

    /// Path or name of the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Keeps the environment of this process.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.inherits_env = true;
        self
    }

    /// Runs the program inside `place`. The first place entered is the outermost.
    #[must_use]
    pub fn inside(self, place: &impl ProcessLocation) -> Self {
        let environment = place.environment();
        let launch = self.behind(place.entrance());
        environment
            .into_iter()
            .fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Puts a command prefix before the program.
    #[must_use]
    pub fn behind<A: AsRef<OsStr>>(mut self, prefix: impl IntoIterator<Item = A>) -> Self {
        let words = prefix.into_iter().map(|word| word.as_ref().to_owned());
        self.entrance.extend(words);
        self
    }

    /// Runs the program with this group id, which a firewall rule can match. Needs root.
    #[must_use]
    pub fn in_group(self, group: u32) -> Self {
        let group = format!("--regid={group}");
        self.behind(["setpriv", &group, "--clear-groups", "--"])
    }

    /// The whole command line and its environment, for callers that read the output themselves.
    ///
    /// The program ends with the thread that starts it.
    #[must_use]
    pub fn command(self) -> Command {
        let program = self.program.clone().into_os_string();
        let mut words = self.entrance;
        words.extend(die_with_parent(&program).map(OsString::from));
        words.extend(self.args);
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null());
        if !self.inherits_env {
            command.env_clear();
        }
        command.envs(self.env);
        command
    }

    /// Starts the program and appends its output to `log`.
    ///
    /// # Errors
    /// The log cannot be written, or the program cannot be started.
    pub fn spawn(self, log: impl AsRef<Path>) -> anyhow::Result<Process> {
        let log = log.as_ref().to_owned();
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone()?;
        let log_start = out.metadata()?.len();
        let name = self.program.display().to_string();
        let child = on_lasting_thread(move || self.command().stdout(out).stderr(err).spawn())?
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Process {
            name,
            log,
            log_start,
            child,
        })
    }
}

/// Resources that a process has used since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Resident memory, bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub fds: usize,
}

/// A running program. It is killed when this is dropped and when this process ends.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    /// Bytes of earlier programs at the start of the log.
    log_start: u64,
    child: Child,
}

impl Process {
    /// Process id of the program itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Output of the program so far, after that of earlier programs with the same log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> anyhow::Result<String> {
        let bytes = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Output of this program alone.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn own_log(&self) -> anyhow::Result<String> {
        let bytes = fs::read(&self.log)?;
        let start = usize::try_from(self.log_start)?;
        let own = bytes.get(start..).unwrap_or_default();
        Ok(String::from_utf8_lossy(own).into_owned())
    }

    /// Waits until the file `path` exists, for example a ready file, and reads it.
    ///
    /// # Errors
    /// The file does not exist in time, or the program has ended. The error quotes the log.
    pub async fn wait_for_file(
        &mut self,
        path: impl AsRef<Path>,
        deadline: Duration,
    ) -> anyhow::Result<String> {
        let path = path.as_ref();
        let what = format!("file {}", path.display());
        self.wait_until(&what, deadline, || fs::read_to_string(path).ok())
            .await
    }

    /// Waits until the program has printed `text`.
    ///
    /// # Errors
    /// As [`Process::wait_for_file`].
    pub async fn wait_for_log(&mut self, text: &str, deadline: Duration) -> anyhow::Result<()> {
        let log = self.log.clone();
        self.wait_until(&format!("log line with {text:?}"), deadline, || {
            let bytes = fs::read(&log).ok()?;
            String::from_utf8_lossy(&bytes).contains(text).then_some(())
        })
        .await
    }

    async fn wait_until<T>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut answer: impl FnMut() -> Option<T>,
    ) -> anyhow::Result<T> {
        let what = format!("{what} of {}", self.name);
        let found = eventually(deadline, &what, async || {
            if let Some(answer) = answer() {
                return Some(Ok(answer));
            }
            let status = self.child.try_wait().ok().flatten()?;
            // It may have answered between the look and its end.
            let ended = || anyhow::anyhow!("ended with {status}: no {what}");
            Some(answer().ok_or_else(ended))
        });
        let found = found.await.flatten();
        found.with_context(|| format!("log: {}", self.log().unwrap_or_default()))
    }

    /// Waits until the program ends.
    ///
    /// # Errors
    /// It does not end in time. The error quotes the log.
    pub async fn wait(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        let end = eventually(deadline, &what, async || self.child.try_wait().transpose());
        let end = end.await.and_then(|status| Ok(status?));
        end.with_context(|| format!("log: {}", self.log().unwrap_or_default()))
    }

    /// Exit status, if the program has ended.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Path of the log.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// The program has ended already.
    pub fn term(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL, as after a power failure, and waits until the program is gone.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub fn kill_9(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends any signal. [`Signal::STOP`] makes a peer silent while its kernel still acknowledges.
    ///
    /// # Errors
    /// The program has ended already.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended: {status}", self.name);
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Resources that the program has used so far.
    ///
    /// # Errors
    /// The program has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        usage(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill_9());
    }
}

/// Resources that a process of this machine has used so far.
///
/// # Errors
/// No process has this id, or it belongs to another user.
pub fn usage(pid: u32) -> anyhow::Result<Usage> {
    let own = Path::new("/proc").join(pid.to_string());
    let stat = fs::read_to_string(own.join("stat"))?;
    // The second field is the name in parentheses, which may hold anything; utime and stime are 14 and 15.
    let (_, rest) = stat.rsplit_once(") ").context("no name in stat")?;
    let ticks: u64 = rest
        .split(' ')
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<_, _>>()?;
    let status = fs::read_to_string(own.join("status"))?;
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("no VmRSS in status")?
        .parse::<u64>()?;
    Ok(Usage {
        cpu: Duration::from_millis(ticks * 1000 / clock_ticks_per_second()),
        rss: rss * 1024,
        fds: fs::read_dir(own.join("fd"))?.count(),
    })
}

/// Living children of a process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn children(parent: u32) -> std::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        // Processes end meanwhile.
        let stat = fs::read_to_string(Path::new("/proc").join(name).join("stat"));
        let stat = stat.unwrap_or_default();
        let Some((_, fields)) = stat.rsplit_once(") ") else {
            continue;
        };
        let mut fields = fields.split(' ');
        let (state, its_parent) = (fields.next(), fields.next());
        if state != Some("Z") && its_parent == Some(&parent.to_string()) {
            found.push(pid);
        }
    }
    Ok(found)
}
