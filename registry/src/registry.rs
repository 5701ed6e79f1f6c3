//! State of the registry's handlers.

use std::{
    collections::HashSet,
    ops::RangeInclusive,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use fairlead_api::{Code, Failure, resources::TenantQuotas};
use fairlead_runtime::Process;
use fairlead_seam::{Caller, Presence, Subject};
use fairlead_store::{
    Actor, Clock, Draft, Record, Retention, Store, View,
    model::Cluster,
    random::{self, RandomError},
};
use time::OffsetDateTime;

use crate::{
    document_cache::DocumentCache, error::RegistryError, services::Services, stale::Reporting,
};

/// Each one is a label on every cluster's time series.
const MAX_METRIC_FACTS: usize = 32;
/// Default lifetime of a bootstrap token.
pub const BOOTSTRAP_TTL: Duration = Duration::from_secs(1800);
/// Default of the longest lifetime of a person's API token.
pub const PERSON_TOKEN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest lifetimes of a person's API token that may be configured.
const PERSON_TOKEN_TTL_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(3600)..=Duration::from_secs(366 * 24 * 3600);
/// Lifetimes of a bootstrap token that may be configured.
const BOOTSTRAP_TTL_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(7 * 24 * 3600);

/// Tenants, clusters and API tokens of one hub.
pub struct Registry {
    /// Distinguishes this process from earlier ones and from other hubs on the same database.
    pub(crate) run: u32,
    pub(crate) settings: RegistrySettings,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) services: Services,
    pub(crate) documents: DocumentCache,
    /// Open agent sessions; set by the gateway when it starts.
    pub(crate) presence: OnceLock<Arc<dyn Presence>>,
    /// People of whom changed rights are being written.
    pub(crate) pending_people: Arc<Mutex<HashSet<Subject>>>,
    /// Set when the modules run.
    pub(crate) process: OnceLock<Process>,
}

/// Settings of the registry, chosen by the platform operator.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Lifetime of a bootstrap token.
    pub bootstrap_ttl: Duration,
    /// Longest lifetime of an API token that a person owns, from its creation or hand-over. A person who never signs in
    /// again loses no role at the hub, so this bounds the time.
    pub person_token_ttl: Duration,
    /// Time for which the change log and the fact history are kept.
    pub retention: Retention,
    /// Intervals of the sources of facts.
    pub reporting: Reporting,
    /// Services announced to clients of Lieutenant's API.
    pub discovery: Discovery,
    /// Names of facts that become labels of metrics.
    pub metric_facts: Vec<String>,
    /// Default quotas of tenants.
    pub quotas: TenantQuotas,
    /// Folder of the audit log of requests; without one the log is empty.
    pub audit_dir: Option<PathBuf>,
}

/// Other services that `GET /` announces to clients of Lieutenant's API.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Discovery URL and client id.
    pub oidc: Option<(String, String)>,
    /// Address and login method.
    pub vault: Option<(String, Option<String>)>,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        RegistrySettings {
            bootstrap_ttl: BOOTSTRAP_TTL,
            person_token_ttl: PERSON_TOKEN_TTL,
            retention: Retention::default(),
            reporting: Reporting::default(),
            discovery: Discovery::default(),
            metric_facts: Vec::new(),
            quotas: TenantQuotas::default(),
            audit_dir: None,
        }
    }
}

impl RegistrySettings {
    /// Rejects invalid values.
    ///
    /// # Errors
    /// `FL-4101`
    pub fn check(&self) -> Result<(), Failure> {
        if !BOOTSTRAP_TTL_RANGE.contains(&self.bootstrap_ttl) {
            let detail = "a bootstrap token's lifetime is one minute to one week";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        if !PERSON_TOKEN_TTL_RANGE.contains(&self.person_token_ttl) {
            let detail = "the longest lifetime of a person's token is one hour to 366 days";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        self.reporting.check()?;
        if self.metric_facts.len() > MAX_METRIC_FACTS {
            let detail = format_args!("at most {MAX_METRIC_FACTS} facts can be labels of metrics");
            return Err(Failure::because(Code::BadConfig, detail));
        }
        Ok(())
    }
}

impl Registry {
    /// Creates the registry over an open store.
    ///
    /// # Errors
    /// [`RandomError`] without random bytes.
    pub fn new(
        store: Store,
        clock: Clock,
        settings: RegistrySettings,
        services: Services,
    ) -> Result<Self, RandomError> {
        Ok(Registry {
            run: u32::from_ne_bytes(random::bytes()?),
            settings,
            store,
            clock,
            services,
            documents: DocumentCache::default(),
            presence: OnceLock::new(),
            pending_people: Arc::default(),
            process: OnceLock::new(),
        })
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Expiry of a bootstrap token issued now, in whole seconds as encoded in the token.
    pub(crate) fn bootstrap_expiry(&self, now: OffsetDateTime) -> OffsetDateTime {
        let now = now.replace_nanosecond(0).unwrap_or(now);
        now + self.settings.bootstrap_ttl
    }

    /// True if a cluster's agent applies an older configuration than the desired one.
    pub(crate) fn outdated(&self, view: &View, cluster: &Record<Cluster>) -> bool {
        let observed = self.store.observed_of(cluster);
        let applied = observed.applied.as_deref();
        let desired = || self.services.configurations.revision(view, cluster);
        applied.is_some_and(|applied| *applied != *desired())
    }

    /// Changes the registry, or evaluates the change without applying it if `dry_run` is set.
    pub(crate) async fn change_or_try<T: Send + 'static>(
        &self,
        caller: &Caller,
        dry_run: bool,
        decide: impl FnMut(&mut Draft) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        if dry_run {
            return self.store.attempt(&by(caller), decide);
        }
        Ok(self.store.change(by(caller), decide).await?.value)
    }

    /// Completes when the process drains; a handler that waits must return then.
    pub(crate) async fn draining(&self) {
        match self.process.get() {
            Some(process) => process.draining().await,
            None => std::future::pending().await,
        }
    }
}

/// The caller as the actor of a change, for the change log.
#[must_use]
pub fn by(caller: &Caller) -> Actor {
    Actor::Caller {
        name: caller.name.clone(),
        token: caller.token.clone(),
    }
}
