//! The program git, as a child with an environment of its own.
//!
//! No configuration of the machine or of a person applies, nothing prompts, no hook runs. Secrets are in files, never in
//! arguments or URLs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
    time::timeout,
};

use super::failure::SourceFailure;
use crate::proxy::ProgramProxy;

/// Folders with git, ssh and ssh-keygen.
const PROGRAM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Settings of each call: no hooks, no helpers, no redirects, only these protocols.
const SETTINGS: [&str; 13] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.http.allow=always",
    "protocol.ssh.allow=always",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    "submodule.recurse=false",
    "gc.auto=0",
    "gpg.program=/bin/false",
];
/// Number of bytes of messages that are kept.
const MAX_MESSAGE_BYTES: u64 = 64 * 1024;

/// A call of git.
pub(super) struct GitCall<'a> {
    /// Arguments, none of them a secret.
    pub(super) arguments: Vec<OsString>,
    /// Further environment.
    pub(super) environment: &'a [(&'static str, OsString)],
    /// Input of the program.
    pub(super) input: Vec<u8>,
    /// Limit of the output in bytes.
    pub(super) max_output: u64,
    /// Limit of the time.
    pub(super) deadline: Duration,
}

impl<'a> GitCall<'a> {
    /// A call with a small output.
    pub(super) fn new<const N: usize>(arguments: [&str; N]) -> Self {
        GitCall {
            arguments: arguments.map(OsString::from).into(),
            environment: &[],
            input: Vec::new(),
            max_output: 1024 * 1024,
            deadline: Duration::from_secs(60),
        }
    }

    pub(super) fn environment(self, environment: &'a [(&'static str, OsString)]) -> Self {
        GitCall {
            environment,
            ..self
        }
    }
}

/// The program, and an empty home.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    home: PathBuf,
    proxy: ProgramProxy,
}

impl Git {
    /// The program at this path or of this name, with an empty folder as home.
    pub(super) fn new(program: PathBuf, home: PathBuf, proxy: ProgramProxy) -> Self {
        Git {
            program,
            home,
            proxy,
        }
    }

    /// Runs a call in a repository, and returns its output.
    ///
    /// # Errors
    /// [`SourceFailure`] with the last line of the messages.
    pub(super) async fn run(
        &self,
        repository: Option<&Path>,
        call: GitCall<'_>,
    ) -> Result<Vec<u8>, SourceFailure> {
        let mut command = self.command(repository, &call);
        let child = command.spawn();
        let mut child = child.map_err(|error| SourceFailure::program("git", &error))?;
        let (input, output, messages) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut input) = input {
                // A program that has ended reads no more.
                let _ = input.write_all(&call.input).await;
            }
        };
        let work = async {
            let (output, messages, ()) = tokio::join!(
                read(output, call.max_output),
                read(messages, MAX_MESSAGE_BYTES),
                feed
            );
            (child.wait().await, output, messages)
        };
        let Ok((status, output, messages)) = timeout(call.deadline, work).await else {
            let seconds = call.deadline.as_secs();
            return Err(SourceFailure::unreachable(format!(
                "git did not end within {seconds} s"
            )));
        };
        let status = status.map_err(|error| SourceFailure::program("git", &error))?;
        if !status.success() {
            let messages = String::from_utf8_lossy(&messages);
            return Err(SourceFailure::of_messages(&messages));
        }
        if output.len() as u64 > call.max_output {
            let limit = call.max_output >> 20;
            return Err(SourceFailure::git(format!(
                "the answer has more than {limit} MiB"
            )));
        }
        Ok(output)
    }

    fn command(&self, repository: Option<&Path>, call: &GitCall<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", PROGRAM_PATH)
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS", "/bin/false")
            .env("GIT_SSH_VARIANT", "ssh")
            .envs(call.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        self.proxy.set(&mut command);
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        if let Some(repository) = repository {
            command.arg("--git-dir").arg(repository);
        }
        command.args(&call.arguments);
        command
    }
}

/// Reads to the end, and keeps one byte more than the limit.
async fn read(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(stream) = stream {
        let mut limited = stream.take(limit + 1);
        let _ = limited.read_to_end(&mut kept).await;
        // The program must not wait for a reader.
        let _ = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
    }
    kept
}
