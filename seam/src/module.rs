//! Modules of a hub: routes and background work.

use std::{net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Router,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    ClusterId, Failure, HubUrl, Reason, TenantId,
    hello::Instance,
    hop::{HubActivity, HubClusterActivity},
    resources::{AgentSession, AgentSessionList, SessionsActivity},
};
use fairlead_certs::AgentIdentity;
use fairlead_runtime::Process;
use http::{HeaderValue, StatusCode, header};

use crate::{
    access::{Authenticator, Authorizer},
    directory::Directory,
    named_services::NamedServices,
    outbound::Outbound,
    requests::RunningRequests,
};

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

/// Address of the other end of an agent's connection, in the extensions of each request without a valid identity.
#[derive(Debug, Clone, Copy)]
pub struct AgentAddress(pub IpAddr);

/// The sessions of clusters at this moment.
#[async_trait]
pub trait Presence: Send + Sync {
    /// The registered sessions of a cluster at this hub, oldest first, from memory.
    fn sessions(&self, cluster: &ClusterId) -> Vec<AgentSession>;

    /// What the sessions of a cluster carry, and have carried since its first one; `None` without a session.
    fn activity(&self, cluster: &ClusterId) -> Option<SessionActivity>;

    /// The registered sessions of a cluster at all live hubs.
    async fn sessions_of_all_hubs(&self, cluster: &ClusterId) -> AgentSessionList;

    /// The activity of these clusters at all live hubs, this one first.
    async fn activity_of_all_hubs(&self, clusters: &[ClusterId]) -> FleetActivity;
}

/// Activity of clusters at all live hubs.
#[derive(Debug, Clone, Default)]
pub struct FleetActivity {
    /// Hubs that have answered, with their URL unless this is the only hub.
    pub hubs: Vec<(Option<HubUrl>, HubActivity)>,
    /// Hubs without an answer in time.
    pub incomplete: Vec<HubUrl>,
}

/// Activity of the sessions of one cluster on this hub. Counts begin anew after the last session has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionActivity {
    /// Agents.
    pub instances: Vec<Instance>,
    /// Versions of the agents without duplicates.
    pub agent_versions: Vec<String>,
    /// Shortest round trip.
    pub rtt: Option<Duration>,
    /// Requests with an unfinished answer.
    pub requests_open: usize,
    /// Requests so far.
    pub requests_total: u64,
    /// Bytes from the cluster.
    pub bytes_in: u64,
    /// Bytes to the cluster.
    pub bytes_out: u64,
}

impl From<SessionActivity> for HubClusterActivity {
    fn from(activity: SessionActivity) -> Self {
        let rtt = activity.rtt;
        HubClusterActivity {
            sessions: SessionsActivity {
                agents: activity.instances.len(),
                agent_versions: activity.agent_versions,
                rtt_micros: rtt.and_then(|rtt| rtt.as_micros().try_into().ok()),
                requests_open: activity.requests_open,
                requests_total: activity.requests_total,
                bytes_in: activity.bytes_in,
                bytes_out: activity.bytes_out,
            },
            instances: activity.instances,
        }
    }
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
    fn attach_requests(&self, requests: &Arc<dyn RunningRequests>) {
        let _ = requests;
    }

    /// Connections for agents, if the module makes some. At most one module does.
    fn outbound(&self) -> Option<Arc<dyn Outbound>> {
        None
    }

    /// Named services, if the module has some. At most one module has.
    fn named_services(&self) -> Option<Arc<dyn NamedServices>> {
        None
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
    /// Each request has an `Extension<AgentPeer>`. Anonymous peers reach the enrolment, the adoption and the check only.
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

/// Note on a module's answer, in its extensions: the caller took a role in an emergency. The audit log has an event of its
/// own kind for it.
#[derive(Debug, Clone)]
pub struct EmergencyNote {
    /// Id of the access request.
    pub access: Arc<str>,
    /// The cluster.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
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
