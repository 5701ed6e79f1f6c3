//! A PostgreSQL of its own, built or found by `e2e/postgres/build`.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/postgres");
/// It may have to be fetched first.
const READY: Duration = Duration::from_secs(300);

/// In a scratch directory, on a socket there; ended when it is dropped.
pub struct Postgres {
    folder: tempfile::TempDir,
    _runs: Child,
}

impl Postgres {
    /// # Errors
    /// There is none to run, or it does not get ready.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// With settings like `fsync=on`.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub async fn start_with(settings: &[&str]) -> anyhow::Result<Self> {
        let built = Command::new(format!("{RIG}/build")).output();
        let built = timeout(READY, built).await;
        let built = built.context("no PostgreSQL in time")??;
        let said = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "there is no PostgreSQL: {said}");
        let bin = String::from_utf8(built.stdout)?;
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp")?;
        let mut runs = Command::new(format!("{RIG}/server"))
            .arg(bin.trim_end())
            .arg(folder.path())
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = runs.stdout.take().context("no output")?;
        let mut said = BufReader::new(out).lines();
        let said = timeout(READY, said.next_line()).await;
        let said = said.context("PostgreSQL is not ready in time")??;
        ensure!(said.as_deref() == Some("ready"), "{said:?}");
        Ok(Self {
            folder,
            _runs: runs,
        })
    }

    /// For `--store`.
    #[must_use]
    pub fn url(&self) -> String {
        let folder = self.folder.path().display();
        format!("postgres:///postgres?host={folder}&user=fairlead")
    }
}
