//! A Git server over SSH: OpenSSH's `sshd -i`, one for each connection.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use tokio::{
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};

/// Server of the repositories of one user. It ends when this is dropped.
#[derive(Debug)]
pub struct SshServer {
    folder: PathBuf,
    port: u16,
    known_host: String,
    accepting: JoinHandle<()>,
}

impl SshServer {
    /// Unpacks OpenSSH's server, unless it is cached, and returns its folder.
    ///
    /// # Errors
    /// It cannot be had on this machine; the error quotes the script.
    pub async fn build() -> anyhow::Result<PathBuf> {
        let built = Command::new(script("build")).output().await?;
        let reason = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "{}", reason.trim());
        Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
    }

    /// Starts on a free port, with keys and log in `folder`.
    ///
    /// # Errors
    /// The keys cannot be made.
    pub async fn start(unpacked: &Path, folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        for key in ["host_key", "deploy_key"] {
            make_key(folder, key).await?;
        }
        fs::rename(
            folder.join("deploy_key.pub"),
            folder.join("authorized_keys"),
        )?;
        // A public key beside a replaced private one would be an error of the server.
        let public = folder.join("host_key.pub");
        let public_key = fs::read_to_string(&public)?;
        fs::remove_file(public)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (unpacked, served) = (unpacked.to_owned(), folder.to_owned());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Err(error) = serve(stream, &unpacked, &served) {
                    eprintln!("SSH connection: {error}");
                }
            }
        });
        Ok(Self {
            folder: folder.to_owned(),
            port,
            known_host: format!("[127.0.0.1]:{port} {public_key}"),
            accepting,
        })
    }

    /// URL of a repository of this machine.
    #[must_use]
    pub fn url(&self, repository: &Path) -> String {
        let (port, path) = (self.port, repository.display());
        format!("ssh://git@127.0.0.1:{port}{path}")
    }

    /// Private key that the server accepts.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn deploy_key(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.folder.join("deploy_key"))?)
    }

    /// Accepts these public keys, and no other one.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn authorize(&self, keys: &[&str]) -> anyhow::Result<()> {
        let new = self.folder.join("new_keys");
        fs::write(&new, keys.join("\n") + "\n")?;
        // A connection may read them meanwhile.
        fs::rename(new, self.folder.join("authorized_keys"))?;
        Ok(())
    }

    /// First host key as a line of `known_hosts`.
    #[must_use]
    pub fn known_host(&self) -> &str {
        &self.known_host
    }

    /// Replaces the host key for new connections, and returns the new one as a line of `known_hosts`. The old one stays
    /// beside it.
    ///
    /// # Errors
    /// The new key cannot be made.
    pub async fn change_host_key(&self) -> anyhow::Result<String> {
        make_key(&self.folder, "new_key").await?;
        let public = self.folder.join("new_key.pub");
        let public_key = fs::read_to_string(&public)?;
        fs::remove_file(public)?;
        // A connection may read the key at any time, so there is always one.
        fs::hard_link(self.folder.join("host_key"), self.folder.join("old_key"))?;
        fs::rename(self.folder.join("new_key"), self.folder.join("host_key"))?;
        Ok(format!("[127.0.0.1]:{} {public_key}", self.port))
    }

    /// Brings the first host key back.
    ///
    /// # Errors
    /// It was not replaced.
    pub fn restore_host_key(&self) -> anyhow::Result<()> {
        fs::rename(self.folder.join("old_key"), self.folder.join("host_key"))?;
        Ok(())
    }

    /// Messages of the server so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("sshd.log")).unwrap_or_default()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Starts a server on this connection. It ends with the connection.
fn serve(stream: TcpStream, unpacked: &Path, folder: &Path) -> anyhow::Result<()> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let output = stream.try_clone()?;
    let mut child = Command::new(script("connection"))
        .args([unpacked, folder])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(stream)))
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
        .kill_on_drop(true)
        .spawn()
        .context("e2e/ssh/connection")?;
    tokio::spawn(async move { child.wait().await });
    Ok(())
}

async fn make_key(folder: &Path, name: &str) -> anyhow::Result<()> {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(folder.join(name))
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(made.status.success(), "ssh-keygen: {made:?}");
    Ok(())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ssh").join(name)
}
