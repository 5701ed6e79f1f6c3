//! One process of a peer. It may be ended and restarted in the middle of a measurement.

use std::{
    fs::OpenOptions, io::Write as _, net::Ipv4Addr, os::unix::fs::OpenOptionsExt as _, path::Path,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use tokio::{net::TcpStream, time};

use crate::launch::{Launcher, Role, Spec};

const LISTEN_DEADLINE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct PeerPart {
    role: &'static str,
    spec: Spec,
    running: Option<Role>,
}

impl PeerPart {
    pub(super) fn new(role: &'static str, spec: Spec) -> Self {
        Self {
            role,
            spec,
            running: None,
        }
    }

    pub(crate) fn start(&mut self, launcher: &Launcher) -> anyhow::Result<()> {
        self.running = Some(launcher.run(&self.spec)?);
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(role) = self.running.take() {
            role.kill();
        }
    }

    /// Stops the process if its launcher drains, and kills it otherwise.
    pub(crate) async fn end(&mut self) {
        if let Some(role) = self.running.take() {
            role.end().await;
        }
    }

    fn role(&self) -> anyhow::Result<&Role> {
        let role = self.running.as_ref();
        role.with_context(|| format!("{} is not running", self.role))
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.role()?.pid())
    }

    pub(crate) fn watched(&self) -> anyhow::Result<String> {
        Ok(format!("{}={}", self.role, self.pid()?))
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let role = self.running.as_mut();
        role.context("it is not running")?.signal(signal)
    }

    /// # Errors
    /// The process has ended by itself.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        self.running.as_mut().map_or(Ok(()), Role::alive)
    }

    pub(crate) fn failed(&self, step: &str) -> anyhow::Error {
        self.role()
            .map_or_else(|error| error, |role| role.failed(step))
    }

    pub(super) async fn ready<T: DeserializeOwned>(&mut self, file: &Path) -> anyhow::Result<T> {
        let role = self.running.as_mut();
        role.context("it is not running")?.ready(file).await
    }

    /// Waits until this port of 127.0.0.1 accepts connections.
    pub(crate) async fn listening(&mut self, port: u16) -> anyhow::Result<()> {
        let taken = time::timeout(LISTEN_DEADLINE, async {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .is_err()
            {
                self.alive()?;
                time::sleep(POLL_INTERVAL).await;
            }
            anyhow::Ok(())
        });
        let taken = taken.await;
        taken.unwrap_or_else(|_| Err(self.failed(&format!("wait until port {port} is open"))))
    }
}

/// Writes a new file that only this user can read.
pub(crate) fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| anyhow!(error).context(format!("writing {}", path.display())))
}
