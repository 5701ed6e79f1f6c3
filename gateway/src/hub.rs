//! State shared by all parts of the gateway: modules, session table, metrics, process.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::Router;
use fairlead_api::{ClusterId, Code, Failure};
use fairlead_audit::AuditLog;
use fairlead_dialer::{MemoryBudget, Resumable};
use fairlead_runtime::{Process, gauges};
use fairlead_seam::{Module, NamedServices, Outbound, Presence, RunningRequests, Seam, refuse};
use fairlead_traces::Traces;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::AdmissionPool,
    agents::{scrape, status_queue::StatusQueue, table::SessionTable},
    body_budget::BodyBudget,
    config::Config,
    front::{
        address::HubNames, caller_limit::CallerLimit, proxy_hop::ProxyHop, record::RecordInner,
        stalls::Stalls, stranger_pools::StrangerPools, wrong_tokens::WrongTokens,
    },
    hubs::{links::HubLinks, presence::HubPresence, relayed::RelayedRequests},
    metrics::Metrics,
    requests::RequestTable,
    services::ServiceTable,
};

/// Limit of unfinished TLS handshakes, of the front and inside sessions.
///
/// A thousand idle ones leave capacity for every agent. Beyond the limit the address with the most handshakes loses its
/// oldest one.
pub(crate) const MAX_HANDSHAKES: usize = 4096;
/// Limit of sessions without a valid identity; an agent that enrols needs one for a second or two.
const MAX_VISITORS: usize = 512;
/// Limit of sessions of one cluster without a hello: twice its links, so that all of them may return at once.
const MAX_UNREGISTERED: usize = 32;

pub(crate) struct Hub {
    pub(crate) process: Process,
    /// The process drains and the drain delay is over: new requests are refused.
    pub(crate) closing: CancellationToken,
    pub(crate) drain_delay: Duration,
    /// The process drains and no session is left: listeners may close.
    pub(crate) sessions_ended: CancellationToken,
    pub(crate) seam: Seam,
    pub(crate) caller_limit: CallerLimit,
    pub(crate) wrong_tokens: WrongTokens,
    pub(crate) strangers: StrangerPools,
    pub(crate) bodies: BodyBudget,
    pub(crate) stalls: Stalls,
    pub(crate) stall_timeout: Duration,
    pub(crate) names: HubNames,
    pub(crate) metrics: Arc<Metrics>,
    /// Set before the gateway serves; empty in tests of other parts.
    pub(crate) audit: OnceLock<AuditLog>,
    /// Set before the gateway serves, if at all.
    pub(crate) traces: OnceLock<Traces>,
    pub(crate) sessions: Arc<SessionTable>,
    /// Running requests of authenticated callers.
    pub(crate) requests: Arc<RequestTable<RecordInner>>,
    /// Routes of the modules on the front.
    pub(crate) modules: Router,
    pub(crate) agents: Router,
    /// Connections for agents, if a module makes some.
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    /// Named services, if a module has some.
    pub(crate) named_services: Option<Arc<dyn NamedServices>>,
    /// The current named services.
    pub(crate) services: ServiceTable,
    /// Address for the ports of named services.
    pub(crate) service_listen: Option<IpAddr>,
    pub(crate) front_tls: watch::Receiver<Arc<ServerConfig>>,
    pub(crate) session_tls: watch::Receiver<Arc<ServerConfig>>,
    pub(crate) hub_tls: watch::Receiver<Arc<ClientConfig>>,
    /// Name of this hub among those of its database; empty for the only one.
    pub(crate) own_name: Arc<str>,
    /// Links to the other hubs.
    pub(crate) links: Arc<HubLinks>,
    /// Requests that the other hubs have forwarded here.
    pub(crate) relayed: Arc<RelayedRequests>,
    pub(crate) trust_domain: String,
    pub(crate) head_timeout: Duration,
    pub(crate) resume_window: Duration,
    pub(crate) resumable: Resumable,
    pub(crate) reserve: MemoryBudget,
    pub(crate) proxies: ProxyHop,
    pub(crate) front_handshakes: AdmissionPool,
    pub(crate) session_handshakes: AdmissionPool,
    pub(crate) visitors: AdmissionPool,
    /// Sessions of admitted agents that have not sent their hello.
    pub(crate) unregistered: AdmissionPool<ClusterId>,
}

impl Hub {
    /// Permits a request unless its events could be lost.
    ///
    /// # Errors
    /// `FL-5107`
    pub(crate) fn check_audit(&self) -> Result<(), Failure> {
        let audit = self.audit.get();
        let admitted = audit.map_or(Ok(()), AuditLog::admit);
        admitted.map_err(|_| Code::AuditFull.into())
    }

    pub(crate) fn build(config: Config, seam: Seam, process: &Process) -> Result<Self, Failure> {
        let internal = |error| Failure::because(Code::Internal, error);
        let metrics = Arc::new(Metrics::register(process.registry()).map_err(internal)?);
        let sessions = Arc::new(SessionTable::new(
            StatusQueue::default(),
            Arc::clone(&metrics),
        ));
        let max_clusters = config.limits.metric_clusters;
        let links = Arc::<HubLinks>::default();
        let sources = (&sessions, &links);
        scrape::register(sources, &metrics, max_clusters, process.registry()).map_err(internal)?;
        let reserve = MemoryBudget::of(config.limits.session_memory);
        gauges::register(
            process.registry(),
            "fairlead",
            reserve.clone(),
            &MemoryBudget::METRICS,
        )?;
        let presence: Arc<dyn Presence> = Arc::new(HubPresence {
            sessions: Arc::clone(&sessions),
            links: Arc::clone(&links),
            url: config.public_url.clone(),
        });
        let requests = Arc::<RequestTable<RecordInner>>::default();
        let running: Arc<dyn RunningRequests> = Arc::clone(&requests) as _;
        for module in &seam.modules {
            module.attach(&presence);
            module.attach_requests(&running);
        }
        let routes = |of: fn(&dyn Module) -> Router| {
            let all = seam
                .modules
                .iter()
                .fold(Router::new(), |all, module| all.merge(of(module.as_ref())));
            all.fallback(|| async { refuse(Code::NoSuchRoute.into()) })
                .method_not_allowed_fallback(|| async { refuse(Code::MethodNotAllowed.into()) })
        };
        Ok(Hub {
            modules: routes(|module| module.user_routes().merge(module.open_routes())),
            agents: routes(|module| module.agent_routes()),
            outbound: seam.modules.iter().find_map(|it| it.outbound()),
            named_services: seam.modules.iter().find_map(|it| it.named_services()),
            services: ServiceTable::default(),
            service_listen: config.service_listen,
            caller_limit: CallerLimit::new(config.limits.max_requests_per_caller),
            wrong_tokens: WrongTokens::default(),
            strangers: StrangerPools::default(),
            bodies: BodyBudget::default(),
            stalls: Stalls::default(),
            stall_timeout: config.limits.stall_timeout,
            names: HubNames::new(&config.cluster_domain, config.public_url.host()),
            metrics,
            audit: OnceLock::new(),
            traces: OnceLock::new(),
            sessions,
            requests,
            front_tls: config.front_tls,
            session_tls: config.session_tls,
            hub_tls: config.hub_tls,
            own_name: seam.directory.own_name().unwrap_or_else(|| "".into()),
            links,
            relayed: Arc::default(),
            trust_domain: config.trust_domain,
            head_timeout: config.limits.head_timeout,
            resume_window: config.limits.resume_window,
            drain_delay: config.limits.drain_delay,
            resumable: Resumable::default(),
            reserve,
            proxies: ProxyHop::new(config.proxies),
            front_handshakes: AdmissionPool::new(MAX_HANDSHAKES),
            session_handshakes: AdmissionPool::new(config.limits.max_session_handshakes),
            visitors: AdmissionPool::new(MAX_VISITORS),
            unregistered: AdmissionPool::per_peer(MAX_UNREGISTERED),
            process: process.clone(),
            closing: CancellationToken::new(),
            sessions_ended: CancellationToken::new(),
            seam,
        })
    }
}
