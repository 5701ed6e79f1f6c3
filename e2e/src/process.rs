//! Programs under test: the built `fairlead`, and whatever stands around it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};

use crate::pod::Room;
use crate::spawner::{die_with_parent, on_lasting_thread};
use crate::{NetNs, Pod, build_folder, env, eventually};

/// A program in the making. Its environment holds PATH and what was set here.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    room: Option<Room>,
    net: Option<NetNs>,
    group: Option<u32>,
}

impl Launch {
    /// The built `fairlead`: `FAIRLEAD_BIN`, or the one beside this test's own build.
    ///
    /// # Errors
    /// There is none; the error says how to build it.
    pub fn fairlead() -> anyhow::Result<Self> {
        Self::named_by("FAIRLEAD_BIN").unwrap_or_else(|| Self::beside("fairlead"))
    }

    /// The `fairlead` that is to be the hub, and its people's command: `FAIRLEAD_HUB_BIN`, so that hub and agent may be of
    /// two versions.
    ///
    /// # Errors
    /// As [`Launch::fairlead`].
    pub fn hub() -> anyhow::Result<Self> {
        Self::named_by("FAIRLEAD_HUB_BIN").unwrap_or_else(Self::fairlead)
    }

    /// The `fairlead` that is to be the agent: `FAIRLEAD_AGENT_BIN`.
    ///
    /// # Errors
    /// As [`Launch::fairlead`].
    pub fn agent() -> anyhow::Result<Self> {
        Self::named_by("FAIRLEAD_AGENT_BIN").unwrap_or_else(Self::fairlead)
    }

    fn named_by(variable: &str) -> Option<anyhow::Result<Self>> {
        let path = PathBuf::from(env(variable)?);
        Some(if path.exists() {
            Ok(Self::new(path))
        } else {
            Err(anyhow::anyhow!("{variable}: {} is missing", path.display()))
        })
    }

    /// A program beside this test's own build.
    ///
    /// # Errors
    /// There is none; the error says how to build it.
    pub fn beside(name: &str) -> anyhow::Result<Self> {
        let program = build_folder()?.join(name);
        if !program.exists() {
            let place = program.display();
            bail!(
                "{place} is missing: `cargo build --bin {name}`, or for fairlead set FAIRLEAD_BIN"
            );
        }
        Ok(Self::new(program))
    }

    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let path = ("PATH".into(), env("PATH").unwrap_or_default().into());
        Self {
            program: program.into(),
            args: Vec::new(),
            env: vec![path],
            room: None,
            net: None,
            group: None,
        }
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs it as a container of that pod would.
    #[must_use]
    pub fn in_pod(mut self, pod: &Pod) -> Self {
        self.room = Some(pod.room());
        self
    }

    /// Runs it in that network namespace.
    #[must_use]
    pub fn in_net(mut self, net: &NetNs) -> Self {
        self.net = Some(net.clone());
        self
    }

    /// Runs it in that group, by which a firewall can tell it from others. Needs root.
    #[must_use]
    pub fn in_group(mut self, group: u32) -> Self {
        self.group = Some(group);
        self
    }

    /// Starts it; what it prints goes to `log`, after what is there already.
    ///
    /// # Errors
    /// The log cannot be written, or it cannot be started.
    pub fn spawn(self, log: impl AsRef<Path>) -> anyhow::Result<Process> {
        let log = log.as_ref().to_owned();
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone()?;
        let name = self.program.display().to_string();
        // Every wrapper becomes what it starts, so the child's id is the program's.
        let mut words = self.net.as_ref().map(NetNs::entrance).unwrap_or_default();
        if let Some(room) = &self.room {
            words.extend(room.entrance()?);
        }
        if let Some(group) = self.group {
            let group = format!("--regid={group}");
            words.extend(["setpriv", &group, "--clear-groups", "--"].map(OsString::from));
        }
        words.extend(die_with_parent(self.program.as_os_str()).map(OsString::from));
        words.extend(self.args);
        let room_env = self.room.map(|room| room.environment());
        let child = on_lasting_thread(move || {
            let mut words = words.into_iter();
            Command::new(words.next().unwrap_or_default())
                .args(words)
                .env_clear()
                .envs(room_env.into_iter().flatten())
                .envs(self.env)
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err)
                .spawn()
        })?
        .with_context(|| format!("cannot start {name}"))?;
        Ok(Process { name, log, child })
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Resident memory, bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub fds: usize,
}

/// A running program; it is killed when dropped, and when this process ends, however that happens.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> anyhow::Result<String> {
        let bytes = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until `path` exists, as a ready file does, and reads it.
    ///
    /// # Errors
    /// It does not exist in time, or the program has ended; the error quotes the log.
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

    /// Waits until it has printed `text`.
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
            Some(Err(anyhow::anyhow!("ended with {status}: no {what}")))
        });
        let found = found.await.flatten();
        found.with_context(|| format!("log: {}", self.log().unwrap_or_default()))
    }

    /// Its end, if it ends in time.
    ///
    /// # Errors
    /// It does not; the error quotes the log.
    pub async fn wait(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        let end = eventually(deadline, &what, async || self.child.try_wait().transpose());
        let end = end.await.and_then(|status| Ok(status?));
        end.with_context(|| format!("log: {}", self.log().unwrap_or_default()))
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// It has ended already.
    pub fn term(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it without a word, as a crash or an empty battery does, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill_9(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends any signal; [`Signal::STOP`] makes a peer silent that the network still answers for.
    ///
    /// # Errors
    /// It has ended already.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended: {status}", self.name);
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// # Errors
    /// It has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        usage(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill_9());
    }
}

/// What any process of this machine has used so far.
///
/// # Errors
/// There is none with this id, or it is another user's.
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
