//! The gateway under test, its modules, and clients that can send any bytes.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    response::IntoResponse,
    routing::{get, post},
};
use fairlead_api::{
    ClusterId, ClusterUid, Code, HubUrl,
    enroll::{ENROLL_PATH, Issued, RENEW_PATH},
    resources::{ClusterStatus, Role},
};
use fairlead_certs::{AgentIdentity, Authority};
use fairlead_gateway::{
    AgentPeer, Authenticator, Authorizer, Caller, Config, Directory, Gateway, Grant, Module,
    Presence, Principal, Recognition, Seam,
    seam::{AuthenticateError, AuthorizeError, DirectoryError},
};
use fairlead_runtime::{Process, listen};
use fairlead_testkit::agent::HubAccess;
use http::Uri;
use rustls::{ClientConfig, pki_types::ServerName};
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{broadcast, watch},
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) use fairlead_testkit::clock::{PausedClock, TEST_DEADLINE};

pub(crate) const HUB: &str = "hub.test";
pub(crate) const DOMAIN: &str = "clusters.hub.test";
/// Time after its expiry in which an agent's certificate is accepted.
const RENEW_GRACE: Duration = Duration::from_secs(3600);
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    /// The front without TLS.
    pub(crate) plain: SocketAddr,
    pub(crate) process: Process,
    pub(crate) authority: Arc<Authority>,
    pub(crate) modules: Arc<Fake>,
    _dir: tempfile::TempDir,
}

/// Every module at once.
pub(crate) struct Fake {
    pub(crate) clusters: Mutex<HashMap<ClusterId, Option<ClusterStatus>>>,
    pub(crate) reported: watch::Sender<HashMap<ClusterId, ClusterStatus>>,
    pub(crate) deleted: broadcast::Sender<ClusterId>,
    /// Desired configuration revision of the agents.
    pub(crate) wanted: Mutex<Option<Arc<str>>>,
    pub(crate) wanting: broadcast::Sender<ClusterId>,
    /// Number of lookups of a cluster's last status.
    pub(crate) asked: watch::Sender<usize>,
    /// While it is set, the admission of agents waits.
    pub(crate) shut: watch::Sender<bool>,
    /// Number of agents that asked for admission.
    pub(crate) knocked: watch::Sender<usize>,
    /// Number of agents to admit before their clusters move to another tenant.
    pub(crate) moves_after: Mutex<Option<usize>>,
    pub(crate) presence: OnceLock<Arc<dyn Presence>>,
    /// The UID that all agents must have, bound by the first one.
    pub(crate) uid: Mutex<Option<ClusterUid>>,
    /// Validity of a session after a renewal.
    pub(crate) renew_until: OffsetDateTime,
    /// Number of authenticated tokens.
    pub(crate) tokens: AtomicUsize,
    /// The token `good` has been revoked.
    pub(crate) revoked: AtomicBool,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Rig::with(|_| {})
    }

    /// Starts with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path() as &Path).unwrap();
        let now = OffsetDateTime::now_utc();
        let names = [HUB, "*.clusters.hub.test", "localhost", "127.0.0.1"].map(str::to_owned);
        let front = authority.issue_front(&names, now).unwrap();
        let inner = authority.issue_hub(now).unwrap();
        let front_tls = fairlead_certs::front_server(&front).unwrap();
        let session_tls =
            fairlead_certs::session_server(&inner, authority.certificate_pem(), RENEW_GRACE)
                .unwrap();
        let modules = Arc::new(Fake {
            clusters: Mutex::new(HashMap::from([
                ("c-a".parse().unwrap(), None),
                ("c-b".parse().unwrap(), None),
            ])),
            reported: watch::Sender::default(),
            deleted: broadcast::Sender::new(16),
            wanted: Mutex::default(),
            wanting: broadcast::Sender::new(16),
            asked: watch::Sender::default(),
            shut: watch::Sender::default(),
            knocked: watch::Sender::default(),
            moves_after: Mutex::default(),
            presence: OnceLock::new(),
            uid: Mutex::default(),
            renew_until: now + Duration::from_secs(3600),
            tokens: AtomicUsize::new(0),
            revoked: AtomicBool::new(false),
        });
        let process = Process::new();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut config = Config {
            public_url: format!("https://{HUB}").parse().unwrap(),
            cluster_domain: DOMAIN.to_owned(),
            front_tls: watch::channel(front_tls).1,
            session_tls: watch::channel(session_tls).1,
            trust_domain: authority.trust_domain().to_owned(),
            head_timeout: Duration::from_secs(60),
            max_requests_per_caller: 1000,
            resume_window: Duration::from_secs(60),
            session_memory: 1 << 30,
        };
        change(&mut config);
        let seam = Seam {
            authenticator: modules.clone(),
            authorizer: modules.clone(),
            directory: modules.clone(),
            modules: vec![modules.clone()],
        };
        let plain_listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let plain = plain_listener.local_addr().unwrap();
        let gateway = Gateway::build(config, seam, listener, &process).unwrap();
        let gateway = gateway.with_plain(Some(plain_listener));
        let address = gateway.local_addr();
        process.spawn(async move { gateway.serve().await.unwrap() });
        Rig {
            address,
            plain,
            process,
            authority: Arc::new(authority),
            modules,
            _dir: dir,
        }
    }

    /// Access for fake agents.
    pub(crate) fn access(&self) -> HubAccess {
        self.access_by(self.address.port())
    }

    /// Access by another port of loopback that leads to the hub.
    pub(crate) fn access_by(&self, port: u16) -> HubAccess {
        HubAccess {
            port,
            outer_tls: self.client_config("http/1.1"),
            authority: self.authority.clone(),
        }
    }

    /// A port that forwards one connection to the hub, until it is aborted.
    pub(crate) async fn way(&self) -> (u16, AbortHandle) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, hub) = (listener.local_addr().unwrap().port(), self.address);
        let way = tokio::spawn(async move {
            let (mut agent, _) = listener.accept().await.unwrap();
            let mut hub = TcpStream::connect(hub).await.unwrap();
            let _ = copy_bidirectional(&mut agent, &mut hub).await;
        });
        (port, way.abort_handle())
    }

    pub(crate) fn client_config(&self, alpn: &str) -> Arc<ClientConfig> {
        let outer = fairlead_certs::outer_client(Some(self.authority.certificate_pem()), None);
        let mut config = (*outer.unwrap()).clone();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Arc::new(config)
    }

    /// TLS to the front; an address instead of a name sends no SNI.
    pub(crate) async fn connect(&self, sni: &str, alpn: &str) -> TlsStream<TcpStream> {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        let connector = TlsConnector::from(self.client_config(alpn));
        connector.connect(name, tcp).await.unwrap()
    }

    /// Sends these bytes and reads one answer.
    pub(crate) async fn raw(&self, sni: &str, request: &[u8]) -> Answer {
        let mut tls = self.connect(sni, "http/1.1").await;
        tls.write_all(request).await.unwrap();
        tls.flush().await.unwrap();
        timeout(TEST_DEADLINE, Answer::read(&mut tls))
            .await
            .unwrap()
    }

    /// Sends a GET with a valid token and these additional headers.
    pub(crate) async fn get(&self, sni: &str, path: &str, headers: &str) -> Answer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {sni}\r\nAuthorization: Bearer good\r\n{headers}\r\n"
        );
        self.raw(sni, request.as_bytes()).await
    }

    /// The sum of a metric over all rows with these labels.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let families = self.process.registry().gather();
        let of_name = families.iter().filter(|family| family.name() == name);
        of_name
            .flat_map(|family| family.get_metric())
            .filter(|metric| {
                labels
                    .iter()
                    .all(|label| metric.get_label().iter().any(|pair| pair.value() == *label))
            })
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

/// An answer over HTTP/1.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> Self {
        let mut read = Vec::new();
        let head_end = loop {
            if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            let mut byte = [0];
            if from.read(&mut byte).await.unwrap_or(0) == 0 {
                panic!("no head: {:?}", String::from_utf8_lossy(&read));
            }
            read.push(byte[0]);
        };
        let head = String::from_utf8(read[..head_end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        let length = answer.header("content-length").unwrap_or("0");
        answer.body.resize(length.parse().unwrap(), 0);
        from.read_exact(&mut answer.body).await.unwrap();
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn code(&self) -> &str {
        self.header("fairlead-code").unwrap_or("none")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[async_trait]
impl Authenticator for Fake {
    async fn authenticate(
        &self,
        token: &SecretString,
        _: IpAddr,
    ) -> Result<Caller, AuthenticateError> {
        self.tokens.fetch_add(1, Ordering::SeqCst);
        let admin = |name: &str| Caller {
            token: None,
            name: name.to_owned(),
            role: Role::Admin,
            tenant: None,
            cluster: None,
        };
        match token.expose_secret() {
            "good" if self.revoked.load(Ordering::SeqCst) => Err(AuthenticateError::BadToken(None)),
            "good" => Ok(admin("ada")),
            "another" => Ok(admin("bob")),
            "expired" => Err(AuthenticateError::Expired),
            _ => Err(AuthenticateError::BadToken(None)),
        }
    }
}

#[async_trait]
impl Authorizer for Fake {
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError> {
        if !self.clusters.lock().unwrap().contains_key(cluster) {
            return Err(AuthorizeError::NoSuchCluster);
        }
        Ok(Grant {
            role: caller.role,
            tenant: "t-acme".parse().unwrap(),
        })
    }
}

#[async_trait]
impl Directory for Fake {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), DirectoryError> {
        self.knocked.send_modify(|knocked| *knocked += 1);
        let mut shut = self.shut.subscribe();
        shut.wait_for(|shut| !shut).await.unwrap();
        let knocked = *self.knocked.borrow();
        let moves_after = *self.moves_after.lock().unwrap();
        if moves_after.is_some_and(|count| knocked > count) {
            return Err(DirectoryError::ForeignCertificate("it has moved"));
        }
        if self
            .clusters
            .lock()
            .unwrap()
            .contains_key(&identity.cluster)
        {
            Ok(())
        } else {
            Err(DirectoryError::ClusterDeleted)
        }
    }

    async fn recognise(
        &self,
        _identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        _from: IpAddr,
    ) -> Result<Recognition, DirectoryError> {
        let Some(uid) = uid else {
            return Ok(Recognition::Unknown);
        };
        let mut bound = self.uid.lock().unwrap();
        if bound.get_or_insert_with(|| uid.clone()) == uid {
            Ok(Recognition::Known)
        } else {
            Err(DirectoryError::Cloned("another cluster".to_owned()))
        }
    }

    async fn last_status(
        &self,
        cluster: &ClusterId,
    ) -> Result<Option<ClusterStatus>, DirectoryError> {
        let never = ClusterStatus {
            state: fairlead_api::resources::ClusterState::Never,
            since: OffsetDateTime::UNIX_EPOCH,
            last_error: None,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        };
        self.asked.send_modify(|asked| *asked += 1);
        let clusters = self.clusters.lock().unwrap();
        Ok(clusters
            .get(cluster)
            .map(|status| status.clone().unwrap_or(never)))
    }

    fn other_hub(&self, cluster: &ClusterId) -> Option<HubUrl> {
        let clusters = self.clusters.lock().unwrap();
        clusters.get(cluster)?.as_ref()?.hub.clone()
    }

    async fn report(
        &self,
        cluster: &ClusterId,
        status: ClusterStatus,
    ) -> Result<(), DirectoryError> {
        if let Some(known) = self.clusters.lock().unwrap().get_mut(cluster) {
            *known = Some(status.clone());
        }
        self.reported.send_modify(|reported| {
            reported.insert(cluster.clone(), status);
        });
        Ok(())
    }

    fn deletions(&self) -> broadcast::Receiver<ClusterId> {
        self.deleted.subscribe()
    }

    fn desired_config(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        self.wanted.lock().unwrap().clone()
    }

    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        Some(self.wanting.subscribe())
    }
}

/// Handlers cannot borrow the module, so they share its state.
impl Module for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn attach(&self, presence: &Arc<dyn Presence>) {
        assert!(self.presence.set(Arc::clone(presence)).is_ok(), "once");
    }

    fn user_routes(&self) -> Router {
        Router::new()
            .route("/v1/whoami", get(whoami))
            .route("/v1/bug", get(bug))
            .route(
                "/v1/refused",
                get(|| async { fairlead_gateway::seam::refuse(Code::Conflict.into()) }),
            )
    }

    fn open_routes(&self) -> Router {
        Router::new().route("/install/x", get(|| async { "manifest" }))
    }

    fn agent_routes(&self) -> Router {
        let until = self.renew_until;
        Router::new()
            .route(ENROLL_PATH, post(enroll))
            .route(RENEW_PATH, post(move || async move { Json(issued(until)) }))
            .route("/agent/v1/catalog", get(|| async { "catalog" }))
    }
}

fn issued(until: OffsetDateTime) -> Issued {
    Issued {
        cluster: "c-a".parse().unwrap(),
        tenant: "t-acme".parse().unwrap(),
        certificate: String::new(),
        ca: String::new(),
        not_before: OffsetDateTime::UNIX_EPOCH,
        not_after: until,
    }
}

/// The query stands for the token.
async fn enroll(Extension(peer): Extension<AgentPeer>, uri: Uri) -> axum::response::Response {
    match uri.query() {
        Some("wrong") => fairlead_gateway::seam::refuse(Code::BootstrapUnknown.into()),
        Some("spent") => fairlead_gateway::seam::refuse(Code::BootstrapSpent.into()),
        _ => format!("{peer:?}").into_response(),
    }
}

async fn whoami(Extension(asker): Extension<Principal>) -> axum::response::Response {
    match asker.caller().await {
        Ok(caller) => caller.name.into_response(),
        Err(failure) => fairlead_gateway::seam::refuse(failure.into()),
    }
}

async fn bug() -> &'static str {
    panic!("a bug")
}
