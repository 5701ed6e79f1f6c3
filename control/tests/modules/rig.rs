//! A hub in a temporary directory, its routes, and callers.

#[path = "rig/open_hub.rs"]
mod open_hub;
#[path = "rig/reply.rs"]
mod reply;

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::Deref,
    sync::Arc,
};

use axum::{Extension, Router, body::Body};
use fairlead_api::resources::{JoinInfo, Role};
use fairlead_certs::{AgentIdentity, AgentKey, Leaf, agent_identity};
use fairlead_control::Config;
use fairlead_seam::{AgentAddress, AgentPeer, Caller, ClusterScope, Principal};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tempfile::TempDir;
use time::{OffsetDateTime, macros::datetime};
use tower::ServiceExt;

use open_hub::OpenHub;
#[allow(
    unused_imports,
    reason = "not every user of this file opens hubs itself"
)]
pub(crate) use open_hub::config;
pub(crate) use reply::Reply;

pub(crate) const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const START: OffsetDateTime = datetime!(2026-11-21 12:00:00.25 UTC);

/// The routes of an open hub.
pub(crate) struct Rig(OpenHub);

impl Deref for Rig {
    type Target = OpenHub;

    fn deref(&self) -> &OpenHub {
        &self.0
    }
}

pub(crate) fn caller(role: Role, tenant: Option<&str>) -> Caller {
    Caller {
        token: None,
        name: format!("{role}-of-{}", tenant.unwrap_or("all")),
        role,
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: None,
        expires: None,
    }
}

pub(crate) fn admin() -> Caller {
    caller(Role::Admin, None)
}

pub(crate) fn principal(who: &Caller) -> Principal {
    Principal::known(who.clone(), FROM)
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Rig::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Rig(OpenHub::with(START, change).await)
    }

    /// Opens a hub with this configuration at this time.
    pub(crate) async fn opened(config: Config, start: OffsetDateTime) -> Self {
        Rig(OpenHub::opened(config, start).await)
    }

    /// Stops the hub and starts it again in the same directory.
    pub(crate) async fn restart(self) -> Self {
        Rig(self.0.restart().await)
    }

    /// Closes the hub and returns its directory.
    pub(crate) async fn close(self) -> TempDir {
        self.0.close().await
    }

    pub(crate) async fn send(router: Router, request: Request<Body>) -> Reply {
        let response = router.oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Calls a route of any router.
    pub(crate) async fn of(&self, router: Router, method: Method, path: &str) -> Reply {
        let request = Request::builder().method(method).uri(path);
        Rig::send(router, request.body(Body::empty()).unwrap()).await
    }

    pub(crate) fn user_routes(&self) -> Router {
        let modules = self.control.seam().modules;
        let people = modules.iter().map(|module| module.user_routes());
        people.fold(Router::new(), Router::merge)
    }

    /// Calls a route for people with a body of any kind.
    pub(crate) async fn raw(
        &self,
        who: &Caller,
        method: Method,
        path: &str,
        body: impl Into<Body>,
    ) -> Reply {
        let people = self.user_routes().layer(Extension(principal(who)));
        Rig::send(people, sent(method, path, body)).await
    }

    /// Calls a route without a caller.
    pub(crate) async fn nobody(&self, method: Method, path: &str, body: impl Into<Body>) -> Reply {
        Rig::send(self.user_routes(), sent(method, path, body)).await
    }

    /// Like [`Rig::call`], with a precondition header.
    pub(crate) async fn with_precondition(
        &self,
        who: &Caller,
        method: Method,
        path: &str,
        (name, value): (header::HeaderName, &str),
        body: Value,
    ) -> Reply {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(name, value).body(body.to_string().into());
        Rig::send(
            self.user_routes().layer(Extension(principal(who))),
            request.unwrap(),
        )
        .await
    }

    /// Body of a response, as a stream.
    pub(crate) async fn stream(
        &self,
        who: &Caller,
        path: &str,
        (name, value): (header::HeaderName, &str),
    ) -> Body {
        let request = Request::get(path).header(name, value);
        let request = request.body(Body::empty()).unwrap();
        let people = self.user_routes().layer(Extension(principal(who)));
        people.oneshot(request).await.unwrap().into_body()
    }

    pub(crate) async fn call(
        &self,
        who: &Caller,
        method: Method,
        path: &str,
        body: Value,
    ) -> Reply {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.raw(who, method, path, body).await
    }

    pub(crate) async fn get(&self, who: &Caller, path: &str) -> Reply {
        self.call(who, Method::GET, path, Value::Null).await
    }

    pub(crate) async fn post(&self, who: &Caller, path: &str, body: Value) -> Reply {
        self.call(who, Method::POST, path, body).await
    }

    pub(crate) async fn delete(&self, who: &Caller, path: &str) -> Reply {
        self.call(who, Method::DELETE, path, Value::Null).await
    }

    /// Calls a public route.
    pub(crate) async fn open(&self, path: &str) -> Reply {
        let modules = self.control.seam().modules;
        let open = modules
            .iter()
            .fold(Router::new(), |all, m| all.merge(m.open_routes()));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        Rig::send(open, request).await
    }

    /// Calls a public route for other servers, with this header.
    pub(crate) async fn hook(
        &self,
        path: &str,
        (name, value): (&str, &str),
        body: impl Into<Body>,
    ) -> Reply {
        let modules = self.control.seam().modules;
        let open = modules.iter();
        let open = open.fold(Router::new(), |all, it| all.merge(it.open_routes()));
        let request = Request::post(path).header(name, value);
        Rig::send(open, request.body(body.into()).unwrap()).await
    }

    /// Calls a route for agents.
    pub(crate) async fn agent(&self, peer: &AgentPeer, request: Request<String>) -> Reply {
        let modules = self.control.seam().modules;
        let agents = modules
            .iter()
            .fold(Router::new(), |all, m| all.merge(m.agent_routes()));
        let agents = agents
            .layer(Extension(peer.clone()))
            .layer(Extension(AgentAddress(FROM)));
        Rig::send(agents, request.map(Body::from)).await
    }

    pub(crate) async fn tenant(&self, name: &str) {
        let body = json!({ "id": name, "gitRepo": { "type": "unmanaged" } });
        self.post(&admin(), "/tenants", body).await.good();
    }

    pub(crate) async fn cluster(&self, name: &str, tenant: &str) -> JoinInfo {
        let body = json!({ "id": name, "tenant": tenant });
        let reply = self.post(&admin(), "/clusters", body).await;
        serde_json::from_value(reply.good()).unwrap()
    }

    pub(crate) async fn token(&self, role: Role) -> SecretString {
        self.mint("alice", role, None, None).await
    }

    pub(crate) async fn enroll(&self, token: &str, csr: &str) -> Reply {
        let body = json!({ "token": token, "csr": csr, "agentVersion": "0.1.0" });
        let request = Request::post(fairlead_api::enroll::ENROLL_PATH);
        let request = request.body(body.to_string()).unwrap();
        self.agent(&AgentPeer::Anonymous, request).await
    }

    /// Enrols a new key; returns its certificate as seen by TLS, and its identity.
    pub(crate) async fn enrolled(&self, join: &JoinInfo) -> (Leaf, AgentIdentity) {
        let key = AgentKey::generate().unwrap();
        let reply = self.enroll(&bootstrap(join), &key.csr().unwrap()).await;
        let leaf = key
            .with_certificate(reply.good()["certificate"].as_str().unwrap())
            .unwrap();
        let who = agent_identity(leaf.chain(), self.control.trust_domain()).unwrap();
        (leaf, who)
    }
}

fn sent(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap()
}

pub(crate) fn peer(identity: &AgentIdentity) -> AgentPeer {
    AgentPeer::Agent(Arc::new(identity.clone()))
}

/// The bootstrap token inside a join string.
pub(crate) fn bootstrap(join: &JoinInfo) -> String {
    let join: fairlead_api::JoinString = join.join.expose_secret().parse().unwrap();
    join.token.expose_secret().to_owned()
}
