//! Which Kubernetes cluster this is: the UID of its namespace `kube-system`, asked of the API server until it has told it. The
//! hub finds out by it when an identity was copied into another cluster.

use std::{sync::Arc, time::Duration};

use fairlead_api::ClusterUid;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    backoff::{Backoff, chance},
    upstream::Upstream,
};

const PATH: &str = "/api/v1/namespaces/kube-system";
const FIRST: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(5);
/// What the API server does not let this agent know, a site operator has to change.
const SLOW: Duration = Duration::from_secs(600);
/// How long the first answer is waited for before the agent goes on without.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Uid {
    /// The API server has been asked for the first time.
    Asking,
    /// It has not told it: it cannot be reached, or does not let this agent know.
    Untold,
    Known(ClusterUid),
}

impl Uid {
    pub(crate) fn known(&self) -> Option<ClusterUid> {
        match self {
            Uid::Known(uid) => Some(uid.clone()),
            _ => None,
        }
    }
}

/// The UID, if the API server tells it soon.
pub(crate) async fn soon(mut uid: watch::Receiver<Uid>) -> Option<ClusterUid> {
    let told = timeout(PATIENCE, uid.wait_for(|uid| *uid != Uid::Asking)).await;
    told.ok()?.ok()?.known()
}

/// Asks until it is known.
pub(crate) async fn find(upstream: Arc<Upstream>, found: watch::Sender<Uid>) {
    let mut backoff = Backoff::new(FIRST, CAP);
    loop {
        let wait = match ask(&upstream).await {
            Ok(Some(uid)) => {
                info!(%uid, "the cluster's namespace kube-system");
                found.send_replace(Uid::Known(uid));
                return;
            }
            Ok(None) => {
                let next = "apply the current install manifest, which allows it";
                // A clone of this cluster's identity goes unnoticed until then, and nothing else is amiss.
                warn!(next, "the API server does not say which cluster this is");
                found.send_replace(Uid::Untold);
                SLOW
            }
            Err(()) => {
                found.send_replace(Uid::Untold);
                backoff.next(chance()).max(FIRST)
            }
        };
        sleep(wait).await;
    }
}

/// None where the API server answers, but not this. What is wrong with an API server that does not, its probes tell.
async fn ask(upstream: &Upstream) -> Result<Option<ClusterUid>, ()> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: ClusterUid,
    }
    let (status, body) = upstream.ask(Method::GET, PATH, None).await.map_err(drop)?;
    match status {
        StatusCode::OK => Ok(serde_json::from_slice(&body)
            .ok()
            .map(|namespace: Namespace| namespace.metadata.uid)),
        // 401: the token is about to be rotated; 5xx: the API server is on its way up.
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => Err(()),
        status if status.is_server_error() => Err(()),
        _ => Ok(None),
    }
}
