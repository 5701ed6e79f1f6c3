//! `fairlead dev`: a hub for development on this machine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ArgMatches;
use fairlead_api::{Failure, HubUrl};
use fairlead_runtime::{
    Process,
    config::{Listen, Span},
    workers,
};
use fairlead_store::{Retention, Revision};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    environment::Environment,
    files,
    hub::{self, Settings, listen_or},
    hub_client::HubClient,
    kubeconfig, output,
    settings::{self, ProcessSettings},
};

/// Shortest interval between two updates of the kubeconfig.
const REST: Duration = Duration::from_secs(1);

pub(crate) fn run(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = settings::reader("dev", matches, environment);
    let process = ProcessSettings::read(&mut reader);
    let data = match reader.optional("data") {
        Some(data) => data,
        None => environment.data_dir()?.join("dev"),
    };
    // The login is stored there; a missing folder is reported before the hub starts.
    environment.config_dir()?;
    let settings = Settings {
        data,
        listen: listen_or(&mut reader, "listen", ([127, 0, 0, 1], 8443)),
        listen_plain: reader.optional::<Listen>("listen-plain").map(|it| it.0),
        admin: listen_or(&mut reader, "admin", ([127, 0, 0, 1], 9090)),
        ready_file: reader.optional("ready-file"),
        public_url: reader.optional("public-url"),
        cluster_domain: None,
        tls: None,
        store: None,
        store_key: None,
        retention: Retention::default(),
        reporting: fairlead_registry::stale::Reporting::default(),
        influx: None,
        issuers: None,
        bootstrap_ttl: fairlead_control::BOOTSTRAP_TTL,
        renew_grace: hub::RENEW_GRACE,
        max_requests_per_caller: hub::MAX_REQUESTS_PER_CALLER,
        resume_window: reader.or("resume-window", Span(hub::RESUME_WINDOW)).0,
        session_memory: hub::SESSION_MEMORY,
        image: reader.or("image", hub::default_image()),
        steward_image: hub::STEWARD_IMAGE.to_owned(),
        metric_facts: Vec::new(),
        discovery: fairlead_registry::Discovery::default(),
        trusted_proxies: Vec::new(),
        accept_data_loss: reader.or("accept-data-loss", false),
        dev: Some(environment.clone()),
    };
    reader.finish()?;
    process.run(workers::cores(), async move |process| {
        hub::serve(settings, process).await
    })
}

/// Prints the next commands, and a warning if other machines can reach this hub. `current` is the current hub of the
/// command line.
pub(crate) fn greet(
    settings: &Settings,
    url: &HubUrl,
    current: Option<&HubUrl>,
) -> Result<(), Failure> {
    let listens = [
        Some(settings.listen),
        settings.listen_plain,
        Some(settings.admin),
    ];
    for address in listens.into_iter().flatten() {
        if !address.ip().is_loopback() {
            warn!(%address, "others on this network can reach this dev hub; its admin token opens every cluster");
        }
    }
    let switch = match current.filter(|it| *it != url) {
        Some(current) => {
            format!("  fairlead hub use {url}      # the commands talk to {current} now\n")
        }
        None => String::new(),
    };
    output::print(&format!(
        "Hub on {url}, logged in as admin for 8 hours. Next, in another terminal:\n\n{switch}  \
         fairlead cluster create demo --wait\n  \
         fairlead kubeconfig --cluster demo > fl.yaml && kubectl --kubeconfig fl.yaml get nodes\n\n"
    ))
}

/// Updates the kubeconfig of the ready file whenever clusters change, so that each has a context.
pub(crate) async fn keep_kubeconfig(
    file: PathBuf,
    hub: HubClient,
    mut revision: watch::Receiver<Revision>,
    process: Process,
) {
    let mut written = String::new();
    loop {
        revision.mark_unchanged();
        let current = write_kubeconfig(&file, &hub, &mut written).await;
        hub.hang_up();
        if let Err(error) = &current {
            warn!(%error, "kubeconfig not brought up to date");
        }
        let next = async {
            tokio::time::sleep(REST).await;
            if current.is_ok() {
                // The sender lives in the store, which outlives this task.
                let _ = revision.changed().await;
            }
        };
        tokio::select! {
            () = process.draining() => return,
            () = next => {}
        }
    }
}

async fn write_kubeconfig(
    file: &Path,
    hub: &HubClient,
    written: &mut String,
) -> Result<(), Failure> {
    let text = kubeconfig::whole(hub).await?;
    if text != *written {
        files::write(file, &text)?;
        *written = text;
    }
    Ok(())
}
