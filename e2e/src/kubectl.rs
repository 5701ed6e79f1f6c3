//! The real kubectl.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use fairlead_testkit::process::ProcessLocation;
use fairlead_testkit::spawner::{die_with_parent, on_lasting_thread};
use fairlead_testkit::wait::setting;

use crate::netns::NetNs;
use crate::pty::Terminal;

/// Default deadline of a call.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How exec, attach, cp and port-forward upgrade their connection.
///
/// kubectl silently falls back from WebSocket to SPDY, so a test of WebSocket must also check the requests at
/// the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeProtocol {
    /// WebSocket upgrade.
    WebSocket,
    /// SPDY/3.1 upgrade.
    Spdy,
}

/// A call of kubectl, not yet started. Its environment holds only PATH, a HOME next to the kubeconfig, and
/// the variables set here.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Value of KUBECONFIG for several files.
    joined: Option<OsString>,
    context: Option<String>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    deadline: Duration,
    net: Option<NetNs>,
}

impl Kubectl {
    /// Usually called by [`Cluster::kubectl`](crate::Cluster::kubectl).
    #[must_use]
    pub fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self {
            program,
            kubeconfig,
            joined: None,
            context: None,
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            deadline: CALL_DEADLINE,
            net: None,
        }
    }

    /// Path of the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Uses another kubeconfig than the administrator's.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = path.into();
        self
    }

    /// Uses several kubeconfigs. Of two entries with one name, kubectl takes the first.
    #[must_use]
    pub fn joined(mut self, paths: &[PathBuf]) -> Self {
        let names: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
        self.joined = Some(names.join(OsStr::new(":")));
        self
    }

    /// Sets `--context`.
    #[must_use]
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// Appends arguments.
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

    /// Sets the environment variables for this transport.
    #[must_use]
    pub fn transport(self, transport: UpgradeProtocol) -> Self {
        let websocket = match transport {
            UpgradeProtocol::WebSocket => "true",
            UpgradeProtocol::Spdy => "false",
        };
        self.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websocket)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket)
    }

    /// Sets the whole standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs it in that network namespace.
    #[must_use]
    pub fn in_net(mut self, net: &NetNs) -> Self {
        self.net = Some(net.clone());
        self
    }

    /// Sets the time limit of the whole run.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end. A failure is a result too: see [`Output::success`].
    ///
    /// # Errors
    /// It cannot be started, or does not end within the deadline.
    pub async fn run(mut self) -> anyhow::Result<Output> {
        let (stdin, deadline) = (std::mem::take(&mut self.stdin), self.deadline);
        let line = self.line();
        let mut child = self.start()?;
        let pipe = child.stdin.take();
        let feed = async move {
            if let Some(mut pipe) = pipe {
                // kubectl may end without reading all of its input.
                drop(pipe.write_all(&stdin).await);
            }
        };
        let (output, ()) = timeout(deadline, async {
            tokio::join!(child.wait_with_output(), feed)
        })
        .await
        .with_context(|| format!("{line} has not ended within {deadline:?}"))?;
        let output = output?;
        Ok(Output {
            line,
            status: output.status,
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Starts it in the background, for a watch, `logs -f` or an interactive exec.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(self) -> anyhow::Result<RunningKubectl> {
        let (line, deadline) = (self.line(), self.deadline);
        let mut child = self.start()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no standard output")?;
        let mut pipe = child.stderr.take().context("no standard error")?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&stderr);
        let reader = tokio::spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                let mut all = sink.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(chunk.iter().take(count));
            }
        });
        Ok(RunningKubectl {
            line,
            deadline,
            child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
            stderr,
            reader,
        })
    }

    /// Starts it on a terminal, for `exec -it`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn terminal(self, rows: u16, columns: u16) -> anyhow::Result<Terminal> {
        let mut command = std::process::Command::new("setsid");
        command
            .arg("--ctty")
            .args(self.command())
            .env_clear()
            .env("TERM", "xterm")
            .envs(self.environment());
        Terminal::start(self.line(), command, rows, columns)
    }

    /// Runs `kubectl port-forward TARGET :PORT` and returns the local port.
    ///
    /// # Errors
    /// It cannot be started, or does not print a local port within the deadline.
    pub async fn port_forward(
        self,
        target: &str,
        port: u16,
    ) -> anyhow::Result<(u16, RunningKubectl)> {
        let mut running = self
            .args(["port-forward", target, &format!(":{port}")])
            .spawn()?;
        let Some(line) = running.next_line().await? else {
            bail!("{} ended: {}", running.line, running.stderr());
        };
        // Forwarding from 127.0.0.1:40123 -> 80
        let local = line
            .strip_prefix("Forwarding from 127.0.0.1:")
            .and_then(|rest| rest.split(' ').next())
            .with_context(|| format!("no local port in {line:?}"))?
            .parse()?;
        Ok((local, running))
    }

    fn start(self) -> anyhow::Result<Child> {
        let (words, environment) = (self.command(), self.environment());
        let line = self.line();
        let runtime = Handle::current();
        on_lasting_thread(move || {
            let _runtime = runtime.enter();
            let mut words = words.into_iter();
            Command::new(words.next().unwrap_or_default())
                .args(words)
                .env_clear()
                .envs(environment)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
        })?
        .with_context(|| format!("cannot start {line}"))
    }

    /// The whole command line, including its prefix.
    fn command(&self) -> Vec<OsString> {
        let mut words = self
            .net
            .as_ref()
            .map(ProcessLocation::entrance)
            .unwrap_or_default();
        words.extend(die_with_parent(self.program.as_os_str()).map(OsString::from));
        if self.joined.is_none() {
            words.extend(["--kubeconfig".into(), self.kubeconfig.clone().into()]);
        }
        if let Some(context) = &self.context {
            words.extend(["--context".into(), context.into()]);
        }
        words.extend(self.args.iter().cloned());
        words
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        // kubectl caches discovery under HOME by host and port for hours. Two clusters that use one port in
        // succession must not share it.
        let mut home = self.kubeconfig.clone().into_os_string();
        home.push(".home");
        let mut environment = vec![
            ("PATH".into(), setting("PATH").unwrap_or_default().into()),
            ("HOME".into(), home),
        ];
        let joined = self.joined.iter().cloned();
        environment.extend(joined.map(|list| ("KUBECONFIG".into(), list)));
        environment.extend(self.env.iter().cloned());
        environment
    }

    fn line(&self) -> String {
        let args: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy()).collect();
        format!("kubectl {}", args.join(" "))
    }
}

/// Runs another program to its end, with an empty standard input.
pub(crate) async fn run_to_end(
    line: String,
    mut command: Command,
    deadline: Duration,
) -> anyhow::Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(deadline, command.output())
        .await
        .with_context(|| format!("{line} has not ended within {deadline:?}"))??;
    Ok(Output {
        line,
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Result of an ended kubectl.
#[derive(Debug, Clone)]
pub struct Output {
    line: String,
    /// Exit status.
    pub status: ExitStatus,
    /// Whole standard output.
    pub stdout: Vec<u8>,
    /// Whole standard error, lossily decoded.
    pub stderr: String,
}

impl Output {
    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output of a successful call.
    ///
    /// # Errors
    /// The call failed. The error quotes its output.
    pub fn success(self) -> anyhow::Result<String> {
        if !self.status.success() {
            bail!("{}: {}: {}", self.line, self.status, self.stderr.trim_end());
        }
        Ok(self.text())
    }
}

/// A kubectl that runs until it is ended or dropped.
#[derive(Debug)]
pub struct RunningKubectl {
    line: String,
    deadline: Duration,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl RunningKubectl {
    /// Next line of standard output, within the deadline of the call; `None` at its end.
    ///
    /// # Errors
    /// There is none in time.
    pub async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        let deadline = self.deadline;
        let line = timeout(deadline, self.stdout.next_line()).await;
        line.with_context(|| {
            let (line, stderr) = (&self.line, self.stderr());
            format!("{line} printed no line within {deadline:?}; standard error: {stderr:?}")
        })?
        .context("cannot read standard output")
    }

    /// Standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        let all = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// The input is closed. If it has ended, the error quotes its end and its standard error.
    pub async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("standard input was closed")?;
        let written = async {
            stdin.write_all(bytes).await?;
            stdin.flush().await
        };
        if let Err(error) = written.await {
            let end = self.wait().await;
            let (line, stderr) = (&self.line, self.stderr());
            bail!("{line} takes no input: {error}; {end:?}; standard error: {stderr:?}");
        }
        Ok(())
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Process id; `None` after the process has been reaped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal, such as [`Signal::INT`] for Ctrl-C.
    ///
    /// # Errors
    /// It has ended already.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).context("it has ended")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for its end, within the deadline of the call. Its standard error is complete then.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let (line, deadline) = (&self.line, self.deadline);
        let end = async {
            let status = self.child.wait().await?;
            (&mut self.reader).await?;
            anyhow::Ok(status)
        };
        timeout(deadline, end)
            .await
            .with_context(|| format!("{line} has not ended within {deadline:?}"))?
    }
}
