//! What all modules share.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairlead_api::{ClusterId, Failure, HubUrl};
use fairlead_certs::Authority;
use fairlead_gateway::{Caller, Presence};
use fairlead_runtime::Process;
use time::OffsetDateTime;
use tokio::sync::broadcast;

use crate::{
    certificates::Certificates,
    clock::Clock,
    configuration::Wanted,
    data_dir::DataDir,
    enroll::BootstrapKey,
    facts::{Influx, Reporting},
    issuers::Issuers,
    proxies::Network,
    registry::Openings,
    repositories::GitServers,
    store::{Actor, Draft, Retention, Store, claim::Claim},
};

pub(crate) struct Hub {
    /// Tells this process from the ones before it and the hubs beside it.
    pub(crate) run: u32,
    pub(crate) settings: Settings,
    pub(crate) authority: Arc<Authority>,
    pub(crate) bootstrap: BootstrapKey,
    pub(crate) store: Store,
    pub(crate) issuers: Issuers,
    /// Where facts are written as well.
    pub(crate) influx: Option<Box<Influx>>,
    pub(crate) clock: Clock,
    pub(crate) certificates: Certificates,
    pub(crate) wanted: Wanted,
    pub(crate) openings: Openings,
    pub(crate) git_servers: GitServers,
    pub(crate) deleted: broadcast::Sender<ClusterId>,
    /// Which sessions there are; told by the gateway when it starts.
    pub(crate) presence: OnceLock<Arc<dyn Presence>>,
    /// What the modules run in, once they do.
    pub(crate) process: OnceLock<Process>,
    // Last, so that it is unlocked when all else is closed.
    pub(crate) _claim: Claim,
    pub(crate) _data_dir: DataDir,
}

/// Who it was, for the change log.
pub(crate) fn by(caller: &Caller) -> Actor {
    Actor::Caller {
        name: caller.name.clone(),
        token: caller.token.clone(),
    }
}

/// What the platform operator has chosen.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) public_url: HubUrl,
    /// What install URLs begin with.
    pub(crate) install_base: String,
    pub(crate) cluster_domain: String,
    /// What a client needs to trust the front; none where the web's own trust does.
    pub(crate) front_ca_pem: Option<String>,
    pub(crate) bootstrap_ttl: Duration,
    /// For how long after its end an identity may renew itself.
    pub(crate) renew_grace: Duration,
    pub(crate) retention: Retention,
    pub(crate) reporting: Reporting,
    pub(crate) version: String,
    pub(crate) image: String,
    /// Steward's, for its install manifests.
    pub(crate) steward_image: String,
    pub(crate) discovery: Discovery,
    /// Which facts are labels of metrics.
    pub(crate) metric_facts: Vec<String>,
    pub(crate) trusted_proxies: Vec<Network>,
}

/// What `GET /` tells Lieutenant's clients of services beside this one.
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

    /// Changes what is registered, or with `dry_run` finds out what that would come to.
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

    /// When the process drains, whoever waits for something is to stop.
    pub(crate) async fn draining(&self) {
        match self.process.get() {
            Some(process) => process.draining().await,
            None => std::future::pending().await,
        }
    }
}
