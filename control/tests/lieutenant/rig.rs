//! A hub with a real front on a free port, and an HTTP client for it.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use fairlead_api::resources::{CreateToken, Role};
use fairlead_control::{BOOTSTRAP_TTL, Config, Control, GitServers};
use fairlead_gateway::Gateway;
use fairlead_registry::Discovery;
use fairlead_runtime::{Process, listen};
use fairlead_store::Clock;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use secrecy::ExposeSecret;
use serde_json::Value;
use tempfile::TempDir;
use time::{OffsetDateTime, macros::datetime};
use tokio::{net::TcpStream, time::timeout};

const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
/// Deadline for a condition that never becomes true.
const TEST_DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const MERGE: &str = "application/merge-patch+json";

pub(crate) struct Rig {
    pub(crate) control: Control,
    address: SocketAddr,
    admin: String,
    now: Arc<Mutex<OffsetDateTime>>,
    process: Process,
    dir: TempDir,
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn good(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        match self.text.as_str() {
            "" => Value::Null,
            _ => self.json(),
        }
    }

    pub(crate) fn reason(&self) -> String {
        let body = self.json();
        let reason = body["reason"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("no reason: {self:?}"));
        assert!(!reason.contains('\n'), "{reason}");
        reason.to_owned()
    }

    /// Asserts status and reason of a failure.
    pub(crate) fn is(&self, status: u16, says: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let reason = self.reason();
        assert!(reason.contains(says), "{reason:?} does not say {says:?}");
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Rig::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            store: None,
            retention: fairlead_store::Retention::default(),
            reporting: fairlead_registry::stale::Reporting::default(),
            store_key: None,
            influx: None,
            accept_data_loss: false,
            issuers: None,
            data_dir: dir.path().join("data"),
            public_url: "https://hub.example".parse().unwrap(),
            install_base: None,
            cluster_domain: "clusters.hub.example".to_owned(),
            front_leaf: None,
            bootstrap_ttl: BOOTSTRAP_TTL,
            renew_grace: Duration::ZERO,
            version: "0.1.0".to_owned(),
            image: "fairlead:1".to_owned(),
            steward_image: "steward:1".to_owned(),
            metric_facts: vec!["distribution".to_owned()],
            discovery: Discovery::default(),
            trusted_proxies: Vec::new(),
            git_servers: GitServers::default(),
        };
        change(&mut config);
        let now = Arc::new(Mutex::new(START));
        let clock = Arc::clone(&now);
        let clock = Clock::new(move || *clock.lock().unwrap());
        let control = Control::open_at(config, clock).await.unwrap();
        let process = Process::new();
        let address = serve(&control, &process);
        let mut rig = Rig {
            control,
            address,
            admin: String::new(),
            now,
            process,
            dir,
        };
        rig.admin = rig.token(Role::Admin, None, None).await;
        rig
    }

    pub(crate) fn advance(&self, by: time::Duration) {
        *self.now.lock().unwrap() += by;
    }

    pub(crate) async fn token(
        &self,
        role: Role,
        tenant: Option<&str>,
        cluster: Option<&str>,
    ) -> String {
        let create = CreateToken {
            name: format!("a-{role}"),
            role,
            tenant: tenant.map(|it| it.parse().unwrap()),
            cluster: cluster.map(|it| it.parse().unwrap()),
            ttl_seconds: None,
        };
        let created = self.control.mint_token(create).await.unwrap();
        created.token.expose_secret().to_owned()
    }

    /// The `Authorization` header of a new token on all tenants.
    pub(crate) async fn bearer(&self, role: Role) -> String {
        format!("Bearer {}", self.token(role, None, None).await)
    }

    /// Id of the token with this name.
    pub(crate) async fn token_id(&self, name: &str) -> String {
        let listed = self.get("/v1/tokens").await.good();
        let mut items = listed["items"].as_array().unwrap().iter();
        let found = items.find(|it| it["name"] == name);
        found.unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Sends an arbitrary request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let sending = async {
            let tcp = TcpStream::connect(self.address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.unwrap();
            let driver = tokio::spawn(connection);
            let mut request = Request::builder().method(method).uri(path);
            if !headers.iter().any(|(name, _)| *name == "host") {
                request = request.header("host", "hub.example");
            }
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request
                .body(Full::new(bytes::Bytes::from(body.to_owned())))
                .unwrap();
            let (head, body) = sender.send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            drop(sender);
            drop(driver.await);
            Reply {
                status: head.status.as_u16(),
                headers: head.headers,
                text: String::from_utf8(body.to_vec()).unwrap(),
            }
        };
        timeout(TEST_DEADLINE, sending).await.unwrap()
    }

    pub(crate) async fn as_who(&self, token: &str, method: &str, path: &str, body: &str) -> Reply {
        let kind = if method == "PATCH" {
            MERGE
        } else {
            "application/json"
        };
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        self.send(method, path, &headers, body).await
    }

    /// Sends a request as an admin of all tenants.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Reply {
        self.as_who(&self.admin, method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, "").await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.call("PATCH", path, &body.to_string()).await
    }

    pub(crate) async fn tenant(&self, id: &str) -> Value {
        let body = serde_json::json!({
            "id": id, "gitRepo": { "url": "ssh://git@git.example/syn/tenant.git" },
            "globalGitRepoURL": "ssh://git@git.example/syn/global.git",
        });
        self.call("POST", "/tenants", &body.to_string())
            .await
            .good()
    }

    /// A tenant `t-acme` and a cluster `c-demo` with an unmanaged repository.
    pub(crate) async fn demo(&self) -> Value {
        self.tenant("t-acme").await;
        let body = serde_json::json!({
            "id": "c-demo", "tenant": "t-acme", "displayName": "Demo",
            "facts": { "cloud": "aws", "distribution": "openshift4" },
            "gitRepo": { "url": "ssh://git@git.example/syn/demo.git", "type": "unmanaged" },
        });
        self.call("POST", "/clusters", &body.to_string())
            .await
            .good()
    }
}

impl Rig {
    /// The hub's data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn drain(&self) {
        self.process.start_drain();
    }

    /// Sum of a metric over its labels; `None` until it exists.
    fn metric(&self, name: &str) -> Option<f64> {
        let families = self.process.registry().gather();
        let family = families.iter().find(|it| it.name() == name)?;
        let values = family.get_metric().iter();
        let values = values.map(|it| it.get_gauge().get_value() + it.get_counter().get_value());
        Some(values.sum())
    }

    /// Waits until this many requests are in progress.
    pub(crate) async fn until_open(&self, count: f64) {
        let open = || self.metric("fairlead_requests_open");
        self.until(|| open().filter(|it| *it >= count)).await;
    }

    /// Number of decided changes, with any result.
    pub(crate) async fn writer_turns(&self) -> f64 {
        self.until(|| self.metric("fairlead_store_changes_total"))
            .await
    }

    pub(crate) fn database_reads(&self) -> Option<f64> {
        self.metric("fairlead_store_reads_total")
    }

    async fn until<T>(&self, is_so: impl Fn() -> Option<T>) -> T {
        let waiting = async {
            loop {
                if let Some(so) = is_so() {
                    return so;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(TEST_DEADLINE, waiting).await.unwrap()
    }
}

/// Path of the manifests of a newly created cluster.
pub(crate) fn install_path(cluster: &Value) -> String {
    let url = cluster["installURL"].as_str().unwrap();
    url.strip_prefix("https://hub.example").unwrap().to_owned()
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.process.start_drain();
    }
}

fn serve(control: &Control, process: &Process) -> SocketAddr {
    let config = fairlead_gateway::Config {
        public_url: "https://hub.example".parse().unwrap(),
        cluster_domain: "clusters.hub.example".to_owned(),
        front_tls: control.front_tls(),
        session_tls: control.session_tls(),
        trust_domain: control.trust_domain().to_owned(),
        head_timeout: Duration::from_secs(60),
        max_requests_per_caller: 1000,
        resume_window: Duration::from_secs(60),
        session_memory: 1 << 30,
    };
    let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let plain = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = plain.local_addr().unwrap();
    let gateway = Gateway::build(config, control.seam(), listener, process).unwrap();
    let gateway = gateway.with_plain(Some(plain));
    process.spawn(async move { gateway.serve().await.unwrap() });
    address
}
