//! Hubs and sites in network namespaces: `fairlead server` as its users reach it, and an agent in its site's
//! network.

use std::fs::Permissions;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{bail, ensure};
use tempfile::TempDir;

use fairlead_testkit::process::Launch;
use fairlead_testkit::reserved_port::ReservedPort;

use super::site::agent;
use super::{Hub, Joining, Site, fairlead, launch};
use crate::kube::Cluster;
use crate::netns::NetNs;

/// Address of the hub in its namespace, where no other program listens.
const LISTEN_ADDRESS: &str = "0.0.0.0:443";
const ADMIN_ADDRESS: &str = "127.0.0.1:9090";

impl Hub {
    /// Starts `fairlead server` on free ports of loopback, with additional flags.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start_server<A: AsRef<str>>(flags: &[A]) -> anyhow::Result<Self> {
        Self::start_server_in(tempfile::tempdir()?, flags).await
    }

    /// Starts `fairlead server` with its data in this folder, which may be a separate disk. Requests pass without events of
    /// the audit log when the disk is full (`on-full = "drop"`): tests of the store's errors must get as far as the store.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start_server_on(disk: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        symlink(disk, folder.path().join("data"))?;
        let audit = folder.path().join("audit.toml");
        std::fs::write(&audit, "on-full = \"drop\"\n")?;
        let flags = ["--audit-config".to_owned(), audit.display().to_string()];
        Self::start_server_in(folder, &flags).await
    }

    /// Starts `fairlead server` with its audit log in this folder, which may be a separate disk, and with this configuration
    /// of the log.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start_server_with_audit_on(disk: &Path, config: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        std::fs::set_permissions(&data, Permissions::from_mode(0o700))?;
        symlink(disk, data.join("audit"))?;
        let audit = folder.path().join("audit.toml");
        std::fs::write(&audit, config)?;
        let flags = ["--audit-config".to_owned(), audit.display().to_string()];
        Self::start_server_in(folder, &flags).await
    }

    /// Starts `fairlead server` on the data of a backup for [`BACKUP_RECIPIENT`](super::BACKUP_RECIPIENT).
    ///
    /// # Errors
    /// It cannot be restored, or the hub does not get ready.
    pub async fn start_restored(backup: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        let key = folder.path().join("key.txt");
        std::fs::write(&key, super::BACKUP_IDENTITY)?;
        let (to, with) = (Path::new("--data"), Path::new("--identity"));
        let keep = Path::new("--keep-access");
        let words = [Path::new("restore"), backup, to, &data, with, &key, keep];
        let words = words.map(|word| word.display().to_string());
        fairlead(folder.path(), &words, &[]).await?.success()?;
        Self::start_server_in(folder, &[] as &[&str]).await
    }

    /// As [`Hub::start_server`], on another address of this machine. Agents never use a proxy for loopback.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start_server_at<A: AsRef<str>>(ip: IpAddr, flags: &[A]) -> anyhow::Result<Self> {
        Self::start_server_at_port(tempfile::tempdir()?, ReservedPort::on(ip)?, flags).await
    }

    async fn start_server_in<A: AsRef<str>>(folder: TempDir, flags: &[A]) -> anyhow::Result<Self> {
        Self::start_server_at_port(folder, ReservedPort::new()?, flags).await
    }

    async fn start_server_at_port<A: AsRef<str>>(
        folder: TempDir,
        port: ReservedPort,
        flags: &[A],
    ) -> anyhow::Result<Self> {
        let listen = port.address().to_string();
        let again = Launch::hub()?
            .env("HOME", folder.path())
            .args(["server", "--listen", &listen, "--admin", "127.0.0.1:0"])
            .args(["--public-url", &format!("https://{listen}")])
            .args(["--data".as_ref(), folder.path().join("data").as_os_str()])
            .args(flags.iter().map(|flag| flag.as_ref().to_owned()));
        let (process, ready) = launch(again.clone(), folder.path()).await?;
        Ok(Self {
            folder,
            ready,
            again,
            _ports: vec![port],
            net: None,
            people: None,
            process,
        })
    }

    /// Starts `fairlead server` in the namespace `net` as `https://NAME`, and logs a user in `people` in to
    /// it. Both must resolve that name.
    ///
    /// # Errors
    /// It does not get ready, or cannot be reached.
    pub async fn serve(name: &str, net: &NetNs, people: &NetNs) -> anyhow::Result<Self> {
        Self::serve_at(name, LISTEN_ADDRESS, net, people).await
    }

    /// As [`Hub::serve`], at this address of the namespace. `name` may be an IPv6 address in brackets.
    ///
    /// # Errors
    /// As [`Hub::serve`].
    pub async fn serve_at(
        name: &str,
        listen: &str,
        net: &NetNs,
        people: &NetNs,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let again = Launch::hub()?
            .env("HOME", folder.path())
            .args(["server", "--listen", listen, "--admin", ADMIN_ADDRESS])
            .args(["--public-url", &format!("https://{name}")])
            .args(["--data".as_ref(), folder.path().join("data").as_os_str()])
            .inside(net);
        let (process, ready) = launch(again.clone(), folder.path()).await?;
        let hub = Self {
            folder,
            ready,
            again,
            _ports: Vec::new(),
            net: Some(net.clone()),
            people: Some(people.clone()),
            process,
        };
        hub.log_in().await?;
        Ok(hub)
    }

    /// Logs [`Hub::cli`] in as an admin. `fairlead dev` does not need it.
    ///
    /// # Errors
    /// The hub cannot be reached.
    pub async fn log_in(&self) -> anyhow::Result<()> {
        self.log_in_with(&self.token()?).await
    }

    /// Logs [`Hub::cli`] in with a token of another hub on the same database.
    ///
    /// # Errors
    /// As [`Hub::log_in`].
    pub async fn log_in_with(&self, token: &str) -> anyhow::Result<()> {
        let file = self.folder.path().join("login.token");
        std::fs::write(&file, token)?;
        let token = file.display().to_string();
        let ca = self.ready.ca_file.display().to_string();
        let login = [
            "login",
            &self.ready.url,
            "--token-file",
            &token,
            "--ca-file",
            &ca,
        ];
        self.cli(login).await?.success().map(drop)
    }
}

impl Site {
    /// Starts an agent that knows all of these hubs and enrols at the first; waits for nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_at(hubs: &[&Hub], cluster: &Cluster, joining: &Joining) -> anyhow::Result<Self> {
        Self::begin_at_with(hubs, cluster, joining, &[])
    }

    /// As [`Site::begin_at`], with additional flags.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_at_with(
        hubs: &[&Hub],
        cluster: &Cluster,
        joining: &Joining,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let [first, ..] = hubs else {
            bail!("no hub");
        };
        let known = hubs.iter().flat_map(|hub| ["--hub", &hub.ready.url]);
        let launch = agent(first, &cluster.kubeconfig(), &joining.id)?;
        let launch = launch.args(known).args(flags);
        Self::run(first, launch, None, &joining.id, &joining.join)
    }

    /// Starts an agent in the namespace `net` of its cluster, changed by `more`, and waits for nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_in_net(
        hub: &Hub,
        cluster: &Cluster,
        joining: &Joining,
        net: &NetNs,
        more: impl FnOnce(Launch) -> Launch,
    ) -> anyhow::Result<Self> {
        ensure!(hub.net.is_some(), "the hub is on another network");
        let launch = more(agent(hub, &cluster.kubeconfig(), &joining.id)?.inside(net));
        Self::run(hub, launch, Some(net.clone()), &joining.id, &joining.join)
    }
}
