//! A hub with a configured certificate, which another program renews. Nobody but Prometheus uses it.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::Context;
use fairlead_e2e::Launch;
use fairlead_testkit::{
    process::Process,
    tls::{TestCa, TestLeaf},
};
use serde_json::Value;
use tempfile::TempDir;
use time::OffsetDateTime;

const READY_DEADLINE: Duration = Duration::from_secs(30);
const NAMES: [&str; 1] = ["hub.example.com"];

pub(super) struct CertifiedHub {
    _process: Process,
    authority: TestCa,
    folder: TempDir,
    pub(super) admin: SocketAddr,
}

impl CertifiedHub {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let authority = TestCa::new("corporate")?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        write(&folder, &authority.leaf(&NAMES)?)?;
        let ready = folder.path().join("ready.json");
        let mut process = Launch::hub()?
            .env("HOME", folder.path())
            .args(["server", "--public-url", "https://hub.example.com"])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--data", &path("data"), "--ready-file", &path("ready.json")])
            .args([
                "--tls-cert",
                &path("tls.crt"),
                "--tls-key",
                &path("tls.key"),
            ])
            .spawn(folder.path().join("hub.log"))?;
        process.wait_for_file(&ready, READY_DEADLINE).await?;
        let ready: Value = serde_json::from_slice(&fs::read(&ready)?)?;
        let admin = ready["admin_url"].as_str().context("no admin_url")?;
        Ok(CertifiedHub {
            admin: admin.trim_start_matches("http://").parse()?,
            _process: process,
            authority,
            folder,
        })
    }

    /// Replaces the certificate by one that is valid for `left`.
    pub(super) fn certify(&self, left: time::Duration) -> anyhow::Result<()> {
        let end = OffsetDateTime::now_utc() + left;
        write(&self.folder, &self.authority.leaf_until(&NAMES, end)?)
    }
}

fn write(folder: &TempDir, leaf: &TestLeaf) -> anyhow::Result<()> {
    fs::write(folder.path().join("tls.crt"), leaf.pem())?;
    fs::write(folder.path().join("tls.key"), leaf.key_pem())?;
    Ok(())
}
