//! Opens all modules of one hub, in the order of their dependencies.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{CreateToken, CreatedToken, Role},
};
use fairlead_certs::{Authority, Leaf};
use fairlead_gateway::{Module, Seam};
use fairlead_runtime::Process;
use fairlead_store::{
    Actor, Clock, DataDir, Place, Presented, Retention, Revision, Store, claim::Claim,
    model::Token, random,
};
use rustls::ServerConfig;
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::info;

use crate::{
    catalog::CatalogModule,
    certificates::{CertificateExpiry, Certificates, CertificatesModule, Front},
    configuration::{ConfigurationModule, Wanted},
    enroll::{BootstrapKey, Enroll},
    facts::{FactsModule, Influx, InfluxConfig, Reporting},
    hub::{Discovery, Hub, Settings},
    issuers::Issuers,
    keys::{SealingKey, share},
    local,
    loss::{refuse_lost_keys, refuse_lost_store},
    proxies::Network,
    registry::{Openings, RESTARTED, Registry, find_token, mint, mint_for},
    repositories::{GitServers, RepositoriesModule},
};

pub(crate) const STORE_FILE: &str = "fairlead.db";
/// Each one is a label on every cluster's time series.
const MAX_METRIC_FACTS: usize = 32;

/// Default lifetime of a bootstrap token.
pub const BOOTSTRAP_TTL: Duration = Duration::from_secs(1800);

/// Settings for opening the modules.
#[derive(Debug, Clone)]
pub struct Config {
    /// Created if missing; locked by one hub.
    pub data_dir: PathBuf,
    /// Address of the hub for people and agents, used in join strings and install URLs.
    pub public_url: HubUrl,
    /// Address of install manifests, like `http://127.0.0.1:9090`, if it differs from the front.
    pub install_base: Option<String>,
    /// Clusters are also reachable as `<id>.<cluster_domain>`.
    pub cluster_domain: String,
    /// The front's certificate, if configured (`--tls-cert`).
    pub front_leaf: Option<Leaf>,
    /// Location of the registry; defaults to a file in `data_dir`.
    pub store: Option<Place>,
    /// Sealing key for the hub's keys in the store, 32 bytes in base64, for several hubs on one
    /// database. `None` keeps the keys in the folder alone.
    pub store_key: Option<SecretString>,
    /// Retention of history.
    pub retention: Retention,
    /// Report intervals of the sources of facts, which decide when facts become stale.
    pub reporting: Reporting,
    /// InfluxDB to which facts are also written.
    pub influx: Option<InfluxConfig>,
    /// Start although keys or database of an earlier hub are missing.
    pub accept_data_loss: bool,
    /// Configuration file of external issuers (`docs/issuers.md`).
    pub issuers: Option<PathBuf>,
    /// Lifetime of a bootstrap token; [`BOOTSTRAP_TTL`] by default.
    pub bootstrap_ttl: Duration,
    /// Time after its expiry within which an identity may renew itself, unless another key has
    /// enrolled since. Zero disables late renewal.
    pub renew_grace: Duration,
    /// Version of the hub, for the install manifest.
    pub version: String,
    /// The agent's image, for the install manifest.
    pub image: String,
    /// The image of Project Syn's Steward, for its install manifests.
    pub steward_image: String,
    /// Services announced by `GET /`.
    pub discovery: Discovery,
    /// Names of facts that become labels of `syn_lieutenant_cluster_facts`; at most 32.
    pub metric_facts: Vec<String>,
    /// Proxies in front of the hub with trusted `X-Forwarded-Proto` and host.
    pub trusted_proxies: Vec<Network>,
    /// Plugged-in Git servers.
    pub git_servers: GitServers,
}

/// The modules of one hub; clones share their state.
#[derive(Clone)]
pub struct Control {
    hub: Arc<Hub>,
    registry: Arc<Registry>,
    facts: Arc<FactsModule>,
}

impl Control {
    /// Opens the data directory and creates missing parts.
    ///
    /// # Errors
    /// `FL-4103` if the directory cannot be used or another hub runs in it, `FL-4101` for an
    /// invalid setting.
    pub async fn open(config: Config) -> Result<Control, Failure> {
        Control::open_at(config, Clock::system()).await
    }

    /// As [`Control::open`], with another clock.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub async fn open_at(config: Config, clock: Clock) -> Result<Control, Failure> {
        let ttl = config.bootstrap_ttl;
        if !(Duration::from_secs(60)..=Duration::from_secs(7 * 24 * 3600)).contains(&ttl) {
            let detail = "a bootstrap token's lifetime is one minute to one week";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        config.reporting.check()?;
        if config.metric_facts.len() > MAX_METRIC_FACTS {
            let detail = format_args!("at most {MAX_METRIC_FACTS} facts can be labels of metrics");
            return Err(Failure::because(Code::BadConfig, detail));
        }
        // Configuration mistakes surface before anything is created.
        let issuers = config.issuers.as_deref().map(Issuers::open).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let influx = config.influx.clone();
        let influx = influx.map(|it| Influx::open(it, &data_dir, clock.clone()));
        let influx = influx.transpose()?.map(Box::new);
        let (place, claim, store) = open_store(&config, &data_dir, &clock).await?;
        let authority = Arc::new(Authority::open_or_create(data_dir.path())?);
        let bootstrap = BootstrapKey::open_or_create(&data_dir)?;
        let front_ca_pem = match config.front_leaf {
            Some(_) => None,
            None => Some(authority.certificate_pem().to_owned()),
        };
        let front = match &config.front_leaf {
            Some(leaf) => Front::Given(leaf.clone()),
            None => Front::Own(front_names(&config)),
        };
        let now = clock.now();
        let certificates =
            Certificates::new(Arc::clone(&authority), front, config.renew_grace, now)?;
        let lost = begin_membership(&store, &data_dir, &config.public_url, now).await?;
        info!(data = %data_dir.path().display(), store = %place, trust_domain = authority.trust_domain(), pin = %authority.pin(), lost, "modules opened");
        let hub = Arc::new(Hub {
            run: u32::from_ne_bytes(random::bytes()?),
            issuers: issuers.unwrap_or_default(),
            influx,
            settings: Settings {
                install_base: (config.install_base)
                    .unwrap_or_else(|| config.public_url.to_string()),
                public_url: config.public_url,
                cluster_domain: config.cluster_domain,
                front_ca_pem,
                bootstrap_ttl: ttl,
                renew_grace: config.renew_grace,
                retention: config.retention,
                reporting: config.reporting,
                version: config.version,
                image: config.image,
                steward_image: config.steward_image,
                discovery: config.discovery,
                metric_facts: config.metric_facts,
                trusted_proxies: config.trusted_proxies,
            },
            authority,
            bootstrap,
            deleted: store.parted(),
            store,
            clock,
            certificates,
            wanted: Wanted::default(),
            openings: Openings::default(),
            git_servers: config.git_servers,
            presence: OnceLock::new(),
            process: OnceLock::new(),
            _claim: claim,
            _data_dir: data_dir,
        });
        let registry = Arc::new(Registry(Arc::clone(&hub)));
        let facts = Arc::new(FactsModule::new(Arc::clone(&hub)));
        Ok(Control {
            hub,
            registry,
            facts,
        })
    }

    /// The modules and hooks for the gateway.
    #[must_use]
    pub fn seam(&self) -> Seam {
        let hub = || Arc::clone(&self.hub);
        let modules: Vec<Arc<dyn Module>> = vec![
            self.registry.clone(),
            Arc::new(Enroll(hub())),
            Arc::new(CatalogModule(hub())),
            self.facts.clone(),
            Arc::new(ConfigurationModule(hub())),
            Arc::new(CertificatesModule::new(hub())),
            Arc::new(RepositoriesModule(hub())),
        ];
        Seam {
            authenticator: self.registry.clone(),
            authorizer: self.registry.clone(),
            directory: self.registry.clone(),
            modules,
        }
    }

    /// TLS configuration of the front; updated on renewal.
    #[must_use]
    pub fn front_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.hub.certificates.front()
    }

    /// TLS configuration of the inner TLS; updated on renewal.
    #[must_use]
    pub fn session_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.hub.certificates.session()
    }

    /// Current revision of the registry; notified of every change.
    #[must_use]
    pub fn revision(&self) -> watch::Receiver<Revision> {
        self.hub.store.watch()
    }

    /// Trust domain of agents' identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        self.hub.authority.trust_domain()
    }

    /// Certificate of the hub's own authority.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.hub.authority.certificate_pem()
    }

    /// Expiry of the hub's certificates.
    #[must_use]
    pub fn certificate_expiry(&self) -> CertificateExpiry {
        self.hub.certificates.expiry()
    }

    /// True if no token was ever created, so that nobody can log in.
    ///
    /// # Errors
    /// `FL-5102`.
    pub async fn is_new(&self) -> Result<bool, Failure> {
        Ok(self.hub.store.view().tokens().next().is_none())
    }

    /// Expiry of one of our tokens, past ones included; `None` for any other text.
    #[must_use]
    pub fn token_expiry(&self, token: &SecretString) -> Option<OffsetDateTime> {
        let found = find_token(&self.hub.store.view(), token);
        found.map(|token| token.value.expires)
    }

    /// Current time of the hub's clock.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        self.hub.now()
    }

    /// True if an admin of all tenants can log in now, with a token of ours or through an issuer.
    #[must_use]
    pub fn has_admin(&self) -> bool {
        let (view, now) = (self.hub.store.view(), self.hub.now());
        let is_admin = |token: &Token| token.role == Role::Admin && token.tenant.is_none();
        let mut tokens = view.tokens();
        self.hub.issuers.has_any() || tokens.any(|it| is_admin(&it.value) && it.value.expires > now)
    }

    /// Serves `hub.sock` in the data folder, for operators on this machine, until the process
    /// drains.
    pub fn serve_locally(&self, process: &Process) {
        local::serve(Arc::clone(&self.hub), self.hub._data_dir.path(), process);
    }

    /// Creates a bearer token for the operator that starts the hub (`fairlead dev`, first start).
    ///
    /// # Errors
    /// `FL-4109` for an invalid name or lifetime, `FL-4107` for an unknown tenant, `FL-5102`.
    pub async fn mint_token(&self, create: CreateToken) -> Result<CreatedToken, Failure> {
        mint(&self.hub, Actor::Hub, create).await
    }

    /// As [`Control::mint_token`], for the first login. `hand_over` stores the token before it
    /// becomes valid, so a hub that ends in between creates another one at its next start.
    ///
    /// # Errors
    /// As [`Control::mint_token`], and the error of `hand_over`; no token exists then.
    pub async fn mint_first_token(
        &self,
        create: CreateToken,
        hand_over: impl FnOnce(&SecretString) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let minted = mint_for(&self.hub, Actor::Hub, create, hand_over).await;
        minted.map(drop)
    }

    /// Waits for pending changes and closes the store. Call after the gateway has drained.
    pub async fn close(&self) {
        self.hub.store.close().await;
    }
}

/// Opens the store and the keys shared by its hubs. Lost parts are not replaced by new ones.
async fn open_store(
    config: &Config,
    data_dir: &DataDir,
    clock: &Clock,
) -> Result<(Place, Claim, Store), Failure> {
    let file = || Place::File(data_dir.join(STORE_FILE));
    let place = config.store.clone().unwrap_or_else(file);
    let sealing = config.store_key.as_ref().map(SealingKey::read);
    let sealing = sealing.transpose()?;
    let accepted = config.accept_data_loss;
    refuse_lost_store(data_dir, &place, accepted).await?;
    let claim = Claim::of(&place)?;
    let store = Store::open(&place, clock.clone()).await?;
    let keys = async {
        refuse_lost_keys(data_dir, &store, accepted).await?;
        match &sealing {
            Some(sealing) => share(&store, data_dir, sealing).await,
            None => Ok(()),
        }
    };
    if let Err(failure) = keys.await {
        store.close().await;
        return Err(failure);
    }
    Ok((place, claim, store))
}

/// Registers this hub and returns the number of clusters lost with its predecessor in this folder.
/// That hub has ended, since this one holds its folder.
async fn begin_membership(
    store: &Store,
    data_dir: &DataDir,
    url: &HubUrl,
    now: OffsetDateTime,
) -> Result<usize, Failure> {
    let presented = Presented {
        url: url.clone(),
        instead_of: data_dir.renamed(store.name())?,
    };
    let begun = store.begin(presented, now, RESTARTED).await;
    Ok(begun?)
}

fn front_names(config: &Config) -> Vec<String> {
    let mut names = vec![
        config.public_url.host().to_owned(),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
        format!("*.{}", config.cluster_domain),
    ];
    let mut unique = std::collections::HashSet::new();
    names.retain(|name| unique.insert(name.clone()));
    names
}
