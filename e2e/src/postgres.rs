//! A PostgreSQL of its own, built or found by `e2e/postgres/build`.

use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/postgres");

/// In a scratch directory, on a socket there; ended when it is dropped.
pub struct Postgres {
    folder: tempfile::TempDir,
    _runs: Child,
}

impl Postgres {
    /// # Errors
    /// There is none to run, or it does not get ready.
    pub async fn start() -> anyhow::Result<Self> {
        let mut build = Command::new(format!("{RIG}/build"));
        let built = build.stderr(Stdio::inherit()).output().await?;
        ensure!(
            built.status.success(),
            "there is no PostgreSQL to test with"
        );
        let bin = String::from_utf8(built.stdout)?;
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp")?;
        let mut runs = Command::new(format!("{RIG}/server"))
            .arg(bin.trim_end())
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = runs.stdout.take().context("no output")?;
        let said = BufReader::new(out).lines().next_line().await?;
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
