//! Things that a run leaves, searched for the secrets of the rig: at the end of a test, and all of them as the last step of
//! `make net` (`FAIRLEAD_NET_LEFT` is their folder).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use fairlead_e2e::{KnownSecrets, Launch, Site, setting};
use tokio::process::Command;

use crate::Stage;

/// Folder for things that the tests of a run leave.
const FOLDER_SETTING: &str = "FAIRLEAD_NET_LEFT";
/// File with the secrets of all tests, in that folder.
const SECRETS: &str = "secrets";
/// Folder with everything else.
const THINGS: &str = "things";

/// Secrets of one network, shared by its parts.
#[derive(Debug, Clone, Default)]
pub struct NetSecrets(Arc<Mutex<KnownSecrets>>);

impl NetSecrets {
    /// The secrets known so far.
    pub fn known(&self) -> MutexGuard<'_, KnownSecrets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stage {
    /// All secrets of this stage: those of its network, of its hub and of its agents.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn secrets(&self) -> anyhow::Result<KnownSecrets> {
        let mut secrets = self.net.secrets.known().clone();
        secrets.add_join("join string", &self.joining.join)?;
        secrets.add("token of the admin", &self.hub.token()?);
        for file in files(self.hub.dir())? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let text = fs::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            if text.contains("PRIVATE KEY-----") {
                secrets.add_keys(&name, &text);
            }
        }
        Ok(secrets)
    }

    /// Checks that no secret is in logs, audit, metrics, Events, process lists and archives for support.
    ///
    /// # Errors
    /// One is there. The error names it and its place, and does not quote it.
    pub async fn leaves_no_secret(&self, site: &Site) -> anyhow::Result<()> {
        let secrets = self.secrets()?;
        let processes = secrets.absent_from_processes()?;
        let hub = self.hub.metrics().await?.0;
        let agent = site.metrics().await?.0;
        let get = ["get", "events", "-A", "-o", "json"];
        let events = self.cluster.kubectl().args(get).run().await?.success()?;
        for (place, page) in [
            ("hub's metrics", hub),
            ("agent's metrics", agent),
            ("Events", events),
        ] {
            secrets.absent_from(place, page.as_bytes())?;
        }
        let unpacked = self.support_bundle(site).await?;
        let archived = secrets.absent_from_files(&unpacked)?;
        ensure!(archived > 0, "the archive is empty");
        let logs = self.logs()?;
        for log in &logs {
            secrets.absent_from(&log.display().to_string(), &fs::read(log)?)?;
        }
        eprintln!(
            "{} texts of secrets are in none of {processes} processes, {} logs, {archived} files for support, metrics and Events",
            secrets.count(),
            logs.len()
        );
        Ok(())
    }

    /// Folder with the files of the agent's archive for support.
    async fn support_bundle(&self, site: &Site) -> anyhow::Result<PathBuf> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = self.net.folder().join(format!("support-{number}"));
        fs::create_dir(&folder)?;
        let archive = folder.join("agent.tar.gz");
        let state = self.hub.dir().join(format!("{}.state", self.joining.id));
        let launch = Launch::agent()?
            .args(["support-bundle".as_ref(), archive.as_os_str()])
            .args([
                "--kubeconfig".as_ref(),
                self.cluster.kubeconfig().as_os_str(),
            ])
            .args(["--state".as_ref(), state.as_os_str()])
            .args(["--log-file".as_ref(), site.process.log_path().as_os_str()])
            .args(["--admin", &site.admin().to_string()])
            .env("HOME", self.hub.dir())
            .env("FAIRLEAD_JOIN", &self.joining.join)
            .inside(&self.net.site);
        let output = Command::from(launch.command()).output().await?;
        ensure!(output.status.success(), "{output:?}");
        let tar = Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&folder)
            .output();
        let tar = tar.await?;
        ensure!(tar.status.success(), "{tar:?}");
        fs::remove_file(archive)?;
        Ok(folder)
    }

    /// Logs of hub, agents and boxes, and the hub's audit.
    fn logs(&self) -> anyhow::Result<Vec<PathBuf>> {
        let is_log = |file: &PathBuf| {
            let name = file.to_string_lossy();
            name.ends_with(".log") || name.contains("/audit/")
        };
        let mut logs = files(self.hub.dir())?;
        logs.extend(files(self.net.folder())?);
        logs.retain(is_log);
        Ok(logs)
    }

    /// Copies logs and secrets for the last step of a run.
    fn keep_for_the_last_step(&self) -> anyhow::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(folder) = setting(FOLDER_SETTING).map(PathBuf::from) else {
            return Ok(());
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = folder
            .join(THINGS)
            .join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&own)?;
        for (at, log) in self.logs()?.iter().enumerate() {
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            fs::copy(log, own.join(format!("{at}-{name}")))?;
        }
        let secrets = fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join(SECRETS));
        Ok(secrets?.write_all(self.secrets()?.to_lines().as_bytes())?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = self.keep_for_the_last_step() {
            eprintln!("the last step misses a test: {error:#}");
        }
    }
}

/// Checks everything that the tests of a run have left. Returns the numbers of files and of secrets.
///
/// # Errors
/// `FAIRLEAD_NET_LEFT` names no such folder, or a secret is in a file.
pub fn check_all() -> anyhow::Result<(usize, usize)> {
    let folder = setting(FOLDER_SETTING).context(FOLDER_SETTING)?;
    let folder = Path::new(&folder);
    let mut secrets = KnownSecrets::default();
    secrets.add_lines(&fs::read_to_string(folder.join(SECRETS))?)?;
    let count = secrets.absent_from_files(&folder.join(THINGS))?;
    Ok((count, secrets.count()))
}

/// All files below a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}
