//! State shared by all parts of the gateway: modules, session table, metrics, process.

use std::{sync::Arc, time::Duration};

use axum::Router;
use fairlead_api::{Code, Failure};
use fairlead_dialer::{MemoryBudget, Resumable};
use fairlead_runtime::{Process, gauges};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{reports::Reports, table::Sessions},
    config::Config,
    front::{address::Names, shares::Shares, wrong_tokens::WrongTokens},
    metrics::Metrics,
    seam::{Module, Presence, Seam, refuse},
    waiting::WaitingRoom,
};

/// Limit of unfinished TLS handshakes, of the front and inside sessions.
///
/// A thousand idle ones leave capacity for every agent. Beyond the limit the address with the most handshakes loses its
/// oldest one.
const MAX_HANDSHAKES: usize = 4096;
/// Limit of sessions without a valid identity; an agent that enrols needs one for a second or two.
const MAX_VISITORS: usize = 512;

pub(crate) struct Hub {
    pub(crate) process: Process,
    /// The process drains and no session is left: listeners may close.
    pub(crate) over: CancellationToken,
    pub(crate) seam: Seam,
    pub(crate) shares: Shares,
    pub(crate) wrong_tokens: WrongTokens,
    pub(crate) names: Names,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) sessions: Arc<Sessions>,
    /// Routes of the modules on the front.
    pub(crate) modules: Router,
    pub(crate) agents: Router,
    pub(crate) front_tls: watch::Receiver<Arc<ServerConfig>>,
    pub(crate) session_tls: watch::Receiver<Arc<ServerConfig>>,
    pub(crate) trust_domain: String,
    pub(crate) head_timeout: Duration,
    pub(crate) resume_window: Duration,
    pub(crate) resumable: Resumable,
    pub(crate) reserve: MemoryBudget,
    pub(crate) front_handshakes: WaitingRoom,
    pub(crate) session_handshakes: WaitingRoom,
    pub(crate) visitors: WaitingRoom,
}

impl Hub {
    pub(crate) fn build(config: Config, seam: Seam, process: &Process) -> Result<Self, Failure> {
        let metrics = Arc::new(Metrics::register(process.registry())?);
        let sessions = Arc::new(Sessions::new(Reports::default(), Arc::clone(&metrics)));
        crate::agents::scrape::register(&sessions, &metrics, process.registry())?;
        let reserve = MemoryBudget::of(config.session_memory);
        gauges::register(
            process.registry(),
            "fairlead",
            reserve.clone(),
            &MemoryBudget::METRICS,
        )?;
        let presence: Arc<dyn Presence> = Arc::clone(&sessions) as _;
        for module in &seam.modules {
            module.attach(&presence);
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
            modules: routes(|module| module.people().merge(module.open())),
            agents: routes(|module| module.agents()),
            shares: Shares::new(config.max_requests_per_caller),
            wrong_tokens: WrongTokens::default(),
            names: Names::new(&config.cluster_domain, config.public_url.host()),
            metrics,
            sessions,
            front_tls: config.front_tls,
            session_tls: config.session_tls,
            trust_domain: config.trust_domain,
            head_timeout: config.head_timeout,
            resume_window: config.resume_window,
            resumable: Resumable::default(),
            reserve,
            front_handshakes: WaitingRoom::new(MAX_HANDSHAKES),
            session_handshakes: WaitingRoom::new(MAX_HANDSHAKES),
            visitors: WaitingRoom::new(MAX_VISITORS),
            process: process.clone(),
            over: CancellationToken::new(),
            seam,
        })
    }
}
