//! The site's side of Fairlead. The agent enrols, keeps sessions with the hub, and forwards their requests to
//! the API server. It impersonates the user named by the hub, as far as the site's own rules allow. It never
//! sends a credential of the cluster to the hub, and never ends for a cause outside of the process.

mod backoff;
mod config;
mod configuration;
mod connect_rules;
mod context;
mod delivery;
pub mod doctor;
mod facts;
mod git_proxy;
mod gitops;
mod home;
mod hub_request;
mod identity;
mod link;
mod metrics;
mod proxy;
mod proxy_source;
mod reserved;
mod rights;
mod role_bindings;
pub mod uninstall;
mod upgrade;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

pub use config::{
    Config, DEFAULT_SESSION_MEMORY_BYTES, DeliveryConfig, GitForward, GitProxyConfig,
    IdentityLocation, RunnerConfig, UpgradeRule,
};
use context::{
    AgentContext, ReconnectSpread,
    cluster_uid::{self, UidState},
    configuration::ConfigurationState,
    hubs::KnownHubs,
    session_metrics::SessionMetrics,
};
use facts::FactReporter;
use fairlead_api::{Code, Failure, error_chain, hello::Instance, impersonation};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
pub use fairlead_delivery_agent::{Launch, post_render, purge};
use fairlead_dialer::MemoryBudget;
pub use fairlead_gitops::AdoptedTool;
use fairlead_runtime::{Process, gauges};
use fairlead_traces::Traces;
use http::{Method, StatusCode};
use identity::{Identity, store::IdentityStore};
use link::{
    ca_report,
    diagnosis::FailureReports,
    dial::{self, HubDialer},
    identity_manager::IdentityManager,
    links,
};
use metrics::Metrics;
use proxy::admit;
use proxy_source::ProxySource;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use upgrade::UpgradeSettings;

/// Runs the agent until `process` drains. The process waits for the requests that still run then.
///
/// # Errors
///
/// Mistakes in the configuration. Outside of a pod also an unusable kubeconfig (`FL-4110`), or neither an
/// identity nor a join string (`FL-2111`). Nothing else ends it.
pub async fn run(config: Config, process: Process) -> Result<(), Failure> {
    admit::check_allowed(&config.allow_groups, &config.allow_as)?;
    let allow_connect = connect_rules::rules(&config.allow_connect)?;
    let proxy = home::proxy_source(&config)?;
    let internal = |error| Failure::because(Code::Internal, error);
    let metrics = Metrics::new(process.registry(), &config.version).map_err(internal)?;
    let reserve = MemoryBudget::of(config.session_memory);
    let budget = (reserve.clone(), &MemoryBudget::METRICS);
    gauges::register(process.registry(), "fairlead_agent", budget.0, budget.1)?;
    let upstream = Arc::new(Upstream::new(ApiCredentials::new(&config.target)));
    let store = home::store(&config, &upstream);
    let stored = check_terminal_start(&config, &upstream, &store).await?;
    log_settings(&config, &proxy, stored.as_ref()).await;
    let joins = stored
        .as_ref()
        .is_none_or(|stored| stored.is_superseded_by(config.join.as_ref()));
    if matches!(config.target, ApiServerConfig::Kubeconfig { .. }) {
        if joins {
            role_bindings::bind_in_cluster(&upstream).await;
        }
        role_bindings::bind_in_namespaces(&upstream, &config.operator_namespaces).await;
        process.spawn(log_api_server(upstream.clone()));
    }
    let namespace = home::own_namespace(&config);
    let keeps_secret = matches!(config.state, IdentityLocation::Secret { .. });
    let home = (namespace.clone(), keeps_secret);
    let upgrades = UpgradeSettings::of(&config, &namespace);
    let uid = poll_cluster_uid(&process, &upstream);
    let of_namespaces = impersonation::namespace_groups(&config.operator_namespaces);
    let instance = config.instance.map_or_else(random_instance, Ok)?;
    let traces = Traces::start(config.traces.as_ref(), &instance.to_string(), &process)?;
    let known = (config.hubs.len(), config.learn_hubs);
    let hubs = Arc::new(KnownHubs::new(config.links, known, instance));
    let context = Arc::new(AgentContext {
        reserved: home::reserved_namespace(&config),
        process: process.clone(),
        upstream,
        allow_connect,
        allow_groups: [config.allow_groups, of_namespaces].concat(),
        allow_as: config.allow_as,
        metrics: metrics.clone(),
        reconnect_spread: ReconnectSpread::default(),
        requests: TaskTracker::new(),
        configuration: ConfigurationState::default(),
        deliveries: context::deliveries::DesiredDeliveries::default(),
        gitops: watch::Sender::new(None),
        sessions: Arc::default(),
        hubs: hubs.clone(),
        instance,
        traces,
        uid,
        memory_budget: reserve.clone(),
        links_up: Mutex::default(),
    });
    measure_sessions(&context).map_err(internal)?;
    git_proxy::start(&context, &config.git_proxy)?;
    let mut dialer = HubDialer::new(
        config.join,
        (config.hubs, Some(hubs)),
        config.ca_file,
        proxy,
        config.version,
        (metrics, reserve),
        Some(FailureReports::new(context.clone(), namespace.clone())),
    );
    dialer.wait_for_adoption(config.adopt.then(|| namespace.clone()));
    process.spawn(upgrade::worker(&context, upgrades));
    follow_configuration(&context, namespace, config.facts_every)?;
    if let Some(delivery) = config.delivery {
        process.spawn(delivery::run(context.clone(), config.target, delivery));
    }
    let identities = Arc::new(IdentityManager::new(context.clone(), store));
    process.spawn(identities.clone().run(dialer.clone()));
    start_reports(&context, &identities, home);
    process.spawn(links::run(context, identities, dialer));
    process.draining().await;
    Ok(())
}

/// Starts the reports of the stored authorities to the hub, and of missing rights to the cluster. `home`: the agent's
/// namespace, and whether its Secret is there.
fn start_reports(
    context: &Arc<AgentContext>,
    identities: &Arc<IdentityManager>,
    home: (String, bool),
) {
    let process = &context.process;
    process.spawn(ca_report::run(context.clone(), identities.clone()));
    let reported = rights::report(context.clone(), identities.stored(), home);
    process.spawn(reported);
}

/// Registers the metrics of the sessions.
fn measure_sessions(context: &AgentContext) -> prometheus::Result<()> {
    let metrics = SessionMetrics::new(&context.sessions, &context.hubs)?;
    let registry = context.process.registry();
    registry.register(Box::new(metrics))
}

/// Starts the parts that the hub's configuration steers. `facts_every`: zero for no facts.
fn follow_configuration(
    context: &Arc<AgentContext>,
    namespace: String,
    facts_every: Option<Duration>,
) -> Result<(), Failure> {
    let process = &context.process;
    if facts_every != Some(Duration::ZERO) {
        let run = (context.clone(), random_instance()?);
        process.spawn(FactReporter::new(run, namespace, facts_every).run());
    }
    process.spawn(configuration::run(context.clone()));
    process.spawn(gitops::run(context.clone()));
    Ok(())
}

/// Polls the UID of the cluster until the process drains.
fn poll_cluster_uid(process: &Process, upstream: &Arc<Upstream>) -> watch::Receiver<UidState> {
    let (sender, uid) = watch::channel(UidState::Pending);
    let (draining, upstream) = (process.clone(), Arc::clone(upstream));
    process.spawn(async move {
        tokio::select! {
            () = cluster_uid::poll(upstream, sender) => {}
            () = draining.draining() => {}
        }
    });
    uid
}

fn random_instance() -> Result<Instance, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(Instance::from_bytes(bytes))
}

/// Checks for a start in a terminal. A person can correct mistakes there, so they end the agent at once.
async fn check_terminal_start(
    config: &Config,
    upstream: &Upstream,
    store: &IdentityStore,
) -> Result<Option<Identity>, Failure> {
    if config.adopt && config.hubs.is_empty() {
        return Err(Failure::because(Code::BadConfig, "adopt needs hub"));
    }
    if let ApiServerConfig::Kubeconfig { .. } = config.target {
        upstream.check().await?;
        if let Some(path) = &config.ca_file {
            std::fs::metadata(path).map_err(|error| {
                let detail = format_args!("{}: {error}", path.display());
                Failure::because(Code::CannotRead, detail).next(dial::CHECK_CA_FILE)
            })?;
        }
    }
    if !matches!(store, IdentityStore::Dir(_)) {
        return Ok(None);
    }
    let identity = store.load().await?.identity;
    if identity.is_none() && config.join.is_none() && !config.adopt {
        return Err(Code::NotEnrolled.into());
    }
    Ok(identity)
}

/// Logs whether the API server answers; the agent continues either way.
async fn log_api_server(upstream: Arc<Upstream>) {
    let (cause, next) = match upstream.request(Method::GET, "/version", None).await {
        Ok((status, _)) if status.is_success() => return info!("API server reached"),
        Ok((StatusCode::UNAUTHORIZED, _)) => (
            "it rejects the credential of the kubeconfig".to_owned(),
            "check that its token or client certificate has not expired",
        ),
        Ok((status, _)) => (
            format!("it answered {status}"),
            "check the API server's log",
        ),
        Err(error) => (
            error_chain(&error),
            "check that the API server of the kubeconfig runs and can be reached from here",
        ),
    };
    let code = Code::ApiUnreachable;
    warn!(%code, cause, next, "API server cannot be used");
}

/// Logs the settings that a site operator checks first when something fails.
async fn log_settings(config: &Config, proxy: &ProxySource, identity: Option<&Identity>) {
    info!(version = config.version, "agent started");
    let identity = identity.filter(|identity| !identity.is_superseded_by(config.join.as_ref()));
    let known = [
        Some(&config.hubs),
        identity.map(|identity| &identity.hubs),
        config.join.as_ref().map(|join| &join.hubs),
    ];
    for hub in known
        .into_iter()
        .flatten()
        .find(|hubs| !hubs.is_empty())
        .into_iter()
        .flatten()
    {
        let proxy = proxy.explain(hub).await;
        info!(%hub, proxy, "hub");
    }
    let pins = identity
        .map(|identity| identity.pins)
        .or(config.join.as_ref().map(|join| join.ca_pins));
    let file = config.ca_file.as_deref().map(Path::display);
    info!(
        system = true,
        file = file.map(tracing::field::display),
        pin = pins.map(tracing::field::display),
        "trust of the hub's outer certificate"
    );
    info!(target = %config.target, "API server");
}
