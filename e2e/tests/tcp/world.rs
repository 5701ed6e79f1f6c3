//! A hub, an agent with rules for TCP connections, and the commands of a person.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Joining, Launch, Process, Site, raw_tcp::RawTcp};
use fairlead_testkit::relay::Relay;
use serde_json::Value;

pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct TcpWorld {
    pub(crate) hub: Hub,
    pub(crate) joining: Joining,
    pub(crate) site: Site,
    /// The agent's path to the hub.
    pub(crate) relay: Relay,
}

impl TcpWorld {
    /// A world whose site allows these targets.
    pub(crate) async fn start(rules: &[String]) -> anyhow::Result<Self> {
        Self::start_with(&[], rules).await
    }

    /// As [`TcpWorld::start`], with flags of the hub.
    pub(crate) async fn start_with(flags: &[&str], rules: &[String]) -> anyhow::Result<Self> {
        let cluster = Cluster::shared().await?;
        let hub = Hub::start_with(flags).await?;
        let address: SocketAddr = hub.ready().url.trim_start_matches("https://").parse()?;
        let relay = Relay::to(address).await;
        let joining = hub.create_cluster("demo").await?;
        let url = relay.url().to_string();
        let mut flags = vec!["--hub", &url];
        for rule in rules {
            flags.extend(["--allow-connect", rule]);
        }
        let site = Site::begin_with(&hub, cluster, &joining.join, "demo", &flags)?;
        hub.wait_state("demo", "Connected").await?;
        Ok(Self {
            hub,
            joining,
            site,
            relay,
        })
    }

    /// A new token of this role.
    pub(crate) async fn token(&self, name: &str, more: &[&str]) -> anyhow::Result<String> {
        let args = [&["token", "create", name, "-o", "json"], more].concat();
        let created: Value = serde_json::from_str(&self.hub.cli(args).await?.success()?)?;
        Ok(created["token"].as_str().context("no token")?.to_owned())
    }

    /// Opens a connection by a WebSocket of its own.
    pub(crate) async fn open(&self, token: &str, target: &str) -> anyhow::Result<RawTcp> {
        RawTcp::open(&self.hub.front()?, token, &self.joining.id, target).await
    }

    /// The command line of a person with this token, or with the hub's own login.
    pub(crate) fn command(&self, args: &[String], token: Option<&str>) -> anyhow::Result<Launch> {
        let launch = Launch::hub()?.args(args).env("HOME", self.hub.dir());
        Ok(match token {
            Some(token) => launch.env("FAIRLEAD_TOKEN", token),
            None => launch,
        })
    }

    /// Starts `fairlead forward demo`, with a free local port for each target.
    pub(crate) async fn forward(&self, targets: &[String]) -> anyhow::Result<LocalPorts> {
        self.forward_as(None, targets).await
    }

    pub(crate) async fn forward_as(
        &self,
        token: Option<&str>,
        targets: &[String],
    ) -> anyhow::Result<LocalPorts> {
        let words = ["forward".to_owned(), "demo".to_owned()].into_iter();
        let specs = targets.iter().map(|target| format!("0:{target}"));
        let launch = self.command(&words.chain(specs).collect::<Vec<_>>(), token)?;
        let log = self.hub.dir().join("forward.log");
        let ends = targets.iter().map(|target| format!(" to {target} in "));
        LocalPorts::start(launch, &log, "Forwarding ", &ends.collect::<Vec<_>>()).await
    }

    /// Starts `fairlead proxy demo` on a free port.
    pub(crate) async fn proxy(&self) -> anyhow::Result<LocalPorts> {
        let words = ["proxy", "demo", "--listen", "127.0.0.1:0"].map(str::to_owned);
        let log = self.hub.dir().join("proxy.log");
        let launch = self.command(&words, None)?;
        LocalPorts::start(launch, &log, "socks5h://", &["(CONNECT)".to_owned()]).await
    }
}

/// A running `fairlead forward` or `fairlead proxy`.
pub(crate) struct LocalPorts {
    pub(crate) process: Process,
    addresses: Vec<SocketAddr>,
}

impl LocalPorts {
    /// Starts the command, and reads an address behind `before` in each line with one of `ends`.
    async fn start(
        launch: Launch,
        log: &Path,
        before: &str,
        ends: &[String],
    ) -> anyhow::Result<Self> {
        let mut process = launch.spawn(log)?;
        for end in ends {
            process.wait_for_log(end, STEP_DEADLINE).await?;
        }
        let log = process.log()?;
        let mut addresses = Vec::new();
        for end in ends {
            let line = log.lines().find(|line| line.contains(end.as_str()));
            let (_, rest) = line
                .and_then(|it| it.split_once(before))
                .with_context(|| log.clone())?;
            let address = rest.split(' ').next().unwrap_or_default();
            addresses.push(address.parse().with_context(|| log.clone())?);
        }
        Ok(LocalPorts { process, addresses })
    }

    pub(crate) fn address(&self, at: usize) -> anyhow::Result<SocketAddr> {
        self.addresses.get(at).copied().context("no such address")
    }

    pub(crate) fn log(&self) -> String {
        self.process.log().unwrap_or_default()
    }
}
