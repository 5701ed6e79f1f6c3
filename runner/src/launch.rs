//! A runner for an agent outside of a pod: taken over if it runs, else started as a child of the agent.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::geteuid;
use tokio::{
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::client::{Runner, RunnerError};

const MEMORY_FOLDER: &str = "/dev/shm";
const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);
const CONTACT_INTERVAL: Duration = Duration::from_secs(20);

/// Program and settings of a runner that the agent starts.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Program and first arguments: `fairlead runner`.
    pub command: Vec<OsString>,
    /// Folder with the socket, private to the user. The path of a socket has 107 bytes at most.
    pub folder: PathBuf,
    /// Folder for the files of runs, private to the user.
    pub work: PathBuf,
    /// Program Helm, with its whole path.
    pub helm: PathBuf,
}

/// A runner that an agent outside of a pod uses. Dropping it ends the contact, and so the runner after a minute.
#[derive(Debug)]
pub struct LaunchedRunner {
    runner: Runner,
    contact: JoinHandle<()>,
}

impl LaunchedRunner {
    /// Its client.
    #[must_use]
    pub fn client(&self) -> &Runner {
        &self.runner
    }
}

impl Drop for LaunchedRunner {
    fn drop(&mut self) {
        self.contact.abort();
    }
}

impl Launch {
    /// Settings for the agent with its state in this folder: both folders are in memory where the system allows it.
    #[must_use]
    pub fn for_agent(command: Vec<OsString>, helm: PathBuf, state: &Path) -> Self {
        // The name tells runners of different agents apart (FNV-1a).
        let bytes = state.as_os_str().as_encoded_bytes();
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let memory = PathBuf::from(MEMORY_FOLDER);
        let parent = if memory.is_dir() {
            memory
        } else {
            env::temp_dir()
        };
        let name = format!("fairlead-runner-{}-{hash:016x}", geteuid().as_raw());
        Launch {
            command,
            work: parent.join(format!("{name}-work")),
            folder: parent.join(name),
            helm,
        }
    }

    fn command(&self) -> io::Result<Command> {
        let missing = || io::Error::other("the runner has no program");
        let (program, first) = self.command.split_first().ok_or_else(missing)?;
        let mut command = Command::new(program);
        command
            .args(first)
            .arg("--socket")
            .arg(self.folder.join("socket"))
            .arg("--work")
            .arg(&self.work)
            .arg("--helm")
            .arg(&self.helm)
            .arg("--end-without-agent")
            // The agent's environment may hold its join string or a proxy's password.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // A Ctrl-C for the agent is none for the runner, which ends by itself.
            .process_group(0);
        Ok(command)
    }
}

impl Runner {
    /// Takes over the runner of an earlier agent, or starts one, and keeps contact with it.
    ///
    /// # Errors
    /// The program cannot be started, or does not serve within 10 s.
    pub async fn spawn(launch: &Launch) -> Result<LaunchedRunner, RunnerError> {
        let runner = Runner::at(launch.folder.join("socket"));
        if runner.info().await.is_err() {
            let failed = |source| RunnerError::Unreachable {
                path: runner.socket().to_owned(),
                source,
            };
            let child = launch.command().and_then(|mut command| command.spawn());
            await_start(&runner, child.map_err(failed)?).await?;
        }
        let contact = tokio::spawn(keep_contact(runner.clone()));
        Ok(LaunchedRunner { runner, contact })
    }
}

async fn await_start(runner: &Runner, mut child: Child) -> Result<(), RunnerError> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let error = match runner.info().await {
            Ok(_) => break,
            Err(error) => error,
        };
        let has_ended = !matches!(child.try_wait(), Ok(None));
        if has_ended || Instant::now() >= deadline {
            return Err(error);
        }
        sleep(START_POLL).await;
    }
    // The task reaps the process.
    tokio::spawn(async move { drop(child.wait().await) });
    Ok(())
}

async fn keep_contact(runner: Runner) {
    loop {
        sleep(CONTACT_INTERVAL).await;
        // A runner that is gone shows in the next call of the agent.
        drop(runner.info().await);
    }
}
