//! A PostgreSQL in a scratch directory, reached by a Unix socket there.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::service::{Service, build};

/// A PostgreSQL server. It ends when this is dropped or when this program ends.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    settings: Vec<String>,
    service: Option<Service>,
    /// Deleted after the server has ended.
    _scratch: Option<TempDir>,
}

impl PostgresServer {
    /// Builds or finds PostgreSQL, and returns the folder of its programs; takes minutes on a machine that has none.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn build() -> anyhow::Result<PathBuf> {
        build("postgres").map(PathBuf::from)
    }

    /// Starts a server with its usual settings.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with more settings, such as `fsync=on`.
    ///
    /// # Errors
    /// As [`PostgresServer::start`].
    pub fn start_with(settings: &[&str]) -> anyhow::Result<Self> {
        // The path of a Unix socket has at most 107 bytes.
        let scratch = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp")?;
        let mut server = Self::start_in(scratch.path(), settings)?;
        server._scratch = Some(scratch);
        Ok(server)
    }

    /// Starts a server in a folder that the caller deletes.
    ///
    /// # Errors
    /// As [`PostgresServer::start`].
    pub fn start_in(folder: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self {
            folder: folder.to_owned(),
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            service: None,
            _scratch: None,
        };
        server.resume()?;
        Ok(server)
    }

    /// Folder of the socket and the data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Value for `--store`: the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        let folder = self.folder.display();
        format!("postgres:///postgres?host={folder}&user=fairlead")
    }

    /// Stops the server at once and keeps its data.
    pub fn stop(&mut self) {
        if let Some(service) = self.service.take() {
            service.stop();
        }
    }

    /// Starts the server again on the same data.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        let folder = self.folder.display().to_string();
        let args = std::iter::once(&folder).chain(&self.settings);
        let (service, line) = Service::start("postgres", args)?;
        anyhow::ensure!(line == "ready", "PostgreSQL is not ready: {line}");
        self.service = Some(service);
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}
