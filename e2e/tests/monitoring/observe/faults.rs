//! Faults, one after the other. Each waits for its alerts, and for their end.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, RawAnswer, RawClient, Site};
use fairlead_testkit::process::Launch;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::{io::AsyncWriteExt, time::sleep};

use super::world::{UNSTABLE, World, calls, every, now, send};

/// Interval of breaks of the links of four agents. A broken link is back within a second.
const CUT_INTERVAL: Duration = Duration::from_millis(1500);
const UPLOAD_INTERVAL: Duration = Duration::from_millis(500);
/// Longer than the limit of the alert.
const UPLOAD_TIME: Duration = Duration::from_millis(1200);
pub(super) const LOAD_INTERVAL: Duration = Duration::from_millis(100);

impl World {
    pub(super) async fn wrong_tokens(&self) -> anyhow::Result<()> {
        let begin = now();
        let guesses = calls(&self.hub, "/v1/whoami", "wrong", Duration::from_millis(150))?;
        self.fires(begin, &["WrongTokens"]).await?;
        drop(guesses);
        self.recovers().await
    }

    pub(super) async fn broken_handshakes(&self) -> anyhow::Result<()> {
        let begin = now();
        let front = Arc::new(self.hub.front()?);
        let upgrade = format!(
            "GET /connect HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: fairlead.v1\r\n\r\n",
            front.address()
        );
        let scans = every(Duration::from_millis(300), move || {
            send(Arc::clone(&front), upgrade.clone())
        });
        self.fires(begin, &["HandshakesFail"]).await?;
        drop(scans);
        self.recovers().await
    }

    pub(super) async fn far_cluster(&self) -> anyhow::Result<()> {
        let begin = now();
        self.delay.store(700, Ordering::Relaxed);
        self.fires(begin, &["ClusterFar"]).await?;
        self.delay.store(0, Ordering::Relaxed);
        self.relay.control.cut();
        self.recovers().await
    }

    pub(super) async fn disconnected_agent(&self) -> anyhow::Result<()> {
        let begin = now();
        self.relay.control.disconnect();
        self.fires(begin, &["AgentDisconnected", "ClusterLost"])
            .await?;
        self.relay.control.reconnect();
        self.recovers().await
    }

    pub(super) async fn unreachable_api_server(&self) -> anyhow::Result<()> {
        let begin = now();
        self.api_relay.control.disconnect();
        // Probes alone are too rare for the short ranges of this test.
        let requests = self.load("u", LOAD_INTERVAL)?;
        let expected = [
            "ClusterApiUnreachable",
            "AgentApiServerFails",
            "RequestsFail",
        ];
        self.fires(begin, &expected).await?;
        drop(requests);
        self.api_relay.control.reconnect();
        self.recovers().await
    }

    pub(super) async fn left_out_rows(&self) -> anyhow::Result<()> {
        let begin = now();
        let packages: serde_json::Map<_, _> = (0..250)
            .map(|n| (format!("p-{n}"), serde_json::json!({ "version": "v1" })))
            .collect();
        self.compiled(&serde_json::json!({ "packages": packages }))
            .await?;
        self.fires(begin, &["MetricsLeftOut"]).await?;
        self.compiled(&serde_json::json!({ "packages": {} }))
            .await?;
        self.recovers().await
    }

    async fn compiled(&self, meta: &serde_json::Value) -> anyhow::Result<()> {
        let front = self.hub.front()?;
        let body = meta.to_string();
        let request = self.compile_head(&front, body.len())? + &body;
        let answer = front.send(request).await?;
        ensure!(answer.status < 300, "{}: {}", answer.status, answer.text());
        Ok(())
    }

    fn compile_head(&self, front: &RawClient, length: usize) -> anyhow::Result<String> {
        Ok(format!(
            "POST /clusters/{}/compileMeta HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n",
            self.ids["a"],
            front.address(),
            self.hub.token()?,
        ))
    }

    pub(super) async fn killed_agents(&mut self) -> anyhow::Result<()> {
        let begin = now();
        let of_killed = |it: &&mut (&str, Site)| UNSTABLE.contains(&it.0);
        for (_, site) in self.sites.iter_mut().filter(of_killed) {
            site.process.kill_9()?;
        }
        self.fires(begin, &["ClusterLost", "ManyClustersLost"])
            .await?;
        let lost = self.load("c", LOAD_INTERVAL)?;
        let expected = ["ClusterLost", "ManyClustersLost", "RequestsFail"];
        self.fires(begin, &expected).await?;
        drop(lost);
        for (_, site) in self.sites.iter_mut().filter(of_killed) {
            site.restart()?;
        }
        self.recovers().await
    }

    pub(super) async fn missing_link(&self) -> anyhow::Result<()> {
        let begin = now();
        self.narrow.narrow();
        self.fires(begin, &["AgentLinksMissing"]).await?;
        self.narrow.widen();
        self.recovers().await
    }

    /// The agent has nearly as many open files as its limit, which is lowered for that.
    pub(super) async fn few_files(&self) -> anyhow::Result<()> {
        let begin = now();
        let (_, site) = self.sites.first().context("no site")?;
        let pid = i32::try_from(site.process.pid())?;
        let pid = Pid::from_raw(pid).context("no process")?;
        let files = u64::try_from(site.process.usage()?.fds)?;
        let (few, all) = (Some(files + 1), getrlimit(Resource::Nofile).maximum);
        let limit = |current, maximum| Rlimit { current, maximum };
        prlimit(Some(pid), Resource::Nofile, limit(few, all))?;
        self.fires(begin, &["FilesExhausted"]).await?;
        prlimit(Some(pid), Resource::Nofile, limit(all, all))?;
        self.recovers().await
    }

    /// The identity of cluster `a` is used in another cluster.
    pub(super) async fn cloned_identity(&self) -> anyhow::Result<()> {
        let elsewhere = Cluster::start_lite().await?;
        let (from, to) = (self.state("a")?, self.hub.dir().join("clone.state"));
        fs::create_dir(&to)?;
        for file in fs::read_dir(from)? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        fs::set_permissions(&to, Permissions::from_mode(0o700))?;
        let begin = now();
        let launch = Launch::agent()?.args(["agent"]).args([
            "--kubeconfig".as_ref(),
            elsewhere.kubeconfig().as_os_str(),
            "--state".as_ref(),
            to.as_os_str(),
        ]);
        let log = self.hub.dir().join("clone.log");
        let mut clone = launch.env("HOME", self.hub.dir()).spawn(&log)?;
        let fired = self.fires(begin, &["CloneRefused"]).await;
        fired.with_context(|| clone.log().unwrap_or_default())?;
        clone.kill_9()?;
        self.recovers().await
    }

    fn state(&self, name: &str) -> anyhow::Result<PathBuf> {
        let id = self.ids.get(name).context("no such cluster")?;
        Ok(self.hub.dir().join(format!("{id}.state")))
    }

    /// Links of four agents break again and again.
    pub(super) async fn unstable_links(&self) -> anyhow::Result<()> {
        let begin = now();
        let relays = [&self.relay, &self.unstable];
        let controls = relays.map(|relay| Arc::clone(&relay.control));
        let cuts = every(CUT_INTERVAL, move || {
            for control in &controls {
                control.cut();
            }
            std::future::ready(())
        });
        self.fires(begin, &["LinksUnstable"]).await?;
        drop(cuts);
        self.recovers().await
    }

    /// Clients send requests to the hub's own API slowly, so they are in the hub for long.
    pub(super) async fn slow_uploads(&self) -> anyhow::Result<()> {
        let begin = now();
        let front = Arc::new(self.hub.front()?);
        let body = r#"{"packages":{}}"#;
        let head = self.compile_head(&front, body.len())?;
        let uploads = every(UPLOAD_INTERVAL, move || {
            slow_upload(Arc::clone(&front), head.clone(), body)
        });
        self.fires(begin, &["GatewaySlow"]).await?;
        drop(uploads);
        self.recovers().await
    }

    pub(super) async fn killed_hub(&mut self) -> anyhow::Result<()> {
        let begin = now();
        self.hub.process.kill_9()?;
        self.fires(begin, &["HubDown", "AgentDisconnected"]).await?;
        self.hub.restart().await?;
        for (name, _) in &self.sites {
            self.hub.wait_state(name, "Connected").await?;
        }
        self.recovers().await
    }
}

async fn slow_upload(front: Arc<RawClient>, head: String, body: &'static str) {
    let sent = async {
        let mut client = front.connect().await?;
        client.write_all(head.as_bytes()).await?;
        client.flush().await?;
        sleep(UPLOAD_TIME).await;
        client.write_all(body.as_bytes()).await?;
        client.flush().await?;
        RawAnswer::read(&mut client).await
    };
    // The alert is the result.
    let _ = sent.await;
}
