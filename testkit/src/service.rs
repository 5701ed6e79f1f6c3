//! Foreign servers that `e2e/NAME/build` builds or finds and `e2e/NAME/server` runs.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, ensure};

/// A running server. It ends when this is dropped or when this program ends.
#[derive(Debug)]
pub(crate) struct Service(Child);

impl Service {
    /// Starts the server `name` and returns it with the first line that it prints when it is ready.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub(crate) fn start<A: AsRef<OsStr>>(
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<(Self, String)> {
        let scripts = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e")).join(name);
        let program = build(name)?;
        let mut child = Command::new(scripts.join("server"))
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{name} ended before it was ready");
        Ok((Self(child), line.trim_end().to_owned()))
    }

    /// Kills the server and keeps its folder.
    pub(crate) fn stop(mut self) {
        // The script deletes nothing when it reads a line; at the end of its input it cleans up.
        if let Some(mut stdin) = self.0.stdin.take() {
            stdin.write_all(b"\n").ok();
        }
        self.0.wait().ok();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
    }
}

/// Builds or finds the server `name` and returns its program or folder.
///
/// # Errors
/// It cannot be built; the error quotes the script.
pub(crate) fn build(name: &str) -> anyhow::Result<String> {
    let script = format!(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/{}/build"),
        name
    );
    let built = Command::new(script).output()?;
    let reason = String::from_utf8_lossy(&built.stderr);
    ensure!(
        built.status.success(),
        "{name} cannot be built: {}",
        reason.trim()
    );
    Ok(String::from_utf8(built.stdout)?.trim().to_owned())
}
