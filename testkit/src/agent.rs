//! A fake agent: the agent's end of a session, in front of a fake API server.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{
    ClusterId, HubUrl, JoinString,
    config::{APPLIED_REVISION_HEADER, DESIRED_REVISION_HEADER},
    enroll::{ENROLL_PATH, EnrollRequest, Issued},
    headers::{CHANGED_PATH, DRAINING, PROBE_PATH, WATCH_SECONDS},
    hello::{HELLO_PATH, Hello, Instance, LinkIndex},
};
use fairlead_certs::{AgentKey, Authority, LEAF_LIFETIME, Leaf, Registration, agent_identity};
use fairlead_dialer::{
    DialError, DialTrace, Dialer, Limits, LinkState, Redialed, Session, dial::ProxyRules,
};
use fairlead_exchange::{Answer, Body, Exchanges, serve};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use rustls::ClientConfig;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    api_server::{ApiScript, BodyStep, respond},
    body::full,
    tls,
    wait::soon,
};

/// Version that fake agents report.
const VERSION: &str = "0.0.0-test";

/// Everything that a fake agent needs to reach a hub under test.
#[derive(Clone)]
pub struct HubAccess {
    /// Port of the hub on `localhost`.
    pub port: u16,
    /// TLS of the WebSocket connection.
    pub outer_tls: Arc<ClientConfig>,
    /// CA of agents and of the hub.
    pub authority: Arc<Authority>,
}

/// A fake agent. It answers no more requests once it is dropped.
pub struct FakeAgent {
    /// Its session with the hub.
    pub session: Session,
    /// Requests to the hub.
    pub exchanges: Exchanges,
    /// Behaviour and record of its probes.
    pub probes: Arc<ProbeScript>,
    /// Behaviour of its API server.
    pub api: Arc<ApiScript>,
    /// Method and URL of each request except probes.
    pub requests: tokio::sync::Mutex<mpsc::Receiver<String>>,
    dialer: Dialer,
    inner_tls: Arc<ClientConfig>,
    serving: JoinHandle<()>,
}

/// Answers to the hub's probes, and a record of their headers.
pub struct ProbeScript {
    /// Status of an answer, with code and cause if it is the agent's own.
    pub answer: Mutex<(u16, Option<(&'static str, &'static str)>)>,
    /// Probes are not answered.
    pub hangs: AtomicBool,
    /// Seconds until the next probe that each probe has announced, in order.
    pub watches: watch::Sender<Vec<Option<u64>>>,
    /// A probe has announced that the hub drains.
    pub draining: AtomicBool,
    /// Configuration revision of the last probe.
    pub desired_revision: watch::Sender<Option<String>>,
    /// Configuration revision that answers report as applied.
    pub applied_revision: Mutex<Option<&'static str>>,
}

/// The first request of an agent on its session.
#[derive(Clone, Copy)]
pub enum AgentHello {
    /// None is sent.
    Omitted,
    /// Sent with these values.
    Sent {
        /// Number that identifies the instance.
        instance: u8,
        /// Index of the link.
        link: u8,
        /// UID of the agent's cluster.
        uid: Option<&'static str>,
    },
}

/// A hello of this instance and link.
#[must_use]
pub fn hello(instance: u8, link: u8, uid: Option<&'static str>) -> AgentHello {
    AgentHello::Sent {
        instance,
        link,
        uid,
    }
}

impl FakeAgent {
    /// Connects as a new instance of an agent of `cluster`.
    pub async fn of(hub: HubAccess, cluster: &str) -> Self {
        FakeAgent::with_hello(hub, cluster, next_instance()).await
    }

    /// Connects with this hello.
    pub async fn with_hello(hub: HubAccess, cluster: &str, hello: AgentHello) -> Self {
        FakeAgent::issued_at(hub, Some(cluster), hello, OffsetDateTime::now_utc()).await
    }

    /// Connects without a certificate.
    pub async fn without_identity(hub: HubAccess) -> Self {
        let now = OffsetDateTime::now_utc();
        FakeAgent::issued_at(hub, None, AgentHello::Omitted, now).await
    }

    /// Connects with a certificate that expires in `left`.
    pub async fn expiring(hub: HubAccess, cluster: &str, left: Duration) -> Self {
        let issued = OffsetDateTime::now_utc() - LEAF_LIFETIME + left;
        FakeAgent::issued_at(hub, Some(cluster), next_instance(), issued).await
    }

    /// Connects with a certificate that expired this long ago.
    pub async fn expired(
        hub: HubAccess,
        cluster: &str,
        since: Duration,
        hello: AgentHello,
    ) -> Self {
        let issued = OffsetDateTime::now_utc() - LEAF_LIFETIME - since;
        FakeAgent::issued_at(hub, Some(cluster), hello, issued).await
    }

    async fn issued_at(
        hub: HubAccess,
        cluster: Option<&str>,
        hello: AgentHello,
        issued: OffsetDateTime,
    ) -> Self {
        let key = AgentKey::generate().unwrap();
        let leaf = cluster.map(|cluster| {
            let cluster: ClusterId = cluster.parse().unwrap();
            let tenant = "t-acme".parse().unwrap();
            let csr = key.csr().unwrap();
            let signed = hub.authority.sign_agent(&csr, &tenant, &cluster, issued);
            key.with_certificate(&signed.unwrap().certificate_pem)
                .unwrap()
        });
        let inner_tls = fairlead_certs::session_client(hub.authority.pin(), leaf.as_ref()).unwrap();
        FakeAgent::connect(url(&hub), hub.outer_tls, inner_tls, hello).await
    }

    /// Enrols with a hub, and connects. `ca_file`: CA of the hub's front.
    ///
    /// # Panics
    /// The hub refuses.
    pub async fn enrolled(join: &str, ca_file: &Path) -> Self {
        FakeAgent::enrolled_with(join, ca_file, |_, leaf| leaf).await
    }

    /// As [`FakeAgent::enrolled`], with a certificate that expires in `left` and is never renewed. `data`: data folder of the
    /// hub, whose CA signs the certificate.
    ///
    /// # Panics
    /// The hub refuses, or its CA cannot be read.
    pub async fn enrolled_expiring(
        join: &str,
        ca_file: &Path,
        data: &Path,
        left: Duration,
    ) -> Self {
        let authority = Authority::open_or_create(data).unwrap();
        let issued = OffsetDateTime::now_utc() - LEAF_LIFETIME + left;
        FakeAgent::enrolled_with(join, ca_file, |key, leaf| {
            let identity = agent_identity(leaf.chain(), authority.trust_domain()).unwrap();
            // A hub accepts serial numbers of the cluster's present registration only.
            let number = u64::from_str_radix(&identity.serial[..16], 16).unwrap();
            let registration = Registration::from_bytes(number.to_be_bytes());
            let (tenant, cluster) = (&identity.tenant, &identity.cluster);
            let csr = key.csr().unwrap();
            let signed = authority.sign_agent_of(registration, &csr, tenant, cluster, issued);
            key.with_certificate(&signed.unwrap().certificate_pem)
                .unwrap()
        })
        .await
    }

    /// `leaf` chooses the certificate of the key, from the issued one.
    async fn enrolled_with(
        join: &str,
        ca_file: &Path,
        leaf: impl FnOnce(&AgentKey, Leaf) -> Leaf,
    ) -> Self {
        let join: JoinString = join.parse().unwrap();
        let outer_tls = tls::client(ca_file).unwrap();
        let [hub] = join.hubs.as_slice() else {
            panic!("one hub is expected");
        };
        let connect = async |leaf: Option<&Leaf>, hello| {
            let inner_tls = fairlead_certs::session_client(join.ca_pins, leaf).unwrap();
            FakeAgent::connect(hub.clone(), outer_tls.clone(), inner_tls, hello).await
        };
        let key = AgentKey::generate().unwrap();
        let visitor = connect(None, AgentHello::Omitted).await;
        let request = EnrollRequest {
            token: join.token.clone(),
            csr: key.csr().unwrap(),
            agent_version: VERSION.to_owned(),
            cluster_uid: None,
        };
        let (status, body) = visitor.post(ENROLL_PATH, &request).await;
        assert_eq!(status, 200, "{body:?}");
        let issued: Issued = serde_json::from_slice(&body).unwrap();
        let leaf = leaf(&key, key.with_certificate(&issued.certificate).unwrap());
        connect(Some(&leaf), next_instance()).await
    }

    async fn connect(
        hub: HubUrl,
        outer_tls: Arc<ClientConfig>,
        inner_tls: Arc<ClientConfig>,
        hello: AgentHello,
    ) -> Self {
        let dialer = dialer(
            outer_tls,
            Limits {
                max_streams: 512,
                handshake: Duration::from_secs(10),
                ..Limits::default()
            },
        );
        let dialed = Box::pin(dialer.dial(&hub, inner_tls.clone())).await;
        let session = dialed.unwrap().session;
        let (sender, requests) = mpsc::channel(1024);
        let probes = Arc::new(ProbeScript {
            answer: Mutex::new((200, None)),
            hangs: AtomicBool::new(false),
            watches: watch::Sender::default(),
            draining: AtomicBool::new(false),
            desired_revision: watch::Sender::default(),
            applied_revision: Mutex::default(),
        });
        let api = Arc::<ApiScript>::default();
        let serving = accept(session.clone(), probes.clone(), api.clone(), sender);
        let agent = FakeAgent {
            exchanges: Exchanges::new(session.clone()),
            session,
            probes,
            api,
            requests: tokio::sync::Mutex::new(requests),
            dialer,
            inner_tls,
            serving: tokio::spawn(serving),
        };
        if let AgentHello::Sent { .. } = hello {
            assert_eq!(agent.send_hello(hello).await, 200);
        }
        agent
    }

    /// Waits until its session has lost its link.
    pub async fn link_lost(&self) {
        let mut link = self.session.link();
        let lost = link.wait_for(|link| *link != LinkState::Up);
        drop(soon(lost).await.unwrap());
    }

    /// Dials the hub again, for its session or for a new one.
    ///
    /// # Errors
    /// The hub rejects it.
    pub async fn redial(&self, hub: HubAccess) -> Result<Redialed, DialError> {
        let inner_tls = self.inner_tls.clone();
        Box::pin(self.dialer.redial(&url(&hub), inner_tls, &self.session)).await
    }

    /// Dials a hub for its session only.
    ///
    /// # Errors
    /// The hub rejects it.
    pub async fn resume_at(&self, hub: HubAccess) -> Result<Redialed, DialError> {
        let dialer = dialer(hub.outer_tls.clone(), Limits::default());
        Box::pin(dialer.resume(&url(&hub), &self.session)).await
    }

    /// Sends a hello and returns the status of the answer.
    ///
    /// # Panics
    /// The hello is omitted, or there is no answer.
    pub async fn send_hello(&self, hello: AgentHello) -> u16 {
        let AgentHello::Sent {
            instance,
            link,
            uid,
        } = hello
        else {
            panic!("there is no hello to send");
        };
        let hello = Hello {
            instance: Instance::from_bytes([instance; 16]),
            link: LinkIndex::try_from(link).unwrap(),
            cluster_uid: uid.map(|uid| uid.parse().unwrap()),
            agent_version: VERSION.to_owned(),
        };
        self.post(HELLO_PATH, &hello).await.0
    }

    /// Sends a document to the hub; returns status and body of the answer.
    /// Reports that the answer to a probe has changed.
    ///
    /// # Panics
    /// The hub refuses.
    pub async fn report_change(&self) {
        let (status, body) = self.post(CHANGED_PATH, &()).await;
        assert_eq!(status, 204, "{body:?}");
    }

    async fn post(&self, path: &str, document: &impl Serialize) -> (u16, Bytes) {
        let request = Request::post(path)
            .header("host", "hub")
            .header("content-type", "application/json")
            .body(full(serde_json::to_vec(document).unwrap()))
            .unwrap();
        match self.exchanges.send(request).await.unwrap() {
            Answer::Response(response) => {
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.unwrap();
                (status, body.to_bytes())
            }
            Answer::Upgraded(..) => panic!("upgraded"),
        }
    }

    /// The next request for `/stream` is answered with the steps sent here.
    #[must_use]
    pub fn next_stream(&self) -> mpsc::Sender<BodyStep> {
        self.api.next_stream()
    }

    /// Answers each further request of the hub with bytes that are not HTTP.
    #[must_use]
    pub fn answer_garbage(&self) -> JoinHandle<()> {
        self.serving.abort();
        let session = self.session.clone();
        tokio::spawn(async move {
            while let Some(mut stream) = session.accept().await {
                let _ = stream.read_u8().await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\nno: http\n\n\r").await;
            }
        })
    }

    /// Waits for a request with a method and URL that start with `start`.
    ///
    /// # Panics
    /// The agent has ended.
    pub async fn saw(&self, start: &str) -> String {
        let mut requests = self.requests.lock().await;
        loop {
            let request = requests.recv().await.unwrap();
            if request.starts_with(start) {
                return request;
            }
        }
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn url(hub: &HubAccess) -> HubUrl {
    format!("https://localhost:{}", hub.port).parse().unwrap()
}

fn dialer(outer_tls: Arc<ClientConfig>, limits: Limits) -> Dialer {
    Dialer {
        outer: outer_tls,
        any_time: None,
        proxy: ProxyRules::default(),
        limits,
        trace: DialTrace::default(),
    }
}

/// A hello of an instance that no other test uses.
fn next_instance() -> AgentHello {
    static NUMBER: AtomicU8 = AtomicU8::new(100);
    hello(NUMBER.fetch_add(1, SeqCst), 0, None)
}

async fn accept(
    session: Session,
    probes: Arc<ProbeScript>,
    api: Arc<ApiScript>,
    requests: mpsc::Sender<String>,
) {
    while let Some(stream) = session.accept().await {
        let (probes, api, requests) = (probes.clone(), api.clone(), requests.clone());
        tokio::spawn(serve(stream, move |request: Request<Body>| {
            let (probes, api, requests) = (probes.clone(), api.clone(), requests.clone());
            async move {
                if request.uri().path() == PROBE_PATH {
                    return probes.answer(request.headers().clone()).await;
                }
                let line = format!("{} {}", request.method(), request.uri());
                requests.send(line).await.unwrap();
                api.answer(request).await
            }
        }));
    }
}

impl ProbeScript {
    async fn answer(&self, headers: HeaderMap) -> Response<Body> {
        let draining = headers.contains_key(DRAINING);
        self.draining.fetch_or(draining, SeqCst);
        let watch = headers.get(WATCH_SECONDS);
        let watch = watch.map(|seconds| seconds.to_str().unwrap().parse().unwrap());
        self.watches.send_modify(|watches| watches.push(watch));
        let desired = headers.get(DESIRED_REVISION_HEADER);
        let desired = desired.map(|desired| desired.to_str().unwrap().to_owned());
        self.desired_revision.send_replace(desired);
        if self.hangs.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        let (status, own) = *self.answer.lock().unwrap();
        let applied = *self.applied_revision.lock().unwrap();
        let applied = applied.map(|revision| (APPLIED_REVISION_HEADER, revision));
        let code = own.map(|(code, _)| ("fairlead-code", code));
        let headers: Vec<_> = applied.into_iter().chain(code).collect();
        respond(status, &headers, own.map_or("ok", |(_, cause)| cause))
    }
}

/// A step of a streamed body with these bytes.
pub fn data(bytes: &'static str) -> BodyStep {
    Ok(Frame::data(Bytes::from_static(bytes.as_bytes())))
}
