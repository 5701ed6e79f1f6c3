//! A hub that runs alone as `fairlead server`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time;

use super::client::BenchCaller;
use crate::{
    launch::{Launcher, Role, Spec},
    load::cpu,
    ports, proc,
};

/// Deadline of a backup or restore. A store of many rows takes hours.
const COMMAND_DEADLINE: Duration = Duration::from_secs(4 * 3600);

/// Location of a hub's data.
#[derive(Debug, Clone)]
pub(crate) struct HubHome {
    pub(crate) fairlead: PathBuf,
    pub(crate) data: PathBuf,
    /// `postgres://…`; `None` is the file in `data`.
    pub(crate) store: Option<String>,
}

pub(crate) struct Hub {
    role: Role,
    pub(crate) url: String,
    pub(crate) token: String,
    tls: Arc<ClientConfig>,
}

/// Fields of the hub's ready file.
#[derive(Deserialize)]
struct Ready {
    ca_file: PathBuf,
    token_file: PathBuf,
}

impl HubHome {
    fn store(&self) -> Vec<String> {
        let store = self.store.iter();
        store
            .flat_map(|url| ["--store".to_owned(), url.clone()])
            .collect()
    }

    /// File of the SQLite store.
    pub(crate) fn database(&self) -> PathBuf {
        self.data.join("fairlead.db")
    }

    pub(crate) async fn start(&self, launcher: &Launcher) -> anyhow::Result<Hub> {
        let (port, admin) = (ports::free()?, ports::free()?);
        let url = format!("https://127.0.0.1:{port}");
        let ready_file = self.data.with_extension("ready.json");
        if ready_file.exists() {
            std::fs::remove_file(&ready_file)?;
        }
        let spec = Spec::new("hub", &self.fairlead)
            .args(["server", "--data"])
            .arg(&self.data)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--admin", &format!("127.0.0.1:{admin}")])
            .args(["--public-url", &url])
            .arg("--ready-file")
            .arg(&ready_file)
            .args(self.store());
        let mut role = launcher.run(&spec)?;
        let ready: Ready = role.ready(&ready_file).await?;
        let token = std::fs::read_to_string(&ready.token_file);
        let token = token.with_context(|| ready.token_file.display().to_string())?;
        Ok(Hub {
            role,
            url,
            token: token.trim().to_owned(),
            tls: crate::tls::client(&ready.ca_file)?,
        })
    }

    /// Runs `fairlead backup` or `fairlead restore` while the hub is stopped.
    pub(crate) async fn whole(
        &self,
        launcher: &Launcher,
        words: &[&str],
        file: &std::path::Path,
    ) -> anyhow::Result<()> {
        let mut command = launcher.command(&self.fairlead);
        command.args(words).arg("--data").arg(&self.data);
        command.args(self.store()).arg(file);
        let output = time::timeout(COMMAND_DEADLINE, command.output()).await;
        let output = output.context("no end in time")??;
        ensure!(
            output.status.success(),
            "fairlead {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Hub {
    pub(crate) fn caller(&self) -> anyhow::Result<BenchCaller> {
        BenchCaller::new(&self.url, Some(Arc::clone(&self.tls)))
    }

    /// # Errors
    /// The hub has ended by itself.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        self.role.alive()
    }

    /// TLS of clients that trust the hub.
    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// Processor time since the hub started, in microseconds.
    pub(crate) fn micros(&self) -> anyhow::Result<u64> {
        cpu::of(&self.role.pid().to_string())
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        proc::memory(self.role.pid())
    }

    /// Stops the hub and waits until its store is closed.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.role.stop().await
    }
}
