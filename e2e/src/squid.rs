//! A squid on loopback that passes CONNECT for one user with a password.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::ensure;
use fairlead_testkit::{
    process::{Launch, Process},
    reserved_port::ReservedPort,
};
use tokio::process::Command;

use crate::eventually;

const START_DEADLINE: Duration = Duration::from_secs(20);
const HELPER: &str = "/usr/lib/squid/basic_ncsa_auth";
const USER: &str = "agent";
const PASSWORD: &str = "proxy-word";

/// A running squid. It ends when this is dropped.
#[derive(Debug)]
pub struct LoopbackSquid {
    folder: PathBuf,
    port: ReservedPort,
    _process: Process,
}

impl LoopbackSquid {
    /// True if squid is installed on this machine.
    #[must_use]
    pub fn is_installed() -> bool {
        Path::new(HELPER).exists()
    }

    /// Starts squid with its files in `folder`.
    ///
    /// # Errors
    /// It is not installed, or does not start. The error quotes its log.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with_names(folder, &[]).await
    }

    /// As [`LoopbackSquid::start`]; only this squid resolves the names, to 127.0.0.1.
    ///
    /// # Errors
    /// As [`LoopbackSquid::start`].
    pub async fn start_with_names(folder: &Path, names: &[&str]) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        // squid gives up root before it writes its logs.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        let port = ReservedPort::new()?;
        let address = port.address();
        let hashed = Command::new("openssl")
            .args(["passwd", "-apr1", PASSWORD])
            .output()
            .await?;
        ensure!(hashed.status.success(), "openssl passwd: {hashed:?}");
        let hashed = String::from_utf8(hashed.stdout)?;
        fs::write(folder.join("people"), format!("{USER}:{hashed}"))?;
        let hosts = names.iter().map(|name| format!("127.0.0.1 {name}\n"));
        fs::write(folder.join("hosts"), hosts.collect::<String>())?;
        let at = folder.display();
        let config = format!(
            "http_port {address}\nvisible_hostname corp\npid_filename none\ncoredump_dir {at}\npinger_enable off\n\
             cache deny all\nshutdown_lifetime 0 seconds\nmax_filedescriptors 1024\nlogfile_rotate 0\nbuffered_logs off\n\
             access_log stdio:{at}/access.log\ncache_log {at}/cache.log\nhosts_file {at}/hosts\n\
             auth_param basic program {HELPER} {at}/people\nauth_param basic children 1\nauth_param basic realm corp\n\
             acl known proxy_auth REQUIRED\nhttp_access deny !known\nhttp_access allow all\n"
        );
        fs::write(folder.join("squid.conf"), config)?;
        let process = Launch::new("squid")
            .args([
                "-N".as_ref(),
                "-f".as_ref(),
                folder.join("squid.conf").as_os_str(),
            ])
            .spawn(folder.join("out.log"))?;
        let up = eventually(START_DEADLINE, "squid's port", async || {
            TcpStream::connect(address).ok()
        });
        let up = up.await.map(drop);
        up.map_err(|error| error.context(process.log().unwrap_or_default()))?;
        Ok(Self {
            folder: folder.to_owned(),
            port,
            _process: process,
        })
    }

    /// Value of `HTTPS_PROXY`, with its user.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{USER}:{PASSWORD}@{}", self.port.address())
    }

    /// Access log: one line per ended request.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn access_log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.folder.join("access.log"))?)
    }
}
