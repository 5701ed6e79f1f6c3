//! Faults of the second hub, and of the one with a configured certificate. Each waits for its alerts, and for their end.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{RawAnswer, RawClient, dex::Person};
use fairlead_testkit::agent::FakeAgent;
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};
use tokio::{io::AsyncWriteExt, task::JoinSet, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::world::{World, now};

const REQUEST_INTERVAL: Duration = Duration::from_millis(100);
const WRITE_INTERVAL: Duration = Duration::from_millis(200);
/// Longer than the limit of the alert, and shorter than the hub's wait for its database.
const LOCK_TIME: Duration = Duration::from_millis(1600);
/// Long enough for the hub's poll of the lock.
const UNLOCKED_TIME: Duration = Duration::from_millis(300);
/// Together more than `--session-memory`; each is short enough for the buffers of its socket.
const UPLOAD_COUNT: usize = 60;
const UPLOAD_BYTES: usize = 56_000;
/// Identity of an agent that does not renew it.
const IDENTITY_LEFT: Duration = Duration::from_secs(3 * 3600);
const CERTIFICATE_LEFT: time::Duration = time::Duration::hours(2);
const CERTIFICATE_LIFETIME: time::Duration = time::Duration::days(90);
/// A deployment and its report.
const ROLLOUT_DEADLINE: Duration = Duration::from_secs(90);
/// The API server refuses this ConfigMap: its data are no texts.
const BROKEN_BUNDLE: [(&str, &str); 2] = [
    (
        "fairlead.yaml",
        "namespace: default\ntimeout: 10s\ntargets: [{name: all, selector: env=prod}]\n",
    ),
    (
        "broken.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: broken}, data: {color: [red]}}\n",
    ),
];

impl World {
    /// The disk of the audit log is full, so the hub refuses requests.
    pub(super) async fn full_audit_disk(&self) -> anyhow::Result<()> {
        let begin = now();
        let ballast = self.frail.audit_disk.path().join("ballast");
        fill(&ballast)?;
        let requests = self.frail_calls("/v1/whoami")?;
        let fired = self.fires(begin, &["AuditFails", "RequestsFail"]).await;
        fs::remove_file(&ballast)?;
        drop(requests);
        fired?;
        self.recovers().await
    }

    /// Another program locks the database for longer than the hub waits.
    pub(super) async fn locked_database(&self) -> anyhow::Result<()> {
        let begin = now();
        let mut other = self.other_program().await?;
        lock(&mut other).await?;
        let writes = self.frail.writes(WRITE_INTERVAL)?;
        let fired = self.fires(begin, &["StoreFails"]).await;
        unlock(&mut other).await?;
        drop(writes);
        fired?;
        self.recovers().await
    }

    /// Another program locks the database again and again, so each commit takes long.
    pub(super) async fn slow_database(&self) -> anyhow::Result<()> {
        let begin = now();
        let mut other = self.other_program().await?;
        let locks = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                // The hub may have the lock for longer than the other program waits: the next round tries again.
                if lock(&mut other).await.is_ok() {
                    sleep(LOCK_TIME).await;
                    let _ = unlock(&mut other).await;
                }
                sleep(UNLOCKED_TIME).await;
            }
        }));
        let writes = self.frail.writes(WRITE_INTERVAL)?;
        // Requests that write are in the hub for as long.
        let fired = self.fires(begin, &["StoreSlow", "GatewaySlow"]).await;
        drop((writes, locks));
        fired?;
        self.recovers().await
    }

    /// The path to an agent swallows all bytes while clients upload, so the hub keeps them for the agent.
    pub(super) async fn full_session_memory(&self) -> anyhow::Result<()> {
        let begin = now();
        self.frail.relay.control.discard_output();
        let front = Arc::new(self.frail.hub.front()?);
        let head = format!(
            "POST /k8s/clusters/{}/api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n",
            self.frail.cluster,
            front.address(),
            self.frail.hub.token()?,
        );
        let mut uploads = JoinSet::new();
        for _ in 0..UPLOAD_COUNT {
            uploads.spawn(upload(Arc::clone(&front), head.clone()));
        }
        let fired = self.fires(begin, &["SessionMemoryFull"]).await;
        self.frail.relay.control.discard_nothing();
        fired?;
        while let Some(answered) = uploads.join_next().await {
            // The session has resumed, so each upload has reached the API server, which refuses its text.
            let answer = answered??;
            ensure!(answer.status == 400, "{}: {}", answer.status, answer.text());
        }
        self.recovers().await
    }

    /// An agent is connected by an identity that it does not renew.
    pub(super) async fn expiring_identity(&self) -> anyhow::Result<()> {
        let hub = &self.frail.hub;
        let joining = hub.create_cluster("old").await?;
        let begin = now();
        let (ca, data) = (&hub.ready().ca_file, hub.data());
        let agent = FakeAgent::enrolled_expiring(&joining.join, ca, &data, IDENTITY_LEFT).await;
        self.fires(begin, &["AgentIdentityExpires"]).await?;
        hub.cli(["cluster", "delete", "old", "--yes"])
            .await?
            .success()?;
        drop(agent);
        self.recovers().await
    }

    /// The configured certificate of a hub is not renewed in time, and then it is.
    pub(super) async fn expiring_certificate(&self) -> anyhow::Result<()> {
        let begin = now();
        self.certified.certify(CERTIFICATE_LEFT)?;
        self.fires(begin, &["HubCertificateExpires"]).await?;
        self.certified.certify(CERTIFICATE_LIFETIME)?;
        self.recovers().await
    }

    /// A bundle fails in its first cluster.
    pub(super) async fn halted_rollout(&self) -> anyhow::Result<()> {
        let hub = &self.frail.hub;
        let folder = hub.dir().join("broken");
        fs::create_dir(&folder)?;
        for (name, text) in BROKEN_BUNDLE {
            fs::write(folder.join(name), text)?;
        }
        let folder = folder.display().to_string();
        let begin = now();
        let deploy = [
            "deploy",
            &folder,
            "--tenant",
            "t-default",
            "--yes",
            "--wait",
        ];
        let halted = hub.cli_within(ROLLOUT_DEADLINE, deploy).await?;
        ensure!(halted.status.code() == Some(1), "{halted:?}");
        let fired = self.fires(begin, &["RolloutHalted"]).await;
        fired.with_context(|| format!("{halted:?}"))?;
        hub.cli(["rollout", "abort", "b-broken"]).await?.success()?;
        self.recovers().await
    }

    /// A person takes a role in an emergency, and a second one reviews it late.
    pub(super) async fn emergency(&self) -> anyhow::Result<()> {
        let hub = &self.frail.hub;
        let jane = Person::new(hub)?;
        jane.sign_in(&self.frail.dex, hub, "jane").await?;
        let begin = now();
        let raise = ["access", "break-glass", "--cluster", "frail", "--reason"];
        let raise = [&raise[..], &["all pods are down", "-o", "json"]].concat();
        let raised = jane.run(&raise).await?.success()?;
        let raised: Value = serde_json::from_str(&raised)?;
        let id = raised["id"].as_str().context("no id")?;
        self.fires(begin, &["EmergencyUnreviewed"]).await?;
        let comment = ["--comment", "as described"];
        for step in ["revoke", "review"] {
            let words = [&["access", step, id][..], &comment].concat();
            hub.cli(words).await?.success()?;
        }
        self.recovers().await
    }

    fn frail_calls(&self, path: &str) -> anyhow::Result<AbortOnDropHandle<()>> {
        let token = self.frail.hub.token()?;
        super::world::calls(&self.frail.hub, path, &token, REQUEST_INTERVAL)
    }

    async fn other_program(&self) -> anyhow::Result<SqliteConnection> {
        let url = format!("sqlite://{}", self.frail.database().display());
        Ok(SqliteConnection::connect(&url).await?)
    }
}

async fn lock(database: &mut SqliteConnection) -> anyhow::Result<()> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(database).await?;
    Ok(())
}

async fn unlock(database: &mut SqliteConnection) -> anyhow::Result<()> {
    sqlx::raw_sql("ROLLBACK").execute(database).await?;
    Ok(())
}

/// Writes until the disk is full.
fn fill(ballast: &Path) -> anyhow::Result<()> {
    let mut file = File::create(ballast)?;
    let block = [1; 4096];
    loop {
        match file.write_all(&block) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn upload(front: Arc<RawClient>, head: String) -> anyhow::Result<RawAnswer> {
    let mut client = front.connect().await?;
    client.write_all(head.as_bytes()).await?;
    client.write_all(&vec![b'x'; UPLOAD_BYTES]).await?;
    client.flush().await?;
    RawAnswer::read(&mut client).await
}
