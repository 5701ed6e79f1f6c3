//! The module seam: the interface between the gateway and its modules. The gateway knows no module by name.

mod body;
mod error;
#[cfg(test)]
pub(crate) mod samples;

use std::{any::Any, net::IpAddr, sync::Arc};

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
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::{HeaderValue, StatusCode, header};
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::sync::broadcast;

use crate::requests::{RunningRequests, Termination};
pub use body::BodyTerms;

pub use error::{AuthenticateError, AuthorizeError, DirectoryError, TooManyWrongTokens};

/// An authenticated user or program on the kubectl side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller; in clusters the user `fairlead:<name>`.
    pub name: String,
    /// Id of the API token; `None` for a caller that an issuer vouches for.
    pub token: Option<String>,
    /// Role of the caller.
    pub role: Role,
    /// Tenant that the caller is limited to, with all tenants below it; `None`: all tenants.
    pub tenant: Option<TenantId>,
    /// Cluster that the caller is limited to; `None`: all clusters of the tenant.
    pub cluster: Option<ClusterId>,
    /// Subject of a caller that an issuer vouches for; `None` for API tokens.
    pub subject: Option<Subject>,
    /// End of the credential; `None` if the hub does not know one.
    pub expires: Option<OffsetDateTime>,
}

impl Caller {
    /// True if both have the same name, credential and rights. A renewed credential may end at another time.
    #[must_use]
    pub fn is_same_as(&self, other: &Caller) -> bool {
        let Caller {
            name,
            token,
            role,
            tenant,
            cluster,
            subject,
            expires: _,
        } = self;
        (name, token, role, tenant, cluster, subject)
            == (
                &other.name,
                &other.token,
                &other.role,
                &other.tenant,
                &other.cluster,
                &other.subject,
            )
    }
}

/// A person or program as its issuer names it. The pair is unique, and never changes hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// URL of the issuer, as in the claim `iss`; for a reviewing cluster its API server.
    pub issuer: Arc<str>,
    /// Claim `sub`; for a reviewing cluster the user name.
    pub sub: String,
}

/// The sender of a request to a module, in the extensions of that request.
///
/// The token is not checked before the module calls [`Principal::caller`]: a module may check the request first, and
/// open routes never call it.
#[derive(Clone)]
pub struct Principal(Arc<dyn Identify>);

/// Authenticates the sender of a request.
#[async_trait]
pub(crate) trait Identify: Send + Sync {
    async fn caller(&self) -> Result<Caller, AuthenticateError>;
    async fn body_terms(&self) -> BodyTerms;
    fn keep(&self, guard: Box<dyn Any + Send>);
    async fn is_still_valid(&self, caller: &Caller) -> bool;
    fn from(&self) -> IpAddr;
    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens>;
}

struct KnownPrincipal(Caller, IpAddr);

#[async_trait]
impl Identify for KnownPrincipal {
    async fn caller(&self) -> Result<Caller, AuthenticateError> {
        Ok(self.0.clone())
    }

    async fn body_terms(&self) -> BodyTerms {
        BodyTerms::unlimited()
    }

    fn keep(&self, _: Box<dyn Any + Send>) {}

    async fn is_still_valid(&self, caller: &Caller) -> bool {
        self.0.is_same_as(caller)
    }

    fn from(&self) -> IpAddr {
        self.1
    }

    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        Ok(())
    }
}

impl Principal {
    pub(crate) fn new(identify: impl Identify + 'static) -> Self {
        Principal(Arc::new(identify))
    }

    /// A principal that is authenticated already.
    #[must_use]
    pub fn known(caller: Caller, from: IpAddr) -> Self {
        Principal::new(KnownPrincipal(caller, from))
    }

    /// Authenticates the sender; the request counts against the caller's limit from then on.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    pub async fn caller(&self) -> Result<Caller, AuthenticateError> {
        self.0.caller().await
    }

    /// Terms for the body of the request. The credential is checked first.
    pub async fn body_terms(&self) -> BodyTerms {
        self.0.body_terms().await
    }

    /// Keeps the memory of a body until the request has ended.
    pub fn keep_memory(&self, terms: BodyTerms) {
        self.0.keep(Box::new(terms));
    }

    /// Re-checks that the token still stands for this caller; true if it cannot be checked now.
    ///
    /// Long answers call it periodically.
    pub async fn is_still_valid(&self, caller: &Caller) -> bool {
        self.0.is_still_valid(caller).await
    }

    /// Address of the other end of the connection, which may be a proxy.
    #[must_use]
    pub fn from(&self) -> IpAddr {
        self.0.from()
    }

    /// Counts a wrong secret of this address.
    ///
    /// # Errors
    /// [`TooManyWrongTokens`] above the rate limit of the address.
    pub fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        self.0.count_wrong_secret()
    }
}

/// Permission of a caller in a cluster. The gateway makes the permit from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Role of the caller in the cluster.
    pub role: Role,
    /// The tenant of the cluster.
    pub tenant: TenantId,
}

/// The other end of an agent's session.
#[derive(Debug, Clone)]
pub enum AgentPeer {
    /// A peer without a certificate: may enrol, nothing else.
    Anonymous,
    /// A verified certificate of our authority, of a cluster that exists.
    Agent(Arc<AgentIdentity>),
    /// A certificate that had expired when the session began: may be renewed, nothing else.
    ///
    /// The certificate of an [`AgentPeer::Agent`] may have expired since, and have been renewed over the session.
    Lapsed(Arc<AgentIdentity>),
}

/// A module's answer that reports a failure: a [`Reason`], with the HTTP status of its code.
///
/// The response carries the failure in its extensions too, for the audit log.
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

/// Authenticates callers.
///
/// Called for every request: an implementation caches checks that cost a signature or a network round trip.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Authenticates a token that came from this address. The address bounds the cost that one client may cause.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    async fn authenticate(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, AuthenticateError>;

    /// Authenticates a caller again, without its token: the caller now, with the rights of now.
    ///
    /// Called periodically for running requests, from memory.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    async fn recheck(&self, caller: &Caller) -> Result<Caller, AuthenticateError> {
        Ok(caller.clone())
    }
}

/// Authorizes callers for clusters. Called for every request to a cluster.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Returns the caller's permission in a cluster.
    ///
    /// # Errors
    /// [`AuthorizeError::NoSuchCluster`] if there is no such cluster *or* the caller may not see it, in the same time.
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError>;

    /// Notified of changes that may end the access of running requests.
    fn access_changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }

    /// Recent orders of admins to end running requests.
    fn terminations(&self) -> Vec<Termination> {
        Vec::new()
    }
}

/// Result of matching an agent's Kubernetes cluster with the one that its identity was issued to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// The agent is in its cluster.
    Known,
    /// Not known: the agent sent no UID, or it has an older key than the last enrolled one.
    Unknown,
}

/// The list of clusters and their status.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Checks that an agent with this identity may have a session.
    ///
    /// # Errors
    /// [`DirectoryError::ClusterDeleted`] if its cluster is gone, [`DirectoryError::Revoked`] if this
    /// identity is void.
    async fn admit(&self, identity: &AgentIdentity) -> Result<(), DirectoryError>;

    /// Checks the UID of an agent's namespace `kube-system` against its cluster; the first UID binds the cluster.
    ///
    /// `from` is the address of its connection.
    ///
    /// # Errors
    /// [`DirectoryError::Cloned`] if the agent is in another cluster, which is recorded; the errors of
    /// [`Directory::admit`]; [`DirectoryError::Unavailable`] if it cannot be checked now.
    async fn recognise(
        &self,
        identity: &AgentIdentity,
        uid: Option<&ClusterUid>,
        from: IpAddr,
    ) -> Result<Recognition, DirectoryError>;

    /// Last known status of a cluster without a session here; `None` if the cluster does not exist.
    async fn last_status(
        &self,
        cluster: &ClusterId,
    ) -> Result<Option<ClusterStatus>, DirectoryError>;

    /// Address of another hub that certainly has a session of this cluster now.
    fn other_hub(&self, _cluster: &ClusterId) -> Option<HubUrl> {
        None
    }

    /// Stores a changed status of a cluster.
    async fn report(
        &self,
        cluster: &ClusterId,
        status: ClusterStatus,
    ) -> Result<(), DirectoryError>;

    /// Clusters of which an identity was revoked: they were deleted, moved or enrolled again, or a person revoked it. Each
    /// session of the cluster is admitted again.
    fn revocations(&self) -> broadcast::Receiver<ClusterId>;

    /// Revision of the desired configuration of a cluster's agent; sent with each probe.
    fn desired_config(&self, _cluster: &ClusterId) -> Option<Arc<str>> {
        None
    }

    /// Notes the configuration revision that a cluster's agent has applied. Called after each probe that reports one.
    fn record_applied_config(&self, _cluster: &ClusterId, _revision: &str) {}

    /// Clusters with a changed desired configuration; their agents are notified at once.
    fn config_changes(&self) -> Option<broadcast::Receiver<ClusterId>> {
        None
    }
}

/// The sessions of clusters at this moment, from memory.
pub trait Presence: Send + Sync {
    /// The registered sessions of a cluster, oldest first.
    fn sessions(&self, cluster: &ClusterId) -> Vec<AgentSession>;
}

/// A pluggable part of the hub.
#[async_trait]
pub trait Module: Send + Sync {
    /// Unique name, for logs and metrics.
    fn name(&self) -> &'static str;

    /// Gives the module access to the gateway. Called once, before all other methods but [`Module::name`].
    fn attach(&self, presence: &Arc<dyn Presence>) {
        let _ = presence;
    }

    /// Gives the module the running requests of this hub. Called once, after [`Module::attach`].
    fn attach_requests(&self, requests: &Arc<RunningRequests>) {
        let _ = requests;
    }

    /// Routes for users, with their full path; each request has an `Extension<Principal>`. A trailing slash is removed.
    fn user_routes(&self) -> Router {
        Router::new()
    }

    /// Routes without authentication (the install manifests), with their full path.
    fn open_routes(&self) -> Router {
        Router::new()
    }

    /// Routes for agents, over their own sessions, with their full path below `/agent/v1/`.
    ///
    /// Each request has an `Extension<AgentPeer>`. Anonymous peers reach [`fairlead_api::enroll::ENROLL_PATH`] only.
    fn agent_routes(&self) -> Router {
        Router::new()
    }

    /// Background work; returns when `process` drains.
    ///
    /// After a panic it is restarted, and finds the state that it has left.
    async fn run(&self, process: Process) {
        process.draining().await;
    }
}

/// All modules of one gateway.
#[derive(Clone)]
pub struct Seam {
    /// Authenticates callers.
    pub authenticator: Arc<dyn Authenticator>,
    /// Authorizes callers for clusters.
    pub authorizer: Arc<dyn Authorizer>,
    /// List and status of clusters.
    pub directory: Arc<dyn Directory>,
    /// Modules with routes and background work.
    pub modules: Vec<Arc<dyn Module>>,
}

#[cfg(test)]
mod tests;
