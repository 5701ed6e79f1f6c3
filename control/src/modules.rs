//! Modules of the hub, and their wiring in the order of their dependencies.
//!
//! A module imports no other one. A new module is its own file or folder, its `mod` line here, and one line in [`wire`].

mod about;
pub(crate) mod access;
pub(crate) mod ca;
mod catalog;
pub(crate) mod certificates;
mod configuration;
pub mod enroll;
mod exchange;
pub(crate) mod git_proxy;
pub(crate) mod repositories;
mod requests;
pub(crate) mod services;
mod upgrades;
mod vault;

use std::sync::Arc;

use fairlead_api::Failure;
use fairlead_delivery::{
    DeliveryModule, DeliveryParts, SourceSettings, TargetGuard, ToolManifests,
};
use fairlead_facts::{FactsModule, Influx};
use fairlead_issuers::{Issuers, SignInModule};
use fairlead_registry::{Registry, RegistryModule, Services, stale::Reporting};
use fairlead_routes::{ApiModule, ServedModules};
use fairlead_store::{AgentAddress, Clock, DataDir, Store, claim::Claim};
use tracing::info;

use crate::{
    authorities::TrustedAuthorities,
    backup::finish_restore,
    bootstrap_key::BootstrapKey,
    config::Config,
    opening::{begin_membership, front_names, open_store},
    secrets::StoreSecrets,
};
use about::{About, AboutModule};
use access::AccessModule;
use ca::{CaModule, CaParts};
use catalog::CatalogModule;
use certificates::{Certificates, CertificatesModule, FrontCertificate};
use configuration::{ConfigurationModule, DesiredRevisions};
use enroll::{AdoptionLimits, Enroll, EnrollModule, RenewalLimit};
use exchange::ExchangeModule;
use git_proxy::GitProxyModule;
use repositories::{RepositoriesModule, ServerStates};
use requests::RequestsModule;
use services::ServicesModule;
use upgrades::UpgradesModule;
use vault::{VaultModule, VaultStates};

/// All parts of one hub.
pub(crate) struct Wired {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) authorities: Arc<TrustedAuthorities>,
    pub(crate) trust_domain: String,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) served: ServedModules,
    // Dropped last: the locks must outlive everything above.
    _claim: Claim,
    pub(crate) data_dir: DataDir,
}

/// Opens the data directory and the store, creates missing parts, and builds each module.
///
/// # Errors
/// `FL-4103` if the directory cannot be used or another hub runs in it, `FL-4101` for an invalid
/// setting.
pub(crate) async fn wire(config: Config, clock: Clock) -> Result<Wired, Failure> {
    // Configuration mistakes surface before anything is created.
    config.registry.check()?;
    let issuers = config.issuers.as_deref().map(Issuers::open).transpose()?;
    let issuers = Arc::new(issuers.unwrap_or_default());
    let data_dir = DataDir::open(&config.data_dir)?;
    let open = |it| Influx::open(it, &data_dir, clock.clone());
    let influx = config.influx.clone().map(open).transpose()?;
    let (place, claim, store, sealing) = open_store(&config, &data_dir, &clock).await?;
    finish_restore(&data_dir, &store, clock.now()).await?;
    let authorities = TrustedAuthorities::open(data_dir.path().to_owned(), sealing, &store);
    let authorities = Arc::new(authorities.await?);
    let bootstrap = BootstrapKey::open_or_create(&data_dir)?;
    let secrets = Arc::new(StoreSecrets::of(&bootstrap)?);
    let now = clock.now();
    let (reporting, renew_grace) = (config.registry.reporting, config.enroll.renew_grace);
    let certificates = Certificates::new(authorities.clone(), front(&config)?, renew_grace, now);
    let certificates = Arc::new(certificates?);
    let (hub, agent) = (&config.hub_address, &config.agent_address);
    let addresses = (&config.public_url, hub, agent);
    let lost = begin_membership(&store, &data_dir, addresses, now).await?;
    let set = authorities.set();
    let trust_domain = set.current.trust_domain().to_owned();
    info!(data = %data_dir.path().display(), store = %place, trust_domain, pins = %set.pins(), lost, "modules opened");
    let tools = ToolManifests::new(config.gitops_manifests.clone());
    let enroll = enroll(&config, (&store, &clock), &authorities, (bootstrap, &tools));
    let repositories = Arc::new(ServerStates(config.git_servers.clone()));
    let desired = Arc::new(DesiredRevisions::new(repositories.clone()));
    let deliveries = DeliveryParts::of(&store, &clock).with_tools(&tools);
    let services = Services {
        issuers: issuers.clone(),
        invitations: enroll.clone(),
        sealer: secrets.clone(),
        repositories,
        vault: Arc::new(VaultStates(config.vault.clone())),
        configurations: desired.clone(),
        deliveries: Arc::new(TargetGuard),
        desired_deliveries: deliveries.announcements.clone(),
    };
    let registry = Arc::new(Registry::new(
        store.clone(),
        clock.clone(),
        config.registry.clone(),
        services,
    )?);
    let access = AccessModule::shared(&store, &clock, &config.access)?;
    let about = about(&config, (&certificates, &authorities));
    let modules: Vec<Arc<dyn ApiModule>> = vec![
        Arc::new(RegistryModule::new(registry.clone())),
        Arc::new(RequestsModule::new(store.clone(), clock.clone())),
        Arc::new(EnrollModule(enroll)),
        Arc::new(CatalogModule(store.clone())),
        Arc::new(DeliveryModule::new(deliveries, sources(&config, &data_dir))),
        access,
        facts((&store, &clock), reporting, influx),
        Arc::new(ConfigurationModule::new(store.clone(), desired, tools)),
        certificates_module(&config, &certificates, &clock),
        ca((&store, &clock), &authorities, &certificates),
        repositories_module(&config, (&store, &clock), secrets),
        GitProxyModule::shared(&store, config.git_proxy.clone())?,
        services_module(&config, (&store, &clock)),
        vault_module(&config, (&store, &clock)),
        upgrades_module(&config, (&store, &clock)),
        Arc::new(AboutModule(Arc::new(about))),
        Arc::new(SignInModule::new(issuers.sign_in_options())),
        Arc::new(ExchangeModule::new(&issuers, &store, &clock)),
    ];
    Ok(Wired {
        store,
        clock,
        authorities,
        trust_domain,
        certificates,
        issuers,
        registry,
        served: ServedModules::new(modules),
        _claim: claim,
        data_dir,
    })
}

fn repositories_module(
    config: &Config,
    (store, clock): (&Store, &Clock),
    secrets: Arc<StoreSecrets>,
) -> Arc<dyn ApiModule> {
    let servers = config.git_servers.clone();
    Arc::new(RepositoriesModule::new(
        store.clone(),
        clock.clone(),
        servers,
        secrets,
        &config.public_url,
    ))
}

fn services_module(config: &Config, parts: (&Store, &Clock)) -> Arc<dyn ApiModule> {
    let own = match &config.agent_address {
        AgentAddress::Own(address) => Some(address),
        AgentAddress::Url | AgentAddress::None => None,
    };
    let urls = [&config.public_url, &config.hub_address];
    let hosts = urls.into_iter().chain(own).map(|url| url.host().to_owned());
    let names = hosts.chain([config.cluster_domain.clone()]).collect();
    Arc::new(ServicesModule::new(parts, config.services.clone(), names))
}

fn vault_module(config: &Config, (store, clock): (&Store, &Clock)) -> Arc<dyn ApiModule> {
    let access = config.vault.clone();
    Arc::new(VaultModule::new(store.clone(), clock.clone(), access))
}

fn upgrades_module(config: &Config, (store, clock): (&Store, &Clock)) -> Arc<dyn ApiModule> {
    let settings = &config.enroll;
    Arc::new(UpgradesModule::new(
        store.clone(),
        clock.clone(),
        settings.version.clone(),
        settings.image.clone(),
    ))
}

fn sources(config: &Config, data_dir: &DataDir) -> SourceSettings {
    SourceSettings {
        credentials: config.delivery_credentials.clone(),
        helm: config.helm.clone(),
        proxy: config.program_proxy.clone(),
        ..SourceSettings::of_data_dir(data_dir.path())
    }
}

fn enroll(
    config: &Config,
    (store, clock): (&Store, &Clock),
    authorities: &Arc<TrustedAuthorities>,
    (bootstrap, tools): (BootstrapKey, &ToolManifests),
) -> Arc<Enroll> {
    Arc::new(Enroll {
        store: store.clone(),
        clock: clock.clone(),
        authorities: Arc::clone(authorities),
        bootstrap,
        renewals: RenewalLimit::default(),
        adoptions: AdoptionLimits::default(),
        install_base: install_base(config),
        public_url: config.public_url.clone(),
        settings: config.enroll.clone(),
        tools: tools.clone(),
    })
}

fn facts(
    (store, clock): (&Store, &Clock),
    reporting: Reporting,
    influx: Option<Influx>,
) -> Arc<FactsModule> {
    let (store, clock) = (store.clone(), clock.clone());
    Arc::new(FactsModule::new(store, clock, reporting, influx))
}

fn ca(
    (store, clock): (&Store, &Clock),
    authorities: &Arc<TrustedAuthorities>,
    certificates: &Arc<Certificates>,
) -> Arc<CaModule> {
    Arc::new(CaModule::new(CaParts {
        store: store.clone(),
        clock: clock.clone(),
        authorities: Arc::clone(authorities),
        certificates: Arc::clone(certificates),
    }))
}

fn about(
    config: &Config,
    (certificates, authorities): (&Arc<Certificates>, &Arc<TrustedAuthorities>),
) -> About {
    let (covering, trusted) = (Arc::clone(certificates), Arc::clone(authorities));
    let has_own_front = config.front_files.is_none();
    About {
        public_url: config.public_url.clone(),
        cluster_domain: config.cluster_domain.clone(),
        version: config.enroll.version.clone(),
        front_ca_pem: Box::new(move || has_own_front.then(|| trusted.set().bundle_pem())),
        covers: Box::new(move |domain| covering.covers(domain)),
    }
}

fn certificates_module(
    config: &Config,
    certificates: &Arc<Certificates>,
    clock: &Clock,
) -> Arc<CertificatesModule> {
    let (certificates, files) = (Arc::clone(certificates), config.front_files.clone());
    Arc::new(CertificatesModule::new(certificates, files, clock.clone()))
}

/// Prefix of install URLs.
fn install_base(config: &Config) -> String {
    let base = config.install_base.clone();
    base.unwrap_or_else(|| config.public_url.to_string())
}

fn front(config: &Config) -> Result<FrontCertificate, Failure> {
    Ok(match &config.front_files {
        Some(files) => FrontCertificate::Given(files.read()?),
        None => FrontCertificate::Own(front_names(config)),
    })
}
