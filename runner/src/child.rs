//! One program: started under a guard, read, stopped, reaped.

use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use crate::{
    config::Config,
    memory, processes,
    refusal::Refusal,
    request::{RunKey, RunRequest},
    run::{OutputKind, Run},
    status::{Cause, Ending, Exit},
    work::{KEPT_VARIABLE, POST_RENDERER_VARIABLE, WorkFolder},
};

const READ_BUFFER_BYTES: usize = 16 << 10;
/// Time for the rest of the output once the process group is gone.
const OUTPUT_DEADLINE: Duration = Duration::from_secs(2);

/// A started program with its folder.
pub(crate) struct Started {
    child: Child,
    group: Pid,
    folder: Arc<WorkFolder>,
    oom_kills: Option<u64>,
    started: Instant,
}

impl Started {
    /// Starts the program of a request. Its process group has the id of its process.
    pub(crate) fn start(
        config: &Config,
        key: &RunKey,
        request: &RunRequest,
        folder: Arc<WorkFolder>,
    ) -> Result<Self, Refusal> {
        let missing = || Refusal::ProgramMissing(config.helm.display().to_string());
        if !config.helm.is_absolute() || !config.helm.is_file() {
            return Err(missing());
        }
        let (guard, first) = config.guard.split_first().ok_or_else(missing)?;
        let mut environment = environment(&folder);
        if let Some(kept) = request.operation.kept() {
            folder.write_post_renderer()?;
            let kept = folder.files().join(kept.to_path());
            environment.push((POST_RENDERER_VARIABLE, config.program.clone().into()));
            environment.push((KEPT_VARIABLE, kept.into()));
        }
        let mut command = Command::new(guard);
        command
            .args(first)
            .arg(format!("--parent={}", std::process::id()))
            .arg("--")
            .arg(&config.helm)
            .args(request.operation.args(key, &folder.files()))
            .env_clear()
            .envs(environment)
            .current_dir(folder.files())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let oom_kills = memory::oom_kills();
        let child = command.spawn()?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = group.ok_or_else(|| Refusal::System("the program has no process id".into()))?;
        Ok(Started {
            child,
            group,
            folder,
            oom_kills,
            started: Instant::now(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// Follows the program to its end, and removes its processes and its folder.
    pub(crate) async fn supervise(
        mut self,
        run: &Arc<Run>,
        time: Duration,
        kill_delay: Duration,
    ) -> Ending {
        let readers = [
            self.child
                .stdout
                .take()
                .map(|pipe| read(Arc::clone(run), pipe, OutputKind::Out)),
            self.child
                .stderr
                .take()
                .map(|pipe| read(Arc::clone(run), pipe, OutputKind::Error)),
        ];
        let status = self.wait(run, time, kill_delay).await;
        // The id of a group is not given to a new process while the group has members.
        processes::signal_group(self.group, Signal::KILL);
        let stray = processes::end_all_in(self.folder.path());
        if stray > 0 {
            warn!(run = %run.key(), stray, "processes outside of the group killed");
        }
        processes::reap_group(self.group);
        for mut reader in readers.into_iter().flatten() {
            if timeout(OUTPUT_DEADLINE, &mut reader).await.is_err() {
                // A process that closed nothing and left the folder holds the pipe.
                reader.abort();
            }
        }
        let grown = |before: u64| memory::oom_kills().is_some_and(|now| now > before);
        let exit = exit(status);
        let ending = Ending {
            exit,
            cause: run.stop_cause().unwrap_or(Cause::Finished),
            out_of_memory: exit == Exit::Signal(Signal::KILL.as_raw())
                && self.oom_kills.is_some_and(grown),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        info!(run = %run.key(), ?ending.exit, ?ending.cause, ending.out_of_memory, "program ended");
        ending
    }

    async fn wait(
        &mut self,
        run: &Run,
        time: Duration,
        kill_delay: Duration,
    ) -> Option<ExitStatus> {
        let deadline = self.started + time;
        let mut stops = run.stops();
        let mut kill_at: Option<Instant> = None;
        loop {
            let stop = *stops.borrow_and_update();
            match (stop, kill_at) {
                (Some(stop), _) if stop.hard => {
                    processes::signal_group(self.group, Signal::KILL);
                    kill_at = Some(Instant::now() + kill_delay);
                }
                (Some(_), None) => {
                    processes::signal_group(self.group, Signal::TERM);
                    kill_at = Some(Instant::now() + kill_delay);
                }
                _ => {}
            }
            tokio::select! {
                status = self.child.wait() => return status.ok(),
                _ = stops.changed() => {}
                () = sleep_until(deadline), if kill_at.is_none() => run.stop(Cause::TimedOut, false),
                () = sleep_until(kill_at.unwrap_or(deadline)), if kill_at.is_some() => {
                    run.stop(Cause::TimedOut, true);
                }
            }
        }
    }
}

/// The whole environment of a program: folders of its own, and no `PATH`.
fn environment(folder: &WorkFolder) -> Vec<(&'static str, OsString)> {
    let home = folder.home();
    let at = |path: &Path| path.as_os_str().to_owned();
    vec![
        ("HOME", at(&home)),
        ("TMPDIR", at(&folder.tmp())),
        ("XDG_CACHE_HOME", at(&home.join("cache"))),
        ("XDG_CONFIG_HOME", at(&home.join("config"))),
        ("XDG_DATA_HOME", at(&home.join("data"))),
        ("HELM_CACHE_HOME", at(&home.join("cache"))),
        ("HELM_CONFIG_HOME", at(&home.join("config"))),
        ("HELM_DATA_HOME", at(&home.join("data"))),
        ("HELM_PLUGINS", at(&folder.plugins())),
        ("HELM_NO_PLUGINS", "1".into()),
        ("HELM_DRIVER", "secret".into()),
        ("KUBECONFIG", at(&folder.kubeconfig())),
        ("NO_COLOR", "1".into()),
    ]
}

fn read(
    run: Arc<Run>,
    mut pipe: impl AsyncRead + Send + Unpin + 'static,
    kind: OutputKind,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        while let Ok(len @ 1..) = pipe.read(&mut buffer).await {
            run.push(kind, buffer.get(..len).unwrap_or_default());
        }
    })
}

fn exit(status: Option<ExitStatus>) -> Exit {
    match status {
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        },
        None => Exit::Signal(0),
    }
}
