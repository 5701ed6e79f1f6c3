//! State that all modules of one hub share.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairlead_api::{ClusterId, Failure, HubUrl};
use fairlead_certs::Authority;
use fairlead_gateway::{Caller, Presence};
use fairlead_runtime::Process;
use fairlead_store::{Actor, Clock, DataDir, Draft, Retention, Store, claim::Claim};
use time::OffsetDateTime;
use tokio::sync::broadcast;

use crate::{
    certificates::Certificates,
    configuration::Wanted,
    enroll::BootstrapKey,
    facts::{Influx, Reporting},
    issuers::Issuers,
    proxies::Network,
    registry::Openings,
    repositories::GitServers,
};

pub(crate) struct Hub {
    /// Distinguishes this process from earlier ones and from other hubs on the same database.
    pub(crate) run: u32,
    pub(crate) settings: Settings,
    pub(crate) authority: Arc<Authority>,
    pub(crate) bootstrap: BootstrapKey,
    pub(crate) store: Store,
    pub(crate) issuers: Issuers,
    /// Writer of facts to InfluxDB, if one is configured.
    pub(crate) influx: Option<Box<Influx>>,
    pub(crate) clock: Clock,
    pub(crate) certificates: Certificates,
    pub(crate) wanted: Wanted,
    pub(crate) openings: Openings,
    pub(crate) git_servers: GitServers,
    pub(crate) deleted: broadcast::Sender<ClusterId>,
    /// Open agent sessions; set by the gateway when it starts.
    pub(crate) presence: OnceLock<Arc<dyn Presence>>,
    /// Set when the modules run.
    pub(crate) process: OnceLock<Process>,
    // Dropped last: the lock must outlive everything above.
    pub(crate) _claim: Claim,
    pub(crate) _data_dir: DataDir,
}

/// The caller as the actor of a change, for the change log.
pub(crate) fn by(caller: &Caller) -> Actor {
    Actor::Caller {
        name: caller.name.clone(),
        token: caller.token.clone(),
    }
}

/// Settings chosen by the platform operator.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) public_url: HubUrl,
    /// Prefix of install URLs.
    pub(crate) install_base: String,
    pub(crate) cluster_domain: String,
    /// CA that clients need to trust the front; `None` if public CAs suffice.
    pub(crate) front_ca_pem: Option<String>,
    pub(crate) bootstrap_ttl: Duration,
    /// Time after its expiry within which an identity may renew itself.
    pub(crate) renew_grace: Duration,
    pub(crate) retention: Retention,
    pub(crate) reporting: Reporting,
    pub(crate) version: String,
    pub(crate) image: String,
    /// Image of Project Syn's Steward, for its install manifests.
    pub(crate) steward_image: String,
    pub(crate) discovery: Discovery,
    /// Names of facts that become labels of metrics.
    pub(crate) metric_facts: Vec<String>,
    pub(crate) trusted_proxies: Vec<Network>,
}

/// Other services that `GET /` announces to clients of Lieutenant's API.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Discovery URL and client id.
    pub oidc: Option<(String, String)>,
    /// Address and login method.
    pub vault: Option<(String, Option<String>)>,
}

impl Hub {
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Changes the registry, or evaluates the change without applying it if `dry_run` is set.
    pub(crate) async fn change_or_try<T: Send + 'static>(
        &self,
        caller: &Caller,
        dry_run: bool,
        decide: impl FnMut(&mut Draft) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if dry_run {
            return self.store.attempt(decide);
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
