//! All modules of one hub, opened in the order in which they need each other.

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
use rustls::ServerConfig;
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::info;

use crate::{
    catalog::CatalogModule,
    certificates::{CertificateExpiry, Certificates, CertificatesModule, Front},
    clock::Clock,
    configuration::{ConfigurationModule, Wanted},
    data_dir::DataDir,
    enroll::{BootstrapKey, Enroll},
    facts::{FactsModule, Influx, InfluxConfig, Reporting},
    hub::{Discovery, Hub, Settings},
    issuers::Issuers,
    keys::{SealingKey, share},
    local,
    loss::{refuse_lost_keys, refuse_lost_store},
    model::Token,
    proxies::Network,
    random,
    registry::{Openings, RESTARTED, Registry, find_token, mint, mint_for},
    repositories::{GitServers, RepositoriesModule},
    store::{Actor, Place, Presented, Retention, Revision, Store, claim::Claim},
};

pub(crate) const STORE: &str = "fairlead.db";
/// Each is a label of every cluster's row.
const METRIC_FACTS: usize = 32;

/// How long a bootstrap token is good where nobody says otherwise.
pub const BOOTSTRAP_TTL: Duration = Duration::from_secs(1800);

/// What the modules need to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Made where it is missing; one hub's at a time.
    pub data_dir: PathBuf,
    /// Where people and agents reach the hub; it goes into join strings and install URLs.
    pub public_url: HubUrl,
    /// Where install manifests are fetched, like `http://127.0.0.1:9090`, where that is not the front.
    pub install_base: Option<String>,
    /// Clusters answer as `<id>.<cluster_domain>` too.
    pub cluster_domain: String,
    /// More names and addresses for the front's own certificate.
    pub front_names: Vec<String>,
    /// The front's certificate, where it is given (`--tls-cert`).
    pub front_leaf: Option<Leaf>,
    /// What clients need to trust `front_leaf`, where the web's own trust is not enough.
    pub front_ca_pem: Option<String>,
    /// Where the registry is kept; a file in `data_dir` where nothing is said.
    pub store: Option<Place>,
    /// Under which the hub's keys are in the store, for several hubs on one database; none: each has them in its folder
    /// alone. 32 bytes in base64.
    pub store_key: Option<SecretString>,
    /// How long what was is kept.
    pub retention: Retention,
    /// How often sources of facts report, by which what they said gets stale.
    pub reporting: Reporting,
    /// Where facts are written as well.
    pub influx: Option<InfluxConfig>,
    /// Starts although keys or database of an earlier hub are gone.
    pub accept_data_loss: bool,
    /// Who else vouches for callers (`docs/issuers.md`).
    pub issuers: Option<PathBuf>,
    /// How long a bootstrap token is good; [`BOOTSTRAP_TTL`] by default.
    pub bootstrap_ttl: Duration,
    /// For how long after its end an identity may renew itself, if no other key has enrolled since; zero: not at all.
    pub renew_grace: Duration,
    pub version: String,
    /// The agent's image, for the install manifest.
    pub image: String,
    /// The image of Project Syn's Steward, for its install manifests.
    pub steward_image: String,
    pub discovery: Discovery,
    /// Facts that become labels of `syn_lieutenant_cluster_facts`, by name; 32 at the most.
    pub metric_facts: Vec<String>,
    /// Proxies in front of the hub whose `X-Forwarded-Proto` and host are believed.
    pub trusted_proxies: Vec<Network>,
    /// Who makes Git repositories.
    pub git_servers: GitServers,
}

/// The modules of one hub; clones name the same.
#[derive(Clone)]
pub struct Control {
    hub: Arc<Hub>,
    registry: Arc<Registry>,
    facts: Arc<FactsModule>,
}

impl Control {
    /// Opens the data directory with all that is in it, makes what is missing.
    ///
    /// # Errors
    /// `FL-4103` if the directory cannot be used or another hub runs in it, `FL-4101` for a name that cannot be one.
    pub async fn open(config: Config) -> Result<Control, Failure> {
        Control::open_at(config, Clock::system()).await
    }

    /// As [`Control::open`], by another clock.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub async fn open_at(config: Config, clock: Clock) -> Result<Control, Failure> {
        let ttl = config.bootstrap_ttl;
        if !(Duration::from_secs(60)..=Duration::from_secs(7 * 24 * 3600)).contains(&ttl) {
            let detail = "a bootstrap token lives for a minute to a week";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        config.reporting.check()?;
        if config.metric_facts.len() > METRIC_FACTS {
            let detail = format_args!("{METRIC_FACTS} facts at the most are labels of metrics");
            return Err(Failure::because(Code::BadConfig, detail));
        }
        // Their mistakes are found before anything is made.
        let issuers = config.issuers.as_deref().map(Issuers::open).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let influx = config.influx.clone();
        let influx = influx.map(|it| Influx::open(it, &data_dir, clock.clone()));
        let influx = influx.transpose()?.map(Box::new);
        let (place, claim, store) = open_store(&config, &data_dir, &clock).await?;
        let authority = Arc::new(Authority::open_or_create(data_dir.path())?);
        let bootstrap = BootstrapKey::open_or_create(&data_dir)?;
        let front_ca_pem = match config.front_leaf {
            Some(_) => config.front_ca_pem.clone(),
            None => Some(authority.certificate_pem().to_owned()),
        };
        let front = match &config.front_leaf {
            Some(leaf) => Front::Given(leaf.clone()),
            None => Front::Own(front_names(&config)),
        };
        let now = clock.now();
        let certificates =
            Certificates::new(Arc::clone(&authority), front, config.renew_grace, now)?;
        let lost = begin(&store, &data_dir, &config.public_url, now).await?;
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

    /// What the gateway plugs in.
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

    /// TLS of the front, with the certificate as it is renewed.
    #[must_use]
    pub fn front_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.hub.certificates.front()
    }

    /// The hub's end of the inner TLS, with the certificate as it is renewed.
    #[must_use]
    pub fn session_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.hub.certificates.session()
    }

    /// How far the registry has changed; told of every change.
    #[must_use]
    pub fn revision(&self) -> watch::Receiver<Revision> {
        self.hub.store.watch()
    }

    /// Trust domain of agents' identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        self.hub.authority.trust_domain()
    }

    /// The hub's own authority.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.hub.authority.certificate_pem()
    }

    /// When the hub's certificates end.
    #[must_use]
    pub fn certificate_expiry(&self) -> CertificateExpiry {
        self.hub.certificates.expiry()
    }

    /// Whether nobody can log in yet, because no token was ever made.
    ///
    /// # Errors
    /// `FL-5102`.
    pub async fn is_new(&self) -> Result<bool, Failure> {
        Ok(self.hub.store.view().tokens().next().is_none())
    }

    /// When this token of ours expires or has expired; `None` if it is not one.
    #[must_use]
    pub fn token_expiry(&self, token: &SecretString) -> Option<OffsetDateTime> {
        let found = find_token(&self.hub.store.view(), token);
        found.map(|token| token.value.expires)
    }

    /// The time by the hub's clock.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        self.hub.now()
    }

    /// Whether an admin of all tenants can log in now, with a token of ours or by an issuer.
    #[must_use]
    pub fn has_admin(&self) -> bool {
        let (view, now) = (self.hub.store.view(), self.hub.now());
        let is_admin = |token: &Token| token.role == Role::Admin && token.tenant.is_none();
        let mut tokens = view.tokens();
        self.hub.issuers.has_any() || tokens.any(|it| is_admin(&it.value) && it.value.expires > now)
    }

    /// Serves `hub.sock` in the data folder, for operators on this machine, until the process drains.
    pub fn serve_locally(&self, process: &Process) {
        local::serve(Arc::clone(&self.hub), self.hub._data_dir.path(), process);
    }

    /// A bearer token for whoever starts the hub (`fairlead dev`, first start).
    ///
    /// # Errors
    /// `FL-4109` for a name or lifetime that may not be, `FL-4107` if there is no such tenant, `FL-5102`.
    pub async fn mint_token(&self, create: CreateToken) -> Result<CreatedToken, Failure> {
        mint(&self.hub, Actor::Hub, create).await
    }

    /// As [`Control::mint_token`], for who is let in by nothing else: `hand_over` keeps the token before it is one, so a hub
    /// that ends in between makes another at its next start.
    ///
    /// # Errors
    /// As [`Control::mint_token`], and what `hand_over` says; then there is no token.
    pub async fn mint_first_token(
        &self,
        create: CreateToken,
        hand_over: impl FnOnce(&SecretString) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let minted = mint_for(&self.hub, Actor::Hub, create, hand_over).await;
        minted.map(drop)
    }

    /// Waits for the changes under way and closes the store. To be called when the gateway has drained.
    pub async fn close(&self) {
        self.hub.store.close().await;
    }
}

/// With the keys that its hubs share, where they do. Nothing is made in the place of what is lost.
async fn open_store(
    config: &Config,
    data_dir: &DataDir,
    clock: &Clock,
) -> Result<(Place, Claim, Store), Failure> {
    let file = || Place::File(data_dir.join(STORE));
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

/// How many clusters were lost with the hub that was here before: it has ended, or this one could not have its folder.
async fn begin(
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
    names.extend(config.front_names.iter().cloned());
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}
