//! `fairlead server` and `fairlead dev`: reads the settings of a hub and runs it.

mod address;
pub(crate) mod audit;
mod first_login;
mod front_ca;
mod influx;
mod local;
mod registry_settings;
pub(crate) mod settings;
mod site_settings;

use std::{net::SocketAddr, sync::Arc};

use clap::ArgMatches;
use fairlead_api::{Code, Failure, HubUrl};
use fairlead_client::{Environment, files};
use fairlead_control::{Control, FrontFiles, ProgramProxy};
use fairlead_gateway::Gateway;
use fairlead_registry::RegistrySettings;
use fairlead_runtime::{Process, admin, listen, workers};
use fairlead_store::Place;
use fairlead_traces::Traces;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tracing::info;

use crate::{
    build_info::VERSION,
    settings::{ProcessSettings, reader},
};
use address::hub_address;
use audit::AuditSlot;
use first_login::first_login;
use settings::Settings;

pub(crate) fn server(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = reader("server", matches, environment);
    let process = ProcessSettings::read(&mut reader, environment);
    let mut settings = settings::read_server(&mut reader, environment);
    settings.program_proxy = program_proxy(environment);
    reader.finish()?;
    set_git_proxy(&mut settings, environment)?;
    run(settings, process)
}

/// Proxy of the programs git and helm. They get no other variable of the hub.
fn program_proxy(environment: &Environment) -> ProgramProxy {
    let (proxy, exceptions) = environment.proxy_variables();
    ProgramProxy {
        https_proxy: proxy.map(SecretString::from),
        no_proxy: exceptions.map(str::to_owned),
    }
}

/// Proxy of the hub for connections of agents to Git servers. A hub without such connections may have a proxy of another
/// kind.
fn set_git_proxy(settings: &mut Settings, environment: &Environment) -> Result<(), Failure> {
    if !settings.git_proxy.allow.is_empty() {
        settings.git_proxy.proxy = environment.proxy()?;
    }
    Ok(())
}

/// Runs a hub; its audit log is complete when this returns.
fn run(settings: Settings, process: ProcessSettings) -> Result<(), Failure> {
    let writer = AuditSlot::default();
    let slot = writer.clone();
    let ended = process.run(workers::cores(), async move |process| {
        serve(settings, process, &slot).await
    });
    audit::finish(&writer);
    ended
}

pub(crate) fn dev(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = reader("dev", matches, environment);
    let process = ProcessSettings::read(&mut reader, environment);
    let data = match reader.optional("data") {
        Some(data) => data,
        None => environment.data_dir()?.join("dev"),
    };
    // The login is stored there; a missing folder is reported before the hub starts.
    environment.config_dir()?;
    let mut settings = settings::read_dev(&mut reader, data, environment);
    settings.program_proxy = program_proxy(environment);
    reader.finish()?;
    set_git_proxy(&mut settings, environment)?;
    run(settings, process)
}

/// Runs a hub until the process drains.
pub(crate) async fn serve(
    settings: Settings,
    process: Process,
    writer: &AuditSlot,
) -> Result<(), Failure> {
    let listener = listen::bind(settings.listen)?;
    let plain = settings.listen_plain.map(listen::bind).transpose()?;
    let admin_listener = listen::bind(settings.admin)?;
    let url = public_url(&settings, &listener)?;
    let admin_url = format!("http://{}", local(&admin_listener)?);
    let plain_url = plain.as_ref().map(local).transpose()?;
    let plain_url = plain_url.map(|address| format!("http://{address}"));
    let hub_address = match &settings.hub_address {
        Some(address) => address.clone(),
        None => {
            let database = settings.store.as_ref().and_then(Place::host);
            hub_address(local(&listener)?, database).await?
        }
    };
    let config = control_config(&settings, (&url, &hub_address), &admin_url)?;
    let control = Control::open(config).await?;
    let seam = control.seam();
    let cluster_domain = cluster_domain(&settings, &url);
    let config = fairlead_gateway::Config {
        public_url: url.clone(),
        cluster_domain,
        front_tls: control.front_tls(),
        session_tls: control.session_tls(),
        hub_tls: control.hub_tls(),
        trust_domain: control.trust_domain().to_owned(),
        limits: settings.gateway,
        proxies: settings.proxies.clone(),
        service_listen: settings.service_listen,
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
    let log = audit::open(&settings, &url, &process, writer)?;
    let gateway = Gateway::build(config, seam, listener, &process)?;
    let traces = Traces::start(settings.traces.as_ref(), &hub_address.to_string(), &process)?;
    let gateway = gateway.with_plain(plain).with_audit(log);
    let gateway = gateway.with_traces(traces);
    process.spawn(admin::serve(admin_listener, process.clone(), open_routes));
    let ready = first_login(&settings, &control, &url).await?;
    control.serve_locally(&process);
    control.resign_on_drain(&process);
    let serving = gateway.serve();
    process.set_ready(true);
    process.started();
    info!(%url, admin = %admin_url, data = %settings.data.display(), version = VERSION, "hub ready");
    if let Some(file) = ready.ca_file.clone() {
        let kept = front_ca::keep(file, control.clone(), process.clone());
        process.spawn(kept);
    }
    if settings.dev.is_some() {
        process.spawn(local::keep_kubeconfig(
            ready.clone(),
            url.clone(),
            control.revision(),
            process.clone(),
        ));
        local::greet(&settings, &url, ready.current.as_ref())?;
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
    (url, hub_address): (&HubUrl, &HubUrl),
    admin_url: &str,
) -> Result<fairlead_control::Config, Failure> {
    let front_files = settings.tls.clone();
    let front_files = front_files.map(|(certificate, key)| FrontFiles { certificate, key });
    let git_servers = settings.git_servers.as_deref();
    let git_servers = git_servers.map(fairlead_git_servers::open).transpose()?;
    let git_servers = git_servers.unwrap_or_default();
    let vault = settings.vault.as_deref().map(fairlead_vault::open);
    let vault: Option<Arc<dyn fairlead_vault::SecretAccess>> = match vault.transpose()? {
        Some(vault) => Some(Arc::new(vault)),
        None => None,
    };
    Ok(fairlead_control::Config {
        data_dir: settings.data.clone(),
        public_url: url.clone(),
        hub_address: hub_address.clone(),
        agent_address: settings.agent_address.clone(),
        install_base: settings.dev.as_ref().map(|_| admin_url.to_owned()),
        cluster_domain: cluster_domain(settings, url),
        front_files,
        store: settings.store.clone(),
        store_key: settings.store_key.clone(),
        influx: settings.influx.clone(),
        accept_data_loss: settings.accept_data_loss,
        issuers: settings.issuers.clone(),
        registry: RegistrySettings {
            audit_dir: Some(audit::dir(settings)),
            ..settings.registry.clone()
        },
        access: settings.access.clone(),
        enroll: settings.enroll.clone(),
        git_proxy: settings.git_proxy.clone(),
        services: settings.services.clone(),
        delivery_credentials: settings.delivery_credentials.clone(),
        gitops_manifests: settings.gitops_manifests.clone(),
        helm: settings.helm.clone(),
        program_proxy: settings.program_proxy.clone(),
        git_servers,
        vault,
    })
}
