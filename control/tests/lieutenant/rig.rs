//! A hub with a real front on a free port, and an HTTP client for it.

#[path = "../modules/rig/open_hub.rs"]
#[allow(dead_code, reason = "it fits more tests than these")]
mod open_hub;

use std::{net::SocketAddr, ops::Deref, path::PathBuf, time::Duration};

use fairlead_api::resources::Role;
use fairlead_control::{BOOTSTRAP_TTL, Config, Control};
use fairlead_gateway::Gateway;
use fairlead_runtime::{Process, listen, proxies::Proxies};
use fairlead_testkit::{
    raw::{RawAnswer, RawClient},
    wait::{TEST_DEADLINE, eventually},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use time::{OffsetDateTime, macros::datetime};

use open_hub::OpenHub;

const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
pub(crate) const MERGE: &str = "application/merge-patch+json";

pub(crate) struct Rig {
    hub: OpenHub,
    address: SocketAddr,
    admin: String,
    process: Process,
}

impl Deref for Rig {
    type Target = OpenHub;

    fn deref(&self) -> &OpenHub {
        &self.hub
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    answer: RawAnswer,
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
        self.answer.header(name).unwrap_or_default()
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Rig::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Rig::behind(Proxies::default(), change).await
    }

    pub(crate) async fn behind(proxies: Proxies, change: impl FnOnce(&mut Config)) -> Self {
        let hub = OpenHub::with(START, |config| {
            config.public_url = "https://hub.example".parse().unwrap();
            config.registry.bootstrap_ttl = BOOTSTRAP_TTL;
            config.enroll.renew_grace = Duration::ZERO;
            config.enroll.image = "fairlead:1".to_owned();
            config.enroll.steward_image = "steward:1".to_owned();
            change(config);
        })
        .await;
        let process = Process::new();
        let address = serve(&hub.control, &process, proxies);
        let mut rig = Rig {
            hub,
            address,
            admin: String::new(),
            process,
        };
        rig.admin = rig.token(Role::Admin, None, None).await;
        rig
    }

    pub(crate) async fn token(
        &self,
        role: Role,
        tenant: Option<&str>,
        cluster: Option<&str>,
    ) -> String {
        let token = self.mint(&format!("a-{role}"), role, tenant, cluster).await;
        token.expose_secret().to_owned()
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
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += "host: hub.example\r\n";
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let answer = RawClient::plain(self.address).send(request).await.unwrap();
        Reply {
            status: answer.status,
            text: String::from_utf8(answer.body.clone()).unwrap(),
            answer,
        }
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
        self.hub.dir.path().join("data")
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
        self.until("open requests", || open().filter(|it| *it >= count))
            .await;
    }

    /// Number of decided changes, with any result.
    pub(crate) async fn writer_turns(&self) -> f64 {
        self.until("a change", || self.metric("fairlead_store_changes_total"))
            .await
    }

    pub(crate) fn database_reads(&self) -> Option<f64> {
        self.metric("fairlead_store_reads_total")
    }

    async fn until<T>(&self, condition: &str, is_so: impl Fn() -> Option<T>) -> T {
        let found = eventually(TEST_DEADLINE, condition, async || is_so());
        found.await.unwrap()
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

fn serve(control: &Control, process: &Process, proxies: Proxies) -> SocketAddr {
    let config = fairlead_gateway::Config {
        public_url: "https://hub.example".parse().unwrap(),
        cluster_domain: "clusters.hub.example".to_owned(),
        front_tls: control.front_tls(),
        session_tls: control.session_tls(),
        hub_tls: control.hub_tls(),
        trust_domain: control.trust_domain().to_owned(),
        limits: fairlead_gateway::GatewayLimits::default(),
        proxies,
        service_listen: None,
    };
    let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let plain = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = plain.local_addr().unwrap();
    let gateway = Gateway::build(config, control.seam(), listener, process).unwrap();
    let gateway = gateway.with_plain(Some(plain));
    process.spawn(async move { gateway.serve().await.unwrap() });
    address
}
