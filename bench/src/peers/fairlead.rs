//! Fairlead, run by its own commands: `fairlead dev`, a cluster, and an agent that joins with a kubeconfig of
//! the upstream.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    process::Command,
    time::{self, Duration, Instant},
};

use super::{
    bed::Bed,
    census::Census,
    kind::Kind,
    part::{PeerPart, write_secret},
    peer::Peer,
    relayed::Link,
};
use crate::{
    launch::Spec,
    ports,
    serve::Ready,
    way::{Legs, Way},
};

const CLUSTER_NAME: &str = "bench";
/// Domain of clusters of a hub whose address is an IP address.
const CLUSTER_DOMAIN: &str = "clusters.fairlead.internal";
const COMMAND_DEADLINE: Duration = Duration::from_secs(20);
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Starts hub and agent. The site allows TCP connections to `tcp`.
pub(super) async fn start(
    kind: Kind,
    bed: &Bed<'_>,
    link: Link,
    tcp: Option<SocketAddr>,
) -> anyhow::Result<Peer> {
    let binary = bed.built.fairlead(kind)?;
    let dir = bed.folder(kind.name())?;
    let hub_port = ports::free()?;
    let ready_file = dir.join(READY_FILE);
    let admin = ports::free()?;
    let mut spec = hub_spec(kind, &binary, &dir, hub_port, admin);
    if bed.legs == Legs::Plain {
        spec = spec.args(["--listen-plain", "127.0.0.1:0"]);
    }
    let mut hub = PeerPart::new("hub", spec);
    hub.start(bed.launcher)?;
    let ready: HubReady = hub.ready(&ready_file).await?;

    let (relay, link_port) = link.stretch(bed, kind, hub_port).await?;
    let site = BenchSite {
        kind,
        bed,
        binary: &binary,
        dir: &dir,
        ready: &ready,
    };
    let created: Created = site
        .ask("create", &["cluster", "create", CLUSTER_NAME, "-o", "json"])
        .await?;
    let mut spec = site.agent(&created.join)?;
    if relay.is_some() {
        spec = spec.args(["--hub", &format!("https://127.0.0.1:{link_port}")]);
    }
    if let Some(address) = tcp {
        spec = spec.args(["--allow-connect", &address.to_string()]);
    }
    let mut agent = PeerPart::new("agent", spec.at_site());
    agent.start(bed.launcher)?;
    site.connected(&mut agent).await?;
    Ok(Peer {
        kind,
        plain: ready.plain_way(&created.id),
        tls: Some(ready.way(&created.id)),
        hub: Some(hub),
        agent: Some(agent),
        relay,
        forwarder: None,
        ports: None,
        admin: Some(bed.way(Legs::Plain, Some(admin))),
    })
}

/// Name of the ready file in the hub's folder.
const READY_FILE: &str = "hub.ready.json";

fn hub_spec(kind: Kind, binary: &Path, dir: &Path, port: u16, admin: u16) -> Spec {
    Spec::new(format!("{}-hub", kind.name()), binary)
        .args(["dev", "--data"])
        .arg(dir.join("hub"))
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .args(["--admin", &format!("127.0.0.1:{admin}")])
        .arg("--ready-file")
        .arg(dir.join(READY_FILE))
        // It logs in, and those of the person who runs the bench are not its.
        .env("XDG_CONFIG_HOME", dir.join("config"))
}

/// Open files per agent: its link, and the connection to the upstream by which it is probed.
const FILES_PER_AGENT: u64 = 2;
/// Open files of a process apart from its agents'.
const SPARE_FILES: u64 = 500;

/// Runs real agents (see `crate::agents`) in as few processes as the limit of open files allows.
pub(super) fn crowd(
    kind: Kind,
    bed: &Bed<'_>,
    port: u16,
    count: u16,
) -> anyhow::Result<(Spec, Vec<Spec>, Census)> {
    let binary = bed.built.fairlead(kind)?;
    let dir = bed.folder(&format!("{}-crowd", kind.name()))?;
    let admin = ports::free()?;
    let kubeconfig = dir.join("kubeconfig");
    write_secret(&kubeconfig, &bed.kubeconfig()?.to_string())?;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = files.saturating_sub(SPARE_FILES) / FILES_PER_AGENT;
    let processes = u64::from(count).div_ceil(most.max(1));
    let agents = (0..processes).map(|process| {
        let (count, more) = (u64::from(count) / processes, u64::from(count) % processes);
        let count = count + u64::from(process < more);
        bed.launcher
            .own(format!("{}-agents-{process}", kind.name()), "agents")
            .arg("--hub-ready")
            .arg(dir.join(READY_FILE))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--state")
            .arg(dir.join("agents"))
            .args(["--count", &count.to_string()])
    });
    let agents = agents.collect();
    let census = Census::Page {
        way: bed.way(Legs::Plain, Some(admin)),
        path: "/metrics",
        word: "fairlead_sessions",
    };
    let hub = hub_spec(kind, &binary, &dir, port, admin);
    Ok((hub, agents, census))
}

/// Fields of the ready file of `fairlead dev` that are needed here.
#[derive(Deserialize)]
pub(crate) struct HubReady {
    pub(crate) url: String,
    pub(crate) ca_file: PathBuf,
    pub(crate) token_file: PathBuf,
    /// Set where the hub has a plain front.
    plain_url: Option<String>,
}

impl HubReady {
    /// As the kubeconfig of a cluster, which has it in `tls-server-name`.
    fn way(&self, cluster: &str) -> Way {
        Way {
            url: self.url.clone(),
            ca_file: Some(self.ca_file.clone()),
            server_name: Some(format!("{cluster}.{CLUSTER_DOMAIN}")),
            token_file: self.token_file.clone(),
            via: None,
        }
    }

    fn plain_way(&self, cluster: &str) -> Option<Way> {
        let url = self.plain_url.as_deref()?.trim_end_matches('/');
        Some(Way {
            url: format!("{url}/k8s/clusters/{cluster}"),
            ca_file: None,
            server_name: None,
            token_file: self.token_file.clone(),
            via: None,
        })
    }
}

#[derive(Deserialize)]
struct Created {
    id: String,
    join: String,
}

#[derive(Deserialize)]
struct Shown {
    status: ShownStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownStatus {
    state: String,
    last_error: Option<serde_json::Value>,
}

struct BenchSite<'a> {
    kind: Kind,
    bed: &'a Bed<'a>,
    binary: &'a Path,
    dir: &'a Path,
    ready: &'a HubReady,
}

impl BenchSite<'_> {
    fn agent(&self, join: &str) -> anyhow::Result<Spec> {
        let (kubeconfig, join_file) = (self.dir.join("kubeconfig"), self.dir.join("join"));
        write_secret(&kubeconfig, &self.bed.kubeconfig()?.to_string())?;
        // In a file, because every user of the machine can read command lines.
        write_secret(&join_file, join)?;
        let name = format!("{}-agent", self.kind.name());
        Ok(Spec::new(name, self.binary)
            .args(["agent", "--join"])
            .arg(format!("@{}", join_file.display()))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--state")
            .arg(self.dir.join("agent")))
    }

    async fn connected(&self, agent: &mut PeerPart) -> anyhow::Result<()> {
        let deadline = Instant::now() + CONNECT_DEADLINE;
        loop {
            agent.alive()?;
            let shown: Shown = self
                .ask("get", &["cluster", "get", CLUSTER_NAME, "-o", "json"])
                .await?;
            if shown.status.state == "Connected" {
                return Ok(());
            }
            if Instant::now() > deadline {
                let error = shown.status.last_error.unwrap_or_default();
                let step = format!(
                    "wait for Connected; it is {} after {CONNECT_DEADLINE:?}, last error {error}",
                    shown.status.state
                );
                bail!(agent.failed(&step));
            }
            time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Runs a command of the hub's admin and parses its output.
    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        step: &str,
        args: &[&str],
    ) -> anyhow::Result<T> {
        let file = &self.ready.token_file;
        let token = std::fs::read_to_string(file)
            .with_context(|| format!("reading the hub's token file {}", file.display()))?;
        let mut command: Command = self.bed.launcher.command(self.binary);
        command
            .args(args)
            .env("FAIRLEAD_URL", &self.ready.url)
            .env("FAIRLEAD_TOKEN", token.trim())
            .env("FAIRLEAD_CA_FILE", &self.ready.ca_file);
        let step = format!("fairlead cluster {step}");
        self.bed
            .launcher
            .output(&step, command, COMMAND_DEADLINE)
            .await
    }
}

impl Bed<'_> {
    /// Kubeconfig of the upstream, for an agent. JSON is valid YAML.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<serde_json::Value> {
        let token = std::fs::read_to_string(&self.token_file)?;
        let Ready {
            url,
            ca_file,
            plain_url,
        } = &self.upstream;
        let server = match self.legs {
            Legs::Tls => json!({"server": url, "certificate-authority": ca_file}),
            Legs::Plain => json!({"server": plain_url}),
        };
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "clusters": [{"name": "bench", "cluster": server}],
            "users": [{"name": "bench", "user": {"token": token.trim()}}],
        }))
    }
}
