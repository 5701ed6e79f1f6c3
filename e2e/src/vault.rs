//! A real Vault with its data in memory, and requests to its HTTP API.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_testkit::{
    process::{Launch, Process},
    raw::RawClient,
    wait::eventually,
};
use serde_json::{Value, json};

const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// A running, unsealed Vault. It ends when this is dropped.
#[derive(Debug)]
pub struct Vault {
    address: SocketAddr,
    root_token: String,
    unseal_key: String,
    program: PathBuf,
    log: PathBuf,
    process: Process,
}

/// Answer of Vault.
#[derive(Debug)]
pub struct VaultReply {
    /// Status of the response.
    pub status: u16,
    /// Body; `null` without one.
    pub body: Value,
}

impl VaultReply {
    /// The body of a success.
    ///
    /// # Errors
    /// Vault refused.
    pub fn success(self) -> anyhow::Result<Value> {
        let is_success = (200..300).contains(&self.status);
        ensure!(is_success, "status {}: {}", self.status, self.body);
        Ok(self.body)
    }
}

impl Vault {
    /// Builds and starts a Vault, with its log in `folder`, and enables the engine `clusters/kv`.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("vault/build");
        let built = Command::new(script).stderr(Stdio::inherit()).output()?;
        ensure!(built.status.success(), "vault/build failed");
        let program = PathBuf::from(String::from_utf8(built.stdout)?.trim());
        let log = folder.join("vault.log");
        let (process, address) = launch(&program, "127.0.0.1:0", &log).await?;
        let mut vault = Vault {
            address,
            root_token: String::new(),
            unseal_key: String::new(),
            program,
            log,
            process,
        };
        vault.initialise().await?;
        Ok(vault)
    }

    async fn initialise(&mut self) -> anyhow::Result<()> {
        let shares = json!({ "secret_shares": 1, "secret_threshold": 1 });
        let made = self.call("", "PUT", "sys/init", &shares).await?.success()?;
        let text = |pointer: &str| {
            let text = made.pointer(pointer).and_then(Value::as_str);
            text.map(str::to_owned).context("a field is missing")
        };
        self.root_token = text("/root_token")?;
        self.unseal_key = text("/keys/0")?;
        self.unseal().await?;
        let engine = json!({ "type": "kv", "options": { "version": "2" } });
        self.root("POST", "sys/mounts/clusters/kv", &engine).await?;
        // The engine upgrades itself once it is mounted, and refuses requests meanwhile.
        eventually(STEP_DEADLINE, "a KV engine", async || {
            let config = self.root("GET", "clusters/kv/config", &Value::Null);
            config.await.ok()
        })
        .await?;
        Ok(())
    }

    /// Address for settings, like `http://127.0.0.1:8200`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Seals it: no request but that of its status succeeds.
    ///
    /// # Errors
    /// Vault refuses.
    pub async fn seal(&self) -> anyhow::Result<()> {
        self.root("PUT", "sys/seal", &Value::Null).await.map(drop)
    }

    /// Unseals it.
    ///
    /// # Errors
    /// It does not get active.
    pub async fn unseal(&self) -> anyhow::Result<()> {
        let key = json!({ "key": self.unseal_key });
        self.call("", "PUT", "sys/unseal", &key).await?.success()?;
        eventually(STEP_DEADLINE, "an active Vault", async || {
            let health = self.call("", "GET", "sys/health", &Value::Null);
            (health.await.ok()?.status == 200).then_some(())
        })
        .await
    }

    /// Ends the process. Its data is lost.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.process.kill_9()?;
        self.process.wait(STEP_DEADLINE).await?;
        Ok(())
    }

    /// Starts an empty Vault at the same address after [`Vault::stop`].
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let listen = self.address.to_string();
        (self.process, _) = launch(&self.program, &listen, &self.log).await?;
        self.initialise().await
    }

    /// Sends a request with the root token; returns the body of a success.
    ///
    /// # Errors
    /// Vault refuses.
    pub async fn root(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let reply = self.call(&self.root_token, method, path, body).await?;
        reply.success().with_context(|| path.to_owned())
    }

    /// Sends a request with a token, or with none.
    ///
    /// # Errors
    /// There is no response.
    pub async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<VaultReply> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let length = body.len();
        let token = match token {
            "" => String::new(),
            token => format!("X-Vault-Token: {token}\r\n"),
        };
        let request = format!(
            "{method} /v1/{path} HTTP/1.1\r\nHost: vault\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n{body}"
        );
        let answer = RawClient::plain(self.address).send(request).await?;
        Ok(VaultReply {
            status: answer.status,
            body: serde_json::from_str(&answer.text()).unwrap_or_default(),
        })
    }

    /// Makes a token with a policy of this text.
    ///
    /// # Errors
    /// Vault refuses.
    pub async fn create_token(&self, policy: &str, text: &str) -> anyhow::Result<String> {
        let body = json!({ "policy": text });
        let path = format!("sys/policies/acl/{policy}");
        self.root("PUT", &path, &body).await?;
        let body = json!({ "policies": [policy], "period": "24h" });
        let made = self.root("POST", "auth/token/create-orphan", &body).await?;
        let token = made.pointer("/auth/client_token").and_then(Value::as_str);
        token.map(str::to_owned).context("no token")
    }
}

async fn launch(program: &Path, listen: &str, log: &Path) -> anyhow::Result<(Process, SocketAddr)> {
    let process = Launch::new(program).args([listen]).spawn(log)?;
    let address = eventually(STEP_DEADLINE, "vault listens", async || {
        let log = process.own_log().ok()?;
        let address = log.lines().find_map(|line| line.strip_prefix("http://"))?;
        address.parse().ok()
    });
    let address = address.await?;
    Ok((process, address))
}
