//! HAProxy with the configuration of `deploy/haproxy`, in front of the hubs.

use std::{fs, net::TcpListener, path::PathBuf, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Launch, Process, eventually};
use fairlead_testkit::tls::TestCa;
use tempfile::TempDir;
use tokio::{net::TcpStream, process::Command};

const START_DEADLINE: Duration = Duration::from_secs(20);
/// Last bytes of its log in a report.
const MAX_LOG_BYTES: usize = 8 * 1024;

/// A running HAProxy. It is killed when dropped.
pub(crate) struct HubBalancer {
    pub(crate) url: String,
    pub(crate) ca_pem: String,
    process: Process,
    _folder: TempDir,
}

impl HubBalancer {
    /// Unpacks HAProxy, unless it is cached, and starts it.
    pub(crate) async fn start(hubs: &[Hub]) -> anyhow::Result<Self> {
        let unpacked = unpack().await?;
        let folder = tempfile::tempdir()?;
        // HAProxy does not report the port that it got.
        let bind = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let ca = TestCa::new("public")?;
        let leaf = ca.leaf(&["127.0.0.1"])?;
        let certificate = folder.path().join("tls.pem");
        fs::write(&certificate, format!("{}{}", leaf.pem(), leaf.key_pem()))?;
        let first = hubs.first().context("a hub")?;
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/haproxy/haproxy.cfg");
        let mut launch = Launch::new(unpacked.join("usr/sbin/haproxy"))
            .args(["-db", "-f", root])
            .env("LD_LIBRARY_PATH", libraries(&unpacked)?)
            .env("FAIRLEAD_BIND", bind.to_string())
            .env("FAIRLEAD_CERTIFICATE", &certificate)
            .env("FAIRLEAD_HUB_CA", &first.ready().ca_file);
        for (at, hub) in hubs.iter().enumerate() {
            let address = hub.ready().url.trim_start_matches("https://");
            launch = launch.env(format!("FAIRLEAD_HUB_{}", at + 1), address);
        }
        let mut process = launch.spawn(folder.path().join("out.log"))?;
        let listens = async || {
            if let Some(status) = process.ended().ok().flatten() {
                return Some(Err(anyhow::anyhow!("HAProxy ended with {status}")));
            }
            TcpStream::connect(bind).await.ok().map(Ok)
        };
        let listening = eventually(START_DEADLINE, "HAProxy's port", listens).await;
        let listening = listening.flatten();
        listening.with_context(|| process.log().unwrap_or_default())?;
        Ok(Self {
            url: format!("https://{bind}"),
            ca_pem: ca.pem(),
            process,
            _folder: folder,
        })
    }

    /// End of its log: failed requests, those sent again, and changes of the hubs' health.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        let log = self.process.log()?;
        let from = log.len().saturating_sub(MAX_LOG_BYTES);
        let line = log.get(from..).and_then(|rest| rest.find('\n'));
        Ok(log
            .get(from + line.unwrap_or(0)..)
            .unwrap_or_default()
            .to_owned())
    }
}

async fn unpack() -> anyhow::Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/haproxy/build");
    let built = Command::new(script).output().await?;
    let reason = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{}", reason.trim());
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

/// Folder of the unpacked libraries, which is named by the machine's architecture.
fn libraries(unpacked: &std::path::Path) -> anyhow::Result<PathBuf> {
    for entry in fs::read_dir(unpacked.join("usr/lib"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with("-linux-gnu") {
            return Ok(entry.path());
        }
    }
    anyhow::bail!("no libraries in {}", unpacked.display())
}
