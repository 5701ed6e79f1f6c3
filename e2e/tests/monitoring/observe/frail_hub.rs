//! A second hub for faults of its disk, its database and its people, with an agent behind a relay that delivers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Site, dex::Dex, helm};
use fairlead_testkit::{mounts, relay::Relay};
use tempfile::TempDir;

use super::world::every;

/// Space for the audit log, and little enough to be filled at once.
const DISK_OPTIONS: &str = "size=2m,mode=0700";
/// Little enough for a few dozen uploads.
const SESSION_MEMORY: &str = "2MiB";
/// People of this group may take a role in an emergency.
const ON_CALL: &str = "on-call";

pub(super) struct FrailHub {
    // Its fields are dropped in this order.
    _site: Site,
    pub(super) hub: Hub,
    /// Between the agent and the hub.
    pub(super) relay: Relay,
    pub(super) dex: Dex,
    pub(super) cluster: String,
    pub(super) audit_disk: SmallDisk,
}

impl FrailHub {
    pub(super) async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let audit_disk = SmallDisk::mount()?;
        let dex = Dex::start(&[]).await?;
        dex.set_groups(&[ON_CALL], &[])?;
        let rule = format!(
            r#"{{ claim = "groups", value = "{ON_CALL}", role = "viewer", break_glass = "operator" }}"#
        );
        let issuers = dex.issuers_file_with(&[&rule])?;
        let mut hub = Hub::start_server_with_audit_on(audit_disk.path(), "").await?;
        hub.process.kill_9()?;
        hub.restart_with(&["--issuers", &issuers, "--session-memory", SESSION_MEMORY])
            .await?;
        hub.log_in().await?;
        let joining = hub.create_cluster("frail").await?;
        let set = ["cluster", "set", "frail", "--annotation", "env=prod"];
        hub.cli(set).await?.success()?;
        let address = hub.ready().url.trim_start_matches("https://").parse()?;
        let relay = Relay::to(address).await;
        let (by, helm) = (
            format!("https://{}", relay.address()),
            helm::program()?.display().to_string(),
        );
        let flags = ["--hub", &by, "--delivery", "on", "--helm", &helm];
        let (join, id) = (&joining.join, &joining.id);
        let site = Site::begin_by(&hub, &cluster.kubeconfig(), join, id, &flags)?;
        hub.wait_state("frail", "Connected").await?;
        Ok(FrailHub {
            _site: site,
            hub,
            relay,
            dex,
            cluster: joining.id,
            audit_disk,
        })
    }

    /// Creates a tenant at each `pause`, until the guard is dropped. Each is a commit of its own.
    pub(super) fn writes(
        &self,
        pause: Duration,
    ) -> anyhow::Result<tokio_util::task::AbortOnDropHandle<()>> {
        let front = std::sync::Arc::new(self.hub.front()?);
        let (host, token) = (front.address(), self.hub.token()?);
        let body = r#"{"displayName":"Fault","gitRepo":{"url":"ssh://git@git.example.com/fault/tenant.git"}}"#;
        let request = format!(
            "POST /tenants HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(every(pause, move || {
            super::world::send(std::sync::Arc::clone(&front), request.clone())
        }))
    }

    /// File of the hub's database.
    pub(super) fn database(&self) -> PathBuf {
        self.hub.data().join("fairlead.db")
    }
}

/// A small file system in memory, unmounted on drop.
pub(super) struct SmallDisk(TempDir);

impl SmallDisk {
    /// `make observe` runs in a mount namespace of its own, so that an aborted test leaves no mount behind.
    fn mount() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let tmpfs = ["-t", "tmpfs", "-o", DISK_OPTIONS, "none"];
        mounts::run("mount", &tmpfs, folder.path())
            .map_err(anyhow::Error::msg)
            .context("the small disk needs root")?;
        Ok(SmallDisk(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The folder must be empty when it is deleted. Files of a hub that still ends may be open.
        let _ = mounts::run("umount", &["--lazy"], self.0.path());
    }
}
