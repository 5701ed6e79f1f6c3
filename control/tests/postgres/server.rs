//! A private PostgreSQL in a scratch directory on a Unix socket, stopped on drop and at program
//! exit.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/postgres");

pub(crate) struct Server {
    folder: PathBuf,
    settings: &'static [&'static str],
    runs: Option<Child>,
    /// Removed together with the server.
    _own: Option<TempDir>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Server::start_with(&[])
    }

    /// Starts with settings like `log_connections=on`.
    pub(crate) fn start_with(settings: &'static [&'static str]) -> Self {
        // Socket paths are limited to about 100 bytes.
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp");
        let folder = folder.unwrap();
        let mut server = Server::start_in(folder.path(), settings);
        server._own = Some(folder);
        server
    }

    /// Starts in a folder owned by the caller.
    pub(crate) fn start_in(folder: &Path, settings: &'static [&'static str]) -> Self {
        let mut server = Server {
            folder: folder.to_owned(),
            settings,
            runs: None,
            _own: None,
        };
        server.resume();
        server
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops like `systemctl stop`, but immediately.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.runs.take() {
            // A line on standard input stops the server but keeps its folder.
            child.stdin.take().unwrap().write_all(b"\n").ok();
            child.wait().unwrap();
        }
    }

    pub(crate) fn resume(&mut self) {
        let built = Command::new(format!("{RIG}/build")).output().unwrap();
        assert!(
            built.status.success(),
            "there is no PostgreSQL to test with: {}",
            String::from_utf8_lossy(&built.stderr)
        );
        let bin = String::from_utf8(built.stdout).unwrap();
        let mut child = Command::new(format!("{RIG}/server"))
            .arg(bin.trim())
            .arg(&self.folder)
            .args(self.settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        self.runs = Some(child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
