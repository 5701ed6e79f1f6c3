//! Two hubs on one PostgreSQL, and an agent with a session at the first one.

use std::path::Path;

use anyhow::{Context as _, bail};
use fairlead_e2e::PostgresServer;
use serde::Deserialize;
use tokio::time::{self, Duration, Instant};

use super::RequestPath;
use crate::{
    launch::{Role, Spec},
    peers::{Bed, HubReady, write_secret},
    ports,
    way::Way,
};

/// Roles in the figures.
pub(super) const HUB_OF_SESSION: &str = "hub-of-session";
pub(super) const OTHER_HUB: &str = "other-hub";
pub(super) const AGENT: &str = "agent";
const COMMAND_DEADLINE: Duration = Duration::from_secs(20);
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const STORE_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";

pub(super) struct BenchHubPair {
    // Its fields are dropped in this order.
    agent: Role,
    other: Role,
    first: Role,
    _store: PostgresServer,
    direct: Way,
    forwarded: Way,
}

#[derive(Deserialize)]
struct Created {
    id: String,
    join: String,
}

impl BenchHubPair {
    pub(super) async fn start(bed: &Bed<'_>, fairlead: &Path) -> anyhow::Result<Self> {
        let store = PostgresServer::start()?;
        let dir = bed.dir().join("hops");
        std::fs::create_dir(&dir)?;
        let key = dir.join("store.key");
        write_secret(&key, STORE_KEY)?;
        let starting = PairStart {
            bed,
            fairlead,
            dir: &dir,
            store_url: store.url(),
            key: &key,
        };
        let (first, ready) = starting.hub(HUB_OF_SESSION).await?;
        let (other, other_ready) = starting.hub(OTHER_HUB).await?;
        let created = starting.create(&ready).await?;
        let agent = starting.agent(&created.join)?;
        // Tokens are in the shared store, so that of the first hub is valid at both.
        let way = |at: &HubReady| Way {
            url: format!("{}/k8s/clusters/{}", at.url, created.id),
            ca_file: Some(at.ca_file.clone()),
            token_file: ready.token_file.clone(),
            server_name: None,
            via: None,
        };
        let mut pair = Self {
            direct: way(&ready),
            forwarded: way(&other_ready),
            agent,
            other,
            first,
            _store: store,
        };
        for path in [RequestPath::Direct, RequestPath::Forwarded] {
            pair.answers(path).await?;
        }
        Ok(pair)
    }

    pub(super) fn way(&self, path: RequestPath) -> &Way {
        match path {
            RequestPath::Direct => &self.direct,
            RequestPath::Forwarded => &self.forwarded,
        }
    }

    /// Arguments of the load client for the processor time of each role.
    pub(super) fn watched(&self) -> [String; 3] {
        [
            format!("{HUB_OF_SESSION}={}", self.first.pid()),
            format!("{OTHER_HUB}={}", self.other.pid()),
            format!("{AGENT}={}", self.agent.pid()),
        ]
    }

    /// # Errors
    /// A process has ended by itself.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        self.first.alive()?;
        self.other.alive()?;
        self.agent.alive()
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.agent.stop().await?;
        self.other.stop().await?;
        self.first.stop().await
    }

    /// Waits until a request comes through.
    async fn answers(&mut self, path: RequestPath) -> anyhow::Result<()> {
        let target = self.way(path).target("/bytes/1024")?;
        let deadline = Instant::now() + CONNECT_DEADLINE;
        loop {
            self.alive()?;
            match target.once().await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    bail!("no request over {path:?} after {CONNECT_DEADLINE:?}: {error:#}")
                }
                Err(_) => time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}

struct PairStart<'a> {
    bed: &'a Bed<'a>,
    fairlead: &'a Path,
    dir: &'a Path,
    store_url: String,
    key: &'a Path,
}

impl PairStart<'_> {
    async fn hub(&self, name: &str) -> anyhow::Result<(Role, HubReady)> {
        let port = ports::free()?;
        let ready_file = self.dir.join(format!("{name}.ready.json"));
        let spec = Spec::new(name, self.fairlead)
            .args(["server", "--data"])
            .arg(self.dir.join(name))
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--admin", "127.0.0.1:0"])
            .args(["--public-url", &format!("https://127.0.0.1:{port}")])
            .args(["--store", &self.store_url, "--store-key-file"])
            .arg(self.key)
            .arg("--ready-file")
            .arg(&ready_file);
        let mut role = self.bed.launcher.run(&spec)?;
        let ready = role.ready(&ready_file).await?;
        Ok((role, ready))
    }

    async fn create(&self, ready: &HubReady) -> anyhow::Result<Created> {
        let file = &ready.token_file;
        let token = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut command = self.bed.launcher.command(self.fairlead);
        command
            .args(["cluster", "create", "bench", "-o", "json"])
            .env("FAIRLEAD_URL", &ready.url)
            .env("FAIRLEAD_TOKEN", token.trim())
            .env("FAIRLEAD_CA_FILE", &ready.ca_file);
        let launcher = self.bed.launcher;
        let step = "fairlead cluster create";
        launcher.output(step, command, COMMAND_DEADLINE).await
    }

    /// Starts an agent that knows the hub of its join string only.
    fn agent(&self, join: &str) -> anyhow::Result<Role> {
        let (kubeconfig, join_file) = (self.dir.join("kubeconfig"), self.dir.join("join"));
        write_secret(&kubeconfig, &self.bed.kubeconfig()?.to_string())?;
        // In a file, because every user of the machine can read command lines.
        write_secret(&join_file, join)?;
        let spec = Spec::new(AGENT, self.fairlead)
            .args(["agent", "--links", "1", "--join"])
            .arg(format!("@{}", join_file.display()))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--state")
            .arg(self.dir.join("agent"));
        self.bed.launcher.run(&spec)
    }
}
