//! Delivery of one agent: follows the hub, works while it leads, and reports.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::delivery::{CLAIM_PATH, ClaimedRun};
use fairlead_apiserver::Upstream;
use http::{Request, StatusCode};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tracing::{debug, info};

use crate::{
    content::ContentCache,
    engine::{Engine, Executors, Observer, Shared, SiteLimits},
    fence::{DELIVERY_NAMESPACE, FenceWaits, Fences},
    follow::{self, Desired},
    hub::HubConnection,
    kube::{Discovery, KubeClient},
    lease::Lease,
    process::ProcessIdentity,
    reports::{Reporter, States},
    uploads::Uploads,
};

/// Interval of reads of the site's limits.
const SITE_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of reads before the first answer.
const SITE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const CLAIM_BACKOFF: Duration = Duration::from_secs(5);
const CLAIM_DEADLINE: Duration = Duration::from_secs(60);
const MAX_CLAIM_BYTES: usize = 64 * 1024;
/// Claimed commands that wait for their workers.
const MAX_CLAIMED: usize = 8;

/// Parts of a delivery that its process provides.
pub struct DeliveryParts {
    /// Client of the API server.
    pub upstream: Arc<Upstream>,
    /// Connection to the hub.
    pub hub: Arc<dyn HubConnection>,
    /// ETag of the desired state, as the last probe named it.
    pub wanted: watch::Receiver<Option<String>>,
    /// This process.
    pub process: ProcessIdentity,
    /// Folder for content of the hub; none in a pod.
    pub cache: Option<PathBuf>,
    /// Executors.
    pub executors: Executors,
    /// Waits of fences.
    pub waits: FenceWaits,
}

/// Runs delivery until `draining` ends. Running work is then left as it is; the next start takes it over.
pub async fn run(parts: DeliveryParts, draining: impl Future<Output = ()> + Send) {
    let client = KubeClient::new(parts.upstream.clone());
    // The Lease must not wait behind the requests of runs.
    let lease_client = client
        .clone()
        .with_rate(crate::kube::RequestRate::default());
    let mut lease = Lease::new(lease_client, &parts.process);
    let (desired_sender, desired) = watch::channel::<Desired>(None);
    let (site_sender, site) = watch::channel(Arc::new(SiteLimits::default()));
    let (states, state_receiver) = watch::channel(States::default());
    let limits = SiteLimits::default();
    let permits = Arc::new(Semaphore::new(limits.concurrency));
    let uploads = Uploads::new(parts.hub.clone());
    let discovery = Discovery::new(client.clone());
    let fences = Fences::new(client.clone(), Arc::new(parts.process)).with_waits(parts.waits);
    let (observer, findings) = Observer::new(fences.clone(), discovery.clone(), uploads.clone());
    let shared = Arc::new(Shared {
        discovery,
        fences,
        content: ContentCache::new(parts.hub.clone(), parts.cache),
        executors: parts.executors,
        observer,
        desired: desired.clone(),
        site,
        states,
        permits: permits.clone(),
        uploads: uploads.clone(),
        client: client.clone(),
    });
    let (commands, command_receiver) = mpsc::channel(MAX_CLAIMED);
    let mut engine = Engine::new(shared, command_receiver, findings);
    let (known_sender, mut is_site_known) = watch::channel(false);
    let work = async {
        loop {
            lease.acquire().await;
            // A pause must be known before the first correction.
            let known = is_site_known.wait_for(|it| *it).await.map(drop);
            if known.is_err() {
                return;
            }
            tokio::select! {
                () = lease.keep() => {}
                () = engine.run() => {}
            }
            engine.stop().await;
        }
    };
    let reporter = Reporter::new(parts.hub.clone(), state_receiver);
    let claims = claim_all(parts.hub.clone(), desired, uploads, commands);
    tokio::select! {
        () = draining => {}
        () = work => {}
        () = follow::follow(parts.hub, parts.wanted, desired_sender) => {}
        () = reporter.run() => {}
        () = claims => {}
        () = poll_site(client, site_sender, permits, known_sender) => {}
    }
    engine.stop().await;
    lease.release().await;
    info!("delivery stopped");
}

/// Claims commands while the hub has some.
async fn claim_all(
    hub: Arc<dyn HubConnection>,
    mut desired: watch::Receiver<Desired>,
    uploads: Uploads,
    commands: mpsc::Sender<crate::engine::Command>,
) {
    loop {
        let has_commands =
            |desired: &Desired| desired.as_ref().is_some_and(|desired| desired.commands > 0);
        if desired.wait_for(has_commands).await.is_err() {
            return;
        }
        desired.mark_unchanged();
        let Ok(permit) = commands.reserve().await else {
            return;
        };
        match timeout(CLAIM_DEADLINE, claim(&*hub)).await {
            Ok(Ok(Some(claimed))) => {
                let (ticket, cancel) = uploads.claimed(&claimed);
                permit.send(crate::engine::Command {
                    claimed,
                    ticket,
                    cancel,
                });
            }
            // All are claimed: the next desired state tells about new ones.
            Ok(Ok(None)) => {
                let _ = timeout(CLAIM_DEADLINE, desired.changed()).await;
            }
            Ok(Err(cause)) => {
                debug!(cause, "command not claimed; retrying");
                sleep(CLAIM_BACKOFF).await;
            }
            Err(_) => {}
        }
    }
}

async fn claim(hub: &dyn HubConnection) -> Result<Option<ClaimedRun>, String> {
    let request = Request::post(CLAIM_PATH).body(Bytes::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = hub.send(request, MAX_CLAIM_BYTES).await;
    let answer = answer.map_err(|error| error.0)?;
    match answer.status() {
        StatusCode::NO_CONTENT => Ok(None),
        StatusCode::OK => serde_json::from_slice(answer.body())
            .map(Some)
            .map_err(|error| error.to_string()),
        status => Err(format!("the hub answers {status}")),
    }
}

/// Follows the site's ConfigMap. Without an answer the last limits stay. The first answer sets `is_known`, be it a refusal.
async fn poll_site(
    client: KubeClient,
    site: watch::Sender<Arc<SiteLimits>>,
    permits: Arc<Semaphore>,
    is_known: watch::Sender<bool>,
) {
    let path = format!("/api/v1/namespaces/{DELIVERY_NAMESPACE}/configmaps/fairlead-delivery");
    let mut concurrency = SiteLimits::default().concurrency;
    loop {
        match client.get(&path).await {
            Err(error) => {
                debug!(%error, "limits of the site not read");
                if !error.is_unavailable() {
                    is_known.send_replace(true);
                } else if !*is_known.borrow() {
                    sleep(SITE_RETRY_INTERVAL).await;
                    continue;
                }
            }
            Ok(found) => {
                let limits = SiteLimits::of(found.as_ref());
                match limits.concurrency.checked_sub(concurrency) {
                    Some(more) => {
                        permits.add_permits(more);
                        concurrency = limits.concurrency;
                    }
                    // Permits of running work cannot be taken away yet; the next look does.
                    None => concurrency -= permits.forget_permits(concurrency - limits.concurrency),
                }
                site.send_if_modified(|current| {
                    let is_new = **current != limits;
                    if is_new {
                        *current = Arc::new(limits);
                    }
                    is_new
                });
                is_known.send_replace(true);
            }
        }
        sleep(SITE_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests;
