//! Fairlead under callgrind: a program that stands for it, and the commands that count.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{process::Command, time};

/// Longest time of one command. A process writes a profile within seconds.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// Places of valgrind, of the counted program, and of the profiles.
pub(super) struct Callgrind {
    valgrind: PathBuf,
    fairlead: PathBuf,
    dir: PathBuf,
}

impl Callgrind {
    pub(super) fn new(valgrind: PathBuf, fairlead: PathBuf, dir: PathBuf) -> Self {
        Self {
            valgrind,
            fairlead,
            dir,
        }
    }

    /// Writes a program that runs hubs and agents under callgrind, and everything else as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn stand_in(&self) -> anyhow::Result<PathBuf> {
        let path = self.dir.join("fairlead-counted");
        let text = format!(
            "#!/bin/sh\n\
             case $1 in\n\
             dev|agent) export VALGRIND_LIB='{lib}'\n\
             exec '{valgrind}' --tool=callgrind --instr-atstart=no --collect-systime=yes \\\n\
             --dump-instr=yes --dump-line=no --compress-pos=no --compress-strings=no \\\n\
             --vgdb-prefix='{prefix}' --callgrind-out-file='{dir}'/$1.callgrind '{fairlead}' \"$@\" ;;\n\
             *) exec '{fairlead}' \"$@\" ;;\n\
             esac\n",
            lib = self.lib().display(),
            valgrind = self.valgrind.join("bin/valgrind").display(),
            prefix = self.prefix().display(),
            dir = self.dir.display(),
            fairlead = self.fairlead.display(),
        );
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Counts from here on, from zero.
    pub(super) async fn begin(&self, pid: u32) -> anyhow::Result<()> {
        self.command(pid, &["instrumentation", "on"]).await?;
        self.command(pid, &["zero"]).await
    }

    /// Ends the count and returns its profile. `number` counts the profiles of this process from 1.
    ///
    /// # Errors
    /// The process writes no profile in time.
    pub(super) async fn end(&self, pid: u32, role: &str, number: usize) -> anyhow::Result<PathBuf> {
        self.command(pid, &["dump"]).await?;
        self.command(pid, &["instrumentation", "off"]).await?;
        let path = self.dir.join(format!("{role}.callgrind.{number}"));
        ensure!(
            path.exists(),
            "callgrind has not written {}",
            path.display()
        );
        Ok(path)
    }

    async fn command(&self, pid: u32, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(self.valgrind.join("bin/vgdb"));
        command
            .env("VALGRIND_LIB", self.lib())
            .arg(format!("--pid={pid}"))
            .arg(format!("--vgdb-prefix={}", self.prefix().display()))
            .args(words)
            .kill_on_drop(true);
        let output = time::timeout(COMMAND_DEADLINE, command.output())
            .await
            .with_context(|| format!("vgdb {words:?} took over {COMMAND_DEADLINE:?}"))??;
        ensure!(
            output.status.success(),
            "vgdb {words:?} ended: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    fn lib(&self) -> PathBuf {
        self.valgrind.join("libexec/valgrind")
    }

    /// Begin of the names of the pipes by which commands reach a process.
    fn prefix(&self) -> PathBuf {
        self.dir.join("vgdb-pipe")
    }

    pub(super) fn program(&self) -> &Path {
        &self.fairlead
    }
}
