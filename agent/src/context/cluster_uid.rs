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

const NAMESPACE_PATH: &str = "/api/v1/namespaces/kube-system";
const FETCH_BACKOFF_MIN: Duration = Duration::from_millis(250);
const FETCH_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// What the API server does not let this agent know, a site operator has to change.
const FORBIDDEN_RETRY_INTERVAL: Duration = Duration::from_secs(600);
/// How long the first answer is waited for before the agent goes on without.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UidState {
    /// The API server has been asked for the first time.
    Pending,
    /// It has not told it: it cannot be reached, or does not let this agent know.
    Unavailable,
    Known(ClusterUid),
}

impl UidState {
    pub(crate) fn known(&self) -> Option<ClusterUid> {
        match self {
            UidState::Known(uid) => Some(uid.clone()),
            _ => None,
        }
    }
}

/// The UID, if the API server tells it soon.
pub(crate) async fn wait_briefly(mut uid: watch::Receiver<UidState>) -> Option<ClusterUid> {
    let answered = timeout(
        FIRST_ANSWER_TIMEOUT,
        uid.wait_for(|uid| *uid != UidState::Pending),
    )
    .await;
    answered.ok()?.ok()?.known()
}

/// Asks until it is known.
pub(crate) async fn poll(upstream: Arc<Upstream>, state: watch::Sender<UidState>) {
    let mut backoff = Backoff::new(FETCH_BACKOFF_MIN, FETCH_BACKOFF_MAX);
    loop {
        let wait = match fetch(&upstream).await {
            Ok(Some(uid)) => {
                info!(%uid, "the cluster's namespace kube-system");
                state.send_replace(UidState::Known(uid));
                return;
            }
            Ok(None) => {
                let next = "apply the current install manifest, which allows it";
                // A clone of this cluster's identity goes unnoticed until then, and nothing else is amiss.
                warn!(next, "the API server does not say which cluster this is");
                state.send_replace(UidState::Unavailable);
                FORBIDDEN_RETRY_INTERVAL
            }
            Err(()) => {
                state.send_replace(UidState::Unavailable);
                backoff.next(chance()).max(FETCH_BACKOFF_MIN)
            }
        };
        sleep(wait).await;
    }
}

/// None where the API server answers, but not this. What is wrong with an API server that does not, its probes tell.
async fn fetch(upstream: &Upstream) -> Result<Option<ClusterUid>, ()> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: ClusterUid,
    }
    let (status, body) = upstream
        .request(Method::GET, NAMESPACE_PATH, None)
        .await
        .map_err(drop)?;
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
