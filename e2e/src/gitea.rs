//! A Gitea in a scratch folder, on a port of loopback.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, ensure};
use fairlead_testkit::{raw::RawClient, reserved_port::ReservedPort};
use serde_json::Value;

/// Administrator of the server, and owner of its repositories.
const USER: &str = "ann";
const PASSWORD: &str = "secret-word";
/// Both as HTTP sends them.
const BASIC_CREDENTIALS: &str = "Basic YW5uOnNlY3JldC13b3Jk";

/// A Gitea. It ends when this is dropped or when this program ends.
#[derive(Debug)]
pub struct Gitea {
    built: String,
    folder: PathBuf,
    /// Its configuration names the ports, so it cannot choose them.
    port: ReservedPort,
    ssh_port: ReservedPort,
    server: Option<Child>,
}

impl Gitea {
    /// Starts a server with its data in `folder`.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let built = Command::new(script("build"))
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(built.status.success(), "gitea/build failed");
        let mut gitea = Self {
            built: String::from_utf8(built.stdout)?.trim().to_owned(),
            folder: folder.to_owned(),
            port: ReservedPort::new()?,
            ssh_port: ReservedPort::new()?,
            server: None,
        };
        gitea.resume()?;
        Ok(gitea)
    }

    /// Starts the server again on the same data and the same port.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        let mut server = Command::new(script("server"))
            .arg(&self.built)
            .arg(&self.folder)
            .arg(self.port.port().to_string())
            .arg(self.ssh_port.port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = server.stdout.take().context("no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "Gitea is not ready: {line}");
        self.server = Some(server);
        Ok(())
    }

    /// Stops the server, and keeps its data.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            if let Some(mut stdin) = server.stdin.take() {
                stdin.write_all(b"\n").ok();
            }
            server.wait().ok();
        }
    }

    /// Address of a repository, which everybody may read.
    #[must_use]
    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{USER}/{repository}.git", self.address())
    }

    /// The same with the login that may push.
    #[must_use]
    pub fn push_url(&self, repository: &str) -> String {
        let address = self.address();
        format!("http://{USER}:{PASSWORD}@{address}/{USER}/{repository}.git")
    }

    /// Makes a repository with the branch `trunk`. The default branch cannot be deleted, any other one can.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn create_repository(&self, name: &str) -> anyhow::Result<()> {
        let body = serde_json::json!({
            "name": name,
            "private": false,
            "auto_init": true,
            "default_branch": "trunk",
        });
        self.post("/user/repos", &body).await
    }

    /// Calls this URL after each push.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn add_webhook(&self, name: &str, url: &str, secret: &str) -> anyhow::Result<()> {
        let body = serde_json::json!({
            "type": "gitea",
            "active": true,
            "events": ["push"],
            "config": { "url": url, "content_type": "json", "secret": secret },
        });
        let path = format!("/repos/{USER}/{name}/hooks");
        self.post(&path, &body).await
    }

    /// Port of its SSH server.
    #[must_use]
    pub fn ssh_port(&self) -> u16 {
        self.ssh_port.port()
    }

    fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Host keys of its SSH server, as lines of `known_hosts`.
    ///
    /// # Errors
    /// It has none.
    pub async fn host_keys(&self) -> anyhow::Result<String> {
        let port = self.ssh_port().to_string();
        let scanned = tokio::process::Command::new("ssh-keyscan")
            .args(["-p", &port, "127.0.0.1"])
            .stdin(Stdio::null())
            .output()
            .await?;
        let lines = String::from_utf8(scanned.stdout)?;
        ensure!(lines.contains("ssh-"), "ssh-keyscan found no key");
        Ok(lines)
    }

    /// Address of a repository of an organisation, with the login that may push.
    #[must_use]
    pub fn push_url_of(&self, owner: &str, repository: &str) -> String {
        let address = self.address();
        format!("http://{USER}:{PASSWORD}@{address}/{owner}/{repository}.git")
    }

    /// Address of its web pages.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Makes a token of the administrator with all rights.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn create_token(&self) -> anyhow::Result<String> {
        let body = serde_json::json!({ "name": "hub", "scopes": ["all"] });
        let path = format!("/users/{USER}/tokens");
        let made = self.call("POST", &path, &body).await?;
        let token = made
            .get("sha1")
            .and_then(Value::as_str)
            .context("no token")?;
        Ok(token.to_owned())
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.call("POST", path, body).await.map(drop)
    }

    /// Sends a request of the administrator to its API; returns the body of the answer.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let length = body.len();
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: gitea\r\nConnection: close\r\nAuthorization: {BASIC_CREDENTIALS}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let client = RawClient::plain(self.address());
        let answer = client.send(request).await?;
        let text = answer.text();
        ensure!((200..300).contains(&answer.status), "{path}: {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

impl Drop for Gitea {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // The script cleans up at the end of its input.
            drop(server.stdin.take());
            server.wait().ok();
        }
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("gitea")
        .join(name)
}
