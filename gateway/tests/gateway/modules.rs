//! Every module of a gateway under test at once.

use std::{
    collections::HashMap,
    net::IpAddr,
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
    resources::{ClusterStatus, Role, ServiceState},
};
use fairlead_certs::AgentIdentity;
use fairlead_seam::{
    AgentPeer, AuthenticateError, Authenticator, AuthorizeError, Authorizer, Caller, ClusterScope,
    Directory, DirectoryError, Grant, Module, NamedService, NamedServices, Presence, Principal,
    Recognition, RemoteHub, RunningRequests, Termination,
};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::Uri;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;
use tokio::sync::{broadcast, watch};

/// Every module at once.
pub(crate) struct FakeModules {
    pub(crate) clusters: Mutex<HashMap<ClusterId, Option<ClusterStatus>>>,
    pub(crate) reported: watch::Sender<HashMap<ClusterId, ClusterStatus>>,
    pub(crate) revocations: broadcast::Sender<ClusterId>,
    /// Desired configuration revision of the agents.
    pub(crate) wanted: Mutex<Option<Arc<str>>>,
    pub(crate) wanting: broadcast::Sender<ClusterId>,
    /// Applied configuration revisions that probes reported, in order.
    pub(crate) applied: watch::Sender<Vec<(ClusterId, String)>>,
    /// Number of lookups of a cluster's last status.
    pub(crate) asked: watch::Sender<usize>,
    /// While it is set, the admission of agents waits.
    pub(crate) shut: watch::Sender<bool>,
    /// Number of agents that asked for admission.
    pub(crate) knocked: watch::Sender<usize>,
    /// Number of agents to admit before their clusters move to another tenant.
    pub(crate) moves_after: Mutex<Option<usize>>,
    /// Key of each identity that was checked, in order.
    pub(crate) keys: Mutex<Vec<[u8; 32]>>,
    /// The only admitted key.
    pub(crate) enrolled_key: Mutex<Option<[u8; 32]>>,
    pub(crate) presence: OnceLock<Arc<dyn Presence>>,
    /// The UID that all agents must have, bound by the first one.
    pub(crate) uid: Mutex<Option<ClusterUid>>,
    /// Validity of a session after a renewal.
    pub(crate) renew_until: OffsetDateTime,
    /// Number of authenticated tokens.
    pub(crate) tokens: AtomicUsize,
    /// The token `good` has been revoked.
    pub(crate) revoked: AtomicBool,
    pub(crate) access_changes: watch::Sender<u64>,
    pub(crate) terminations: Mutex<Vec<Termination>>,
    pub(crate) requests: OnceLock<Arc<dyn RunningRequests>>,
    /// Named services, and the reported states of their listeners.
    pub(crate) services: watch::Sender<Vec<NamedService>>,
    pub(crate) states: Mutex<HashMap<String, ServiceState>>,
    own_name: Option<Arc<str>>,
    /// The other hubs.
    pub(crate) remote_hubs: watch::Sender<Vec<RemoteHub>>,
    /// Names of the other hubs with a session of each cluster by the list.
    pub(crate) with_session: Mutex<Vec<Arc<str>>>,
}

impl FakeModules {
    /// Two clusters, without sessions until now.
    pub(crate) fn new(now: OffsetDateTime, own_name: Option<&str>) -> Self {
        FakeModules {
            clusters: Mutex::new(HashMap::from([
                ("c-a".parse().unwrap(), None),
                ("c-b".parse().unwrap(), None),
            ])),
            reported: watch::Sender::default(),
            revocations: broadcast::Sender::new(16),
            wanted: Mutex::default(),
            wanting: broadcast::Sender::new(16),
            applied: watch::Sender::default(),
            asked: watch::Sender::default(),
            shut: watch::Sender::default(),
            knocked: watch::Sender::default(),
            moves_after: Mutex::default(),
            keys: Mutex::default(),
            enrolled_key: Mutex::default(),
            presence: OnceLock::new(),
            uid: Mutex::default(),
            renew_until: now + Duration::from_secs(3600),
            tokens: AtomicUsize::new(0),
            revoked: AtomicBool::new(false),
            access_changes: watch::Sender::default(),
            terminations: Mutex::default(),
            requests: OnceLock::new(),
            services: watch::Sender::default(),
            states: Mutex::default(),
            own_name: own_name.map(Arc::from),
            remote_hubs: watch::Sender::default(),
            with_session: Mutex::default(),
        }
    }
}

#[async_trait]
impl Authenticator for FakeModules {
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
            clusters: ClusterScope::All,
            namespaces: Vec::new(),
            grants: Arc::default(),
            subject: None,
            expires: None,
        };
        match token.expose_secret() {
            "good" if self.revoked.load(Ordering::SeqCst) => Err(AuthenticateError::BadToken(None)),
            "good" => Ok(admin("ada")),
            "another" => Ok(admin("bob")),
            // With many groups.
            long if long.starts_with("groups-") => Ok(admin("eve")),
            "expired" => Err(AuthenticateError::Expired),
            _ => Err(AuthenticateError::BadToken(None)),
        }
    }

    async fn recheck(&self, caller: &Caller) -> Result<Caller, AuthenticateError> {
        match self.revoked.load(Ordering::SeqCst) {
            true => Err(AuthenticateError::BadToken(None)),
            false => Ok(caller.clone()),
        }
    }
}

#[async_trait]
impl Authorizer for FakeModules {
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError> {
        if !self.clusters.lock().unwrap().contains_key(cluster) {
            return Err(AuthorizeError::NoSuchCluster);
        }
        Ok(Grant::of(caller.role, "t-acme".parse().unwrap()))
    }

    fn access_changes(&self) -> BoxStream<'static, ()> {
        let changes = self.access_changes.subscribe();
        stream::unfold(changes, async |mut changes| {
            changes.changed().await.ok()?;
            Some(((), changes))
        })
        .boxed()
    }

    fn terminations(&self) -> Vec<Termination> {
        self.terminations.lock().unwrap().clone()
    }
}

#[async_trait]
impl Directory for FakeModules {
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), DirectoryError> {
        self.knocked.send_modify(|knocked| *knocked += 1);
        let mut shut = self.shut.subscribe();
        shut.wait_for(|shut| !shut).await.unwrap();
        let knocked = *self.knocked.borrow();
        let moves_after = *self.moves_after.lock().unwrap();
        if moves_after.is_some_and(|count| knocked > count) {
            return Err(DirectoryError::Revoked(
                "the cluster has moved to another tenant",
            ));
        }
        self.keys.lock().unwrap().push(identity.key);
        let enrolled = *self.enrolled_key.lock().unwrap();
        if enrolled.is_some_and(|key| key != identity.key) {
            return Err(DirectoryError::Revoked("another key has enrolled since"));
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

    fn own_name(&self) -> Option<Arc<str>> {
        self.own_name.clone()
    }

    fn remote_hubs(&self) -> Vec<RemoteHub> {
        self.remote_hubs.borrow().clone()
    }

    fn remote_hub_changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes = stream::unfold(self.remote_hubs.subscribe(), async |mut changes| {
            changes.changed().await.ok()?;
            Some(((), changes))
        });
        Some(changes.boxed())
    }

    fn hubs_with_session(&self, _cluster: &ClusterId) -> Vec<Arc<str>> {
        self.with_session.lock().unwrap().clone()
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

    fn revocations(&self) -> broadcast::Receiver<ClusterId> {
        self.revocations.subscribe()
    }

    fn desired_config(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        self.wanted.lock().unwrap().clone()
    }

    fn record_applied_config(&self, cluster: &ClusterId, revision: &str) {
        let report = (cluster.clone(), revision.to_owned());
        self.applied.send_modify(|applied| applied.push(report));
    }

    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        Some(self.wanting.subscribe())
    }
}

impl NamedServices for FakeModules {
    fn list(&self) -> Vec<NamedService> {
        self.services.borrow().clone()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let changes = stream::unfold(self.services.subscribe(), async |mut changes| {
            changes.changed().await.ok()?;
            Some(((), changes))
        });
        changes.boxed()
    }

    fn report(&self, service: &NamedService, state: ServiceState) {
        let mut states = self.states.lock().unwrap();
        states.insert(service.name.to_string(), state);
    }
}

/// Module with the named services of the fake.
pub(crate) struct FakeServices(pub(crate) Arc<FakeModules>);

impl Module for FakeServices {
    fn name(&self) -> &'static str {
        "fake-services"
    }

    fn named_services(&self) -> Option<Arc<dyn NamedServices>> {
        Some(self.0.clone())
    }
}

/// Handlers cannot borrow the module, so they share its state.
impl Module for FakeModules {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn attach(&self, presence: &Arc<dyn Presence>) {
        assert!(self.presence.set(Arc::clone(presence)).is_ok(), "once");
    }

    fn attach_requests(&self, requests: &Arc<dyn RunningRequests>) {
        assert!(self.requests.set(Arc::clone(requests)).is_ok(), "once");
    }

    fn user_routes(&self) -> Router {
        Router::new()
            .route("/v1/whoami", get(whoami))
            .route("/v1/waits", get(waits))
            .route("/v1/bug", get(bug))
            .route(
                "/v1/refused",
                get(|| async { fairlead_seam::refuse(Code::Conflict.into()) }),
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
        issuer: None,
        not_before: OffsetDateTime::UNIX_EPOCH,
        not_after: until,
    }
}

/// The query stands for the token.
async fn enroll(Extension(peer): Extension<AgentPeer>, uri: Uri) -> axum::response::Response {
    match uri.query() {
        Some("wrong") => fairlead_seam::refuse(Code::BootstrapUnknown.into()),
        Some("spent") => fairlead_seam::refuse(Code::BootstrapSpent.into()),
        _ => format!("{peer:?}").into_response(),
    }
}

async fn whoami(Extension(asker): Extension<Principal>) -> axum::response::Response {
    match asker.caller().await {
        Ok(caller) => caller.name.into_response(),
        Err(failure) => fairlead_seam::refuse(failure.into()),
    }
}

/// A long poll: answers never.
async fn waits(Extension(asker): Extension<Principal>) -> axum::response::Response {
    match asker.caller().await {
        Ok(_) => std::future::pending().await,
        Err(failure) => fairlead_seam::refuse(failure.into()),
    }
}

async fn bug() -> &'static str {
    panic!("a bug")
}
