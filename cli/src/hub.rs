//! `fairlead server` and `fairlead dev`: reads the settings of a hub and runs it.

mod first_login;
mod influx;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;
use fairlead_api::{Code, Failure, HubUrl};
use fairlead_certs::Leaf;
use fairlead_control::{BOOTSTRAP_TTL, Control, Network};
use fairlead_facts::InfluxConfig;
use fairlead_gateway::Gateway;
use fairlead_registry::{Discovery, stale::Reporting};
use fairlead_runtime::{
    Process, admin,
    config::{Listen, Reader, Size, Span},
    listen, workers,
};
use fairlead_store::{Place, Retention};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tracing::info;

use crate::{
    dev, environment::Environment, files, settings, settings::ProcessSettings, version::VERSION,
};
use first_login::first_login;

/// Pinned image of Steward, a version that is tested with this hub.
pub(crate) const STEWARD_IMAGE: &str = "docker.io/projectsyn/steward:v0.13.0";
pub(crate) const RESUME_WINDOW: Duration = Duration::from_secs(60);
pub(crate) const SESSION_MEMORY: usize = 1 << 30;
/// Default of `--renew-grace`: a cluster that was off for a month can still renew its identity.
pub(crate) const RENEW_GRACE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Default limit per caller: enough for a person with some controllers, but not all of the hub's capacity.
pub(crate) const MAX_REQUESTS_PER_CALLER: usize = 1000;

/// Complete settings of a hub.
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) listen: SocketAddr,
    /// Address for plain HTTP, for a proxy that terminates TLS.
    pub(crate) listen_plain: Option<SocketAddr>,
    pub(crate) admin: SocketAddr,
    pub(crate) ready_file: Option<PathBuf>,
    /// `None` is the listen address.
    pub(crate) public_url: Option<HubUrl>,
    pub(crate) cluster_domain: Option<String>,
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// `None` is a file in `data`.
    pub(crate) store: Option<Place>,
    /// Key that encrypts the hub's keys in the store.
    pub(crate) store_key: Option<SecretString>,
    pub(crate) retention: Retention,
    pub(crate) reporting: Reporting,
    pub(crate) influx: Option<InfluxConfig>,
    pub(crate) issuers: Option<PathBuf>,
    pub(crate) bootstrap_ttl: Duration,
    pub(crate) renew_grace: Duration,
    pub(crate) max_requests_per_caller: usize,
    pub(crate) resume_window: Duration,
    pub(crate) session_memory: usize,
    pub(crate) image: String,
    pub(crate) steward_image: String,
    pub(crate) metric_facts: Vec<String>,
    pub(crate) discovery: Discovery,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) accept_data_loss: bool,
    /// Set for `fairlead dev`: install manifests on the admin port, and a login for this user.
    pub(crate) dev: Option<Environment>,
}

pub(crate) fn server(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = settings::reader("server", matches, environment);
    let process = ProcessSettings::read(&mut reader);
    let settings = read_server(&mut reader);
    reader.finish()?;
    process.run(workers::cores(), async move |process| {
        serve(settings, process).await
    })
}

fn read_server(reader: &mut Reader) -> Settings {
    let tls = (
        reader.optional::<PathBuf>("tls-cert"),
        reader.optional::<PathBuf>("tls-key"),
    );
    let tls = match tls {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => {
            reader.mistake("tls-cert and tls-key go together");
            None
        }
    };
    let store = read_store(reader);
    Settings {
        data: reader.or("data", PathBuf::from("/var/lib/fairlead")),
        listen: listen_or(reader, "listen", ([0, 0, 0, 0], 8443)),
        listen_plain: reader.optional::<Listen>("listen-plain").map(|it| it.0),
        admin: listen_or(reader, "admin", ([127, 0, 0, 1], 9090)),
        ready_file: reader.optional("ready-file"),
        public_url: reader.required(
            "public-url",
            "how people and agents reach the hub from outside, like https://hub.example.com",
        ),
        cluster_domain: reader.optional("cluster-domain"),
        tls,
        store,
        store_key: read_secret(reader, "store-key", "store-key-file"),
        retention: read_retention(reader),
        reporting: read_reporting(reader),
        influx: influx::read(reader),
        issuers: reader.optional("issuers"),
        bootstrap_ttl: reader.or("bootstrap-ttl", Span(BOOTSTRAP_TTL)).0,
        renew_grace: reader.or("renew-grace", Span(RENEW_GRACE)).0,
        max_requests_per_caller: reader.or("max-requests-per-caller", MAX_REQUESTS_PER_CALLER),
        resume_window: reader.or("resume-window", Span(RESUME_WINDOW)).0,
        session_memory: reader.or("session-memory", Size(SESSION_MEMORY)).0,
        image: reader.or("image", default_image()),
        steward_image: reader.or("steward-image", STEWARD_IMAGE.to_owned()),
        metric_facts: reader.list("metric-fact"),
        discovery: read_discovery(reader),
        trusted_proxies: reader.list("trusted-proxy"),
        accept_data_loss: reader.or("accept-data-loss", false),
        dev: None,
    }
}

pub(crate) fn listen_or(
    reader: &mut Reader,
    key: &'static str,
    default: ([u8; 4], u16),
) -> SocketAddr {
    reader.or(key, Listen(default.into())).0
}

fn read_store(reader: &mut Reader) -> Option<Place> {
    let place: Option<Place> = reader.optional("store");
    let password = read_secret(reader, "store-password", "store-password-file");
    place.map(|place| place.with_password(password.as_ref()))
}

/// Reads a secret from a file or the environment. There is no flag for it, because command lines are public.
fn read_secret(
    reader: &mut Reader,
    name: &'static str,
    file: &'static str,
) -> Option<SecretString> {
    let secret: Option<String> = reader.optional(name);
    let path: Option<PathBuf> = reader.optional(file);
    let secret = match path {
        None => secret,
        Some(path) => match files::read_secret(&path) {
            Ok(text) => return Some(text),
            Err(cause) => {
                reader.mistake(format!("{file}: {cause}"));
                None
            }
        },
    };
    secret.map(SecretString::from)
}

fn read_retention(reader: &mut Reader) -> Retention {
    let default = Retention::default();
    Retention {
        changes: reader.or("keep-changes", Span(default.changes)).0,
        facts: reader.or("keep-facts", Span(default.facts)).0,
        lines: default.lines,
    }
}

fn read_reporting(reader: &mut Reader) -> Reporting {
    let default = Reporting::default();
    Reporting {
        agent: reader.or("agent-reports-every", Span(default.agent)).0,
        steward: reader.or("steward-reports-every", Span(default.steward)).0,
    }
}

/// Data that `GET /` reports to Lieutenant's clients.
fn read_discovery(reader: &mut Reader) -> Discovery {
    let oidc = (
        reader.optional("oidc-discovery-url"),
        reader.optional("oidc-client-id"),
    );
    let vault = (
        reader.optional("vault-addr"),
        reader.optional("vault-login-method"),
    );
    if oidc.0.is_some() != oidc.1.is_some() {
        reader.mistake("oidc-discovery-url and oidc-client-id go together");
    }
    Discovery {
        oidc: oidc.0.zip(oidc.1),
        vault: vault.0.map(|addr| (addr, vault.1)),
    }
}

pub(crate) fn default_image() -> String {
    format!("fairlead:{VERSION}")
}

/// Runs a hub until the process drains.
pub(crate) async fn serve(settings: Settings, process: Process) -> Result<(), Failure> {
    let listener = listen::bind(settings.listen)?;
    let plain = settings.listen_plain.map(listen::bind).transpose()?;
    let admin_listener = listen::bind(settings.admin)?;
    let url = public_url(&settings, &listener)?;
    let admin_url = format!("http://{}", local(&admin_listener)?);
    let plain_url = plain.as_ref().map(local).transpose()?;
    let plain_url = plain_url.map(|address| format!("http://{address}"));
    let control = Control::open(control_config(&settings, &url, &admin_url)?).await?;
    let seam = control.seam();
    let cluster_domain = cluster_domain(&settings, &url);
    let config = fairlead_gateway::Config {
        public_url: url.clone(),
        cluster_domain,
        front_tls: control.front_tls(),
        session_tls: control.session_tls(),
        trust_domain: control.trust_domain().to_owned(),
        head_timeout: Duration::from_secs(60),
        max_requests_per_caller: settings.max_requests_per_caller,
        resume_window: settings.resume_window,
        session_memory: settings.session_memory,
    };
    let open_routes = match &settings.dev {
        // kubectl does not trust the CA of a dev hub, so the admin port serves the manifests.
        Some(_) => seam
            .modules
            .iter()
            .filter(|module| module.name() == "enroll")
            .fold(axum::Router::new(), |router, module| {
                router.merge(module.open_routes())
            }),
        None => axum::Router::new(),
    };
    if let Some(url) = &plain_url {
        info!(%url, "plain HTTP too, for a proxy that ends TLS");
    }
    let gateway = Gateway::build(config, seam, listener, &process)?.with_plain(plain);
    process.spawn(admin::serve(admin_listener, process.clone(), open_routes));
    let ready = first_login(&settings, &control, &url).await?;
    control.serve_locally(&process);
    let serving = gateway.serve();
    process.set_ready(true);
    info!(%url, admin = %admin_url, data = %settings.data.display(), version = VERSION, "hub ready");
    if settings.dev.is_some() {
        process.spawn(dev::keep_kubeconfig(
            ready.kubeconfig.clone(),
            ready.client(&url)?,
            control.revision(),
            process.clone(),
        ));
        dev::greet(&settings, &url, ready.current.as_ref())?;
    }
    if let Some(file) = &settings.ready_file {
        files::write(file, &ready.to_json(&url, &admin_url, plain_url.as_deref()))?;
    }
    serving.await
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener
        .local_addr()
        .map_err(|error| Failure::because(Code::AddressInUse, error))
}

fn public_url(settings: &Settings, listener: &TcpListener) -> Result<HubUrl, Failure> {
    match &settings.public_url {
        Some(url) => Ok(url.clone()),
        None => {
            let mut address = local(listener)?;
            if address.ip().is_unspecified() {
                // A dev hub on all addresses needs `--public-url` for access from other machines.
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            let url = format!("https://{address}");
            url.parse()
                .map_err(|error| Failure::because(Code::BadConfig, error))
        }
    }
}

fn cluster_domain(settings: &Settings, url: &HubUrl) -> String {
    let host_is_name = url.host().parse::<std::net::IpAddr>().is_err() && url.host().contains('.');
    match (&settings.cluster_domain, host_is_name) {
        (Some(domain), _) => domain.to_ascii_lowercase(),
        (None, true) => format!("clusters.{}", url.host()),
        (None, false) => "clusters.fairlead.internal".to_owned(),
    }
}

fn control_config(
    settings: &Settings,
    url: &HubUrl,
    admin_url: &str,
) -> Result<fairlead_control::Config, Failure> {
    let chain = settings
        .tls
        .as_ref()
        .map(|(cert, _)| files::read(cert))
        .transpose()?;
    let key = settings
        .tls
        .as_ref()
        .map(|(_, key)| files::read(key))
        .transpose()?;
    let front_leaf = match (&chain, &key) {
        (Some(chain), Some(key)) => Some(Leaf::from_pem(chain, key)?),
        _ => None,
    };
    Ok(fairlead_control::Config {
        data_dir: settings.data.clone(),
        public_url: url.clone(),
        install_base: settings.dev.as_ref().map(|_| admin_url.to_owned()),
        cluster_domain: cluster_domain(settings, url),
        front_leaf,
        store: settings.store.clone(),
        store_key: settings.store_key.clone(),
        retention: settings.retention,
        reporting: settings.reporting,
        influx: settings.influx.clone(),
        accept_data_loss: settings.accept_data_loss,
        issuers: settings.issuers.clone(),
        bootstrap_ttl: settings.bootstrap_ttl,
        renew_grace: settings.renew_grace,
        version: VERSION.to_owned(),
        image: settings.image.clone(),
        steward_image: settings.steward_image.clone(),
        metric_facts: settings.metric_facts.clone(),
        discovery: settings.discovery.clone(),
        trusted_proxies: settings.trusted_proxies.clone(),
        git_servers: fairlead_control::GitServers::default(),
    })
}
