//! A PostgreSQL of its own, by the rig that the store's tests have: in a scratch folder, on a socket there.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time,
};

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/postgres");
/// It may have to be fetched first.
const READY: Duration = Duration::from_secs(300);

pub(super) struct Server {
    /// Ends when its standard input does.
    _runs: Child,
    folder: TempDir,
}

impl Server {
    /// # Errors
    /// If there is no PostgreSQL here and none to be had.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let built = Command::new(format!("{RIG}/build")).output();
        let built = time::timeout(READY, built)
            .await
            .context("no PostgreSQL in time")??;
        let said = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "there is no PostgreSQL: {said}");
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp")?;
        let bin = String::from_utf8(built.stdout)?;
        let mut child = Command::new(format!("{RIG}/server"))
            .arg(bin.trim())
            .arg(folder.path())
            .args(["fsync=on", "shared_buffers=1GB", "max_wal_size=4GB"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("it has no output")?;
        let mut lines = BufReader::new(out).lines();
        let ready = time::timeout(READY, lines.next_line()).await;
        let ready = ready.context("PostgreSQL is not ready in time")??;
        ensure!(
            ready.as_deref() == Some("ready"),
            "PostgreSQL did not start"
        );
        Ok(Server {
            folder,
            _runs: child,
        })
    }

    pub(super) fn url(&self) -> String {
        let folder: &Path = self.folder.path();
        format!(
            "postgres:///postgres?host={}&user=fairlead",
            folder.display()
        )
    }
}
