//! The module seam: what the gateway asks modules, and what a module gives. The gateway knows no module by name.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use axum::{
    Router,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    ClusterId, ClusterUid, Failure, HubUrl, Reason, TenantId,
    resources::{AgentSession, ClusterStatus, Role},
};
use fairlead_certs::AgentIdentity;
use fairlead_runtime::Process;
use http::{HeaderValue, StatusCode, header};
use secrecy::SecretString;
use tokio::sync::broadcast;

/// An authenticated person or program on the kubectl side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Becomes the user `fairlead:<name>`.
    pub name: String,
    /// Id of the API token; none of a caller that an issuer vouches for.
    pub token: Option<String>,
    pub role: Role,
    /// None: on all tenants. Those below it count as it.
    pub tenant: Option<TenantId>,
    /// The one cluster that it is about; none: all of the tenant.
    pub cluster: Option<ClusterId>,
}

/// The sender of a request to a module, in the extensions of that request.
///
/// The token is not checked before the module calls [`Asker::caller`]: a module may judge the request first, and open
/// routes never call it.
#[derive(Clone)]
pub struct Asker(Arc<dyn Identify>);

/// Identifies the sender of a request.
#[async_trait]
pub(crate) trait Identify: Send + Sync {
    async fn caller(&self) -> Result<Caller, Failure>;
    async fn is_still(&self, caller: &Caller) -> bool;
    fn from(&self) -> IpAddr;
    fn wrong(&self, failure: Failure) -> Failure;
}

struct Known(Caller, IpAddr);

#[async_trait]
impl Identify for Known {
    async fn caller(&self) -> Result<Caller, Failure> {
        Ok(self.0.clone())
    }

    async fn is_still(&self, caller: &Caller) -> bool {
        self.0 == *caller
    }

    fn from(&self) -> IpAddr {
        self.1
    }

    fn wrong(&self, failure: Failure) -> Failure {
        failure
    }
}

impl Asker {
    pub(crate) fn new(identify: impl Identify + 'static) -> Self {
        Asker(Arc::new(identify))
    }

    /// A sender that is known already.
    #[must_use]
    pub fn known(caller: Caller, from: IpAddr) -> Self {
        Asker::new(Known(caller, from))
    }

    /// Authenticates the sender; the request counts as one of the caller's from then on.
    ///
    /// # Errors
    /// `FL-1101` to `FL-1104`, `FL-1407`, or `FL-5102` if that cannot be checked now.
    pub async fn caller(&self) -> Result<Caller, Failure> {
        self.0.caller().await
    }

    /// Re-checks that the sender's token still stands for this caller. True where that cannot be checked now.
    ///
    /// For answers that last: call it now and then.
    pub async fn is_still(&self, caller: &Caller) -> bool {
        self.0.is_still(caller).await
    }

    /// Address of the connection's other end, which may be a proxy.
    #[must_use]
    pub fn from(&self) -> IpAddr {
        self.0.from()
    }

    /// Counts a wrong secret; the failure to answer with: `failure`, or `FL-1104` where too many came from this address.
    #[must_use]
    pub fn wrong(&self, failure: Failure) -> Failure {
        self.0.wrong(failure)
    }
}

/// A module's word that a caller may work in a cluster, and as what. The gateway makes the permit of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    /// The tenant of the cluster.
    pub tenant: TenantId,
}

/// Who is at the other end of an agent's session.
#[derive(Debug, Clone)]
pub enum AgentPeer {
    /// No certificate: may enrol, nothing else.
    Anonymous,
    /// A verified certificate of our authority, of a cluster that still exists.
    Agent(Arc<AgentIdentity>),
    /// As it, but that the certificate had expired when the session began: may renew it, nothing else. (That of an
    /// [`AgentPeer::Agent`] may have expired since, and have been renewed over the session.)
    Lapsed(Arc<AgentIdentity>),
}

/// A module's answer that something failed: a [`Reason`], with the HTTP status of its code. (The failure is carried in the
/// extensions of the response as well: the audit log gets its code.)
#[must_use]
pub fn refuse(failure: Failure) -> Response {
    let http_status = fairlead_api::status::http_status(failure.code);
    let status = StatusCode::from_u16(http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    let body = Reason::from(&failure).to_json();
    let mut response = (status, [(header::CONTENT_TYPE, json)], body).into_response();
    response.extensions_mut().insert(failure);
    response
}

/// Who is this caller? Called for every request, so an answer that costs a signature or a network round trip is for the
/// implementation to cache.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// By a token that came from there: what asking somebody else costs is not to be paid by who comes from elsewhere.
    ///
    /// # Errors
    /// `FL-1102`, `FL-1103`, or `FL-5102` if that cannot be told now.
    async fn authenticate(&self, token: &SecretString, from: IpAddr) -> Result<Caller, Failure>;
}

/// May they? Called for every request to a cluster.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// # Errors
    /// `FL-1301` if there is no such cluster *or* the caller may not know of it, in the same time; `FL-1201`.
    async fn authorize(&self, caller: &Caller, cluster: &ClusterId) -> Result<Grant, Failure>;
}

/// Whether an agent is in the Kubernetes cluster that its identity was issued to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// It is.
    Known,
    /// That cannot be told: it did not say, or it has an older key than the one that enrolled last.
    Unknown,
}

/// Which clusters exist?
#[async_trait]
pub trait Directory: Send + Sync {
    /// May an agent of this identity have a session?
    ///
    /// # Errors
    /// `FL-2109` if its cluster is gone, `FL-2107` if this certificate is no longer good.
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), Failure>;

    /// Is an agent of this identity, which says that its namespace `kube-system` has this UID, where it belongs? `from` is
    /// where its connection comes from. The first that says it binds the cluster.
    ///
    /// # Errors
    /// `FL-2112` if it is in another cluster, which is written down; as of [`Directory::admit`]; `FL-5102` if that cannot
    /// be told now.
    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, Failure>;

    /// The last thing known of a cluster that has no session now; `None` if it does not exist.
    async fn last_status(&self, cluster: &ClusterId) -> Result<Option<ClusterStatus>, Failure>;

    /// Where the other hub is that has a session of this cluster now, as far as that is sure.
    fn elsewhere(&self, _cluster: &ClusterId) -> Option<HubUrl> {
        None
    }

    /// The gateway saw a cluster's status change.
    async fn report(&self, cluster: &ClusterId, status: ClusterStatus) -> Result<(), Failure>;

    /// Clusters as they are deleted, or become another tenant's; their sessions end at once.
    fn deleted(&self) -> broadcast::Receiver<ClusterId>;

    /// Names the configuration by which the cluster's agent should work; it is told on each probe.
    fn wanted(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        None
    }

    /// Clusters whose agent should work by another configuration from now on; they are told at once.
    fn wanting(&self) -> Option<broadcast::Receiver<ClusterId>> {
        None
    }
}

/// What the gateway knows of sessions at this moment. Answered from memory.
pub trait Presence: Send + Sync {
    /// Those of a cluster that serve, in the order in which they came.
    fn sessions(&self, cluster: &ClusterId) -> Vec<AgentSession>;
}

/// A pluggable part of the hub.
#[async_trait]
pub trait Module: Send + Sync {
    fn name(&self) -> &'static str;

    /// What the module may ask of the gateway. Called once, before anything else but [`Module::name`].
    fn attach(&self, presence: &Arc<dyn Presence>) {
        let _ = presence;
    }

    /// Routes for people, with their full path; an `Extension<Asker>` is there. A slash at the end is taken off.
    fn people(&self) -> Router {
        Router::new()
    }

    /// Routes for anybody (the install manifests), with their full path.
    fn open(&self) -> Router {
        Router::new()
    }

    /// Routes for agents, over their own sessions, with their full path below `/agent/v1/`; an `Extension<AgentPeer>`
    /// is there. The gateway lets anonymous peers reach [`fairlead_api::enroll::ENROLL_PATH`] only.
    fn agents(&self) -> Router {
        Router::new()
    }

    /// Background work; returns when `process` drains. Where it panics it is begun anew, so it comes into what it has left.
    async fn run(&self, process: Process) {
        process.draining().await;
    }
}

/// All that is plugged into one gateway.
#[derive(Clone)]
pub struct Seam {
    pub authenticator: Arc<dyn Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    pub directory: Arc<dyn Directory>,
    pub modules: Vec<Arc<dyn Module>>,
}
