//! Services of a development hub for its user: the greeting, and a kubeconfig that follows the clusters.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    time::Duration,
};

use fairlead_api::{Failure, HubUrl};
use fairlead_client::{
    HubClient, files,
    kubeconfig::{self, ContextName},
};
use fairlead_commands::output;
use fairlead_runtime::Process;
use fairlead_store::Revision;
use tokio::sync::watch;
use tracing::warn;

use super::{first_login::Ready, settings::Settings};

/// Shortest interval between two updates of the kubeconfig.
const KUBECONFIG_UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the next commands, and a warning if other machines can reach this hub. `current` is the current hub of the
/// command line.
pub(super) fn greet(
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
    Ok(output::print(&format!(
        "Hub on {url}, logged in as admin for 8 hours. Next, in another terminal:\n\n{switch}  \
         fairlead cluster create demo --wait\n  \
         fairlead kubeconfig --cluster demo > fl.yaml && kubectl --kubeconfig fl.yaml get nodes\n\n"
    ))?)
}

/// Updates the kubeconfig of the ready file whenever clusters change, so that each has a context.
pub(super) async fn keep_kubeconfig(
    ready: Ready,
    url: HubUrl,
    mut revision: watch::Receiver<Revision>,
    process: Process,
) {
    let Some(file) = ready.kubeconfig.as_deref() else {
        return;
    };
    let mut written = None;
    loop {
        revision.mark_unchanged();
        // A new client each time: the CA of the hub can change.
        let current = match ready.client(&url) {
            Ok(hub) => write_kubeconfig(file, &hub, &mut written).await,
            Err(failure) => Err(failure),
        };
        if let Err(error) = &current {
            warn!(%error, "kubeconfig not brought up to date");
        }
        let next = async {
            tokio::time::sleep(KUBECONFIG_UPDATE_INTERVAL).await;
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

/// Writes the file if it changes. `written` is the hash of its last text, which is large with many clusters.
async fn write_kubeconfig(
    file: &Path,
    hub: &HubClient,
    written: &mut Option<u64>,
) -> Result<(), Failure> {
    let all = kubeconfig::generate(hub, &[], None, &ContextName::default(), false).await?;
    let text = all.to_yaml()?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = Some(hasher.finish());
    if hash != *written {
        files::write(file, &text)?;
        *written = hash;
    }
    Ok(())
}
