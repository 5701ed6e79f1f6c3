//! UID of the cluster's namespace `kube-system`, polled until the API server returns it. By this UID the hub
//! detects an identity copied into another cluster.

use std::{sync::Arc, time::Duration};

use fairlead_api::ClusterUid;
use fairlead_apiserver::Upstream;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::backoff::{Backoff, chance};

const NAMESPACE_PATH: &str = "/api/v1/namespaces/kube-system";
const FETCH_BACKOFF_MIN: Duration = Duration::from_millis(250);
const FETCH_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Retry interval while RBAC forbids the request: only a site operator can change that.
const FORBIDDEN_RETRY_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum wait for the first answer.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Knowledge of the UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UidState {
    /// No answer yet to the first request.
    Pending,
    /// The API server is unreachable or forbids the request.
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

/// UID, if the API server returns it soon.
pub(crate) async fn wait_briefly(mut uid: watch::Receiver<UidState>) -> Option<ClusterUid> {
    let answered = timeout(
        FIRST_ANSWER_TIMEOUT,
        uid.wait_for(|uid| *uid != UidState::Pending),
    )
    .await;
    answered.ok()?.ok()?.known()
}

/// Polls until the UID is known.
pub(crate) async fn poll(upstream: Arc<Upstream>, state: watch::Sender<UidState>) {
    let mut backoff = Backoff::new(FETCH_BACKOFF_MIN, FETCH_BACKOFF_MAX);
    loop {
        let wait = match fetch(&upstream).await {
            Ok(Some(uid)) => {
                info!(%uid, "cluster UID found");
                state.send_replace(UidState::Known(uid));
                return;
            }
            Ok(None) => {
                let next = "apply the current install manifest, which allows it";
                // Until then the hub cannot detect a copied identity; nothing else is affected.
                warn!(next, "cluster UID not available");
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

/// None if the API server answers without the UID. Its health is the subject of the probes.
async fn fetch(upstream: &Upstream) -> Result<Option<ClusterUid>, ()> {
    #[derive(Deserialize)]
    struct NamespaceUid {
        metadata: UidMetadata,
    }
    #[derive(Deserialize)]
    struct UidMetadata {
        uid: ClusterUid,
    }
    let (status, body) = upstream
        .request(Method::GET, NAMESPACE_PATH, None)
        .await
        .map_err(drop)?;
    match status {
        StatusCode::OK => Ok(serde_json::from_slice(&body)
            .ok()
            .map(|namespace: NamespaceUid| namespace.metadata.uid)),
        // 401: the token is about to be rotated; 5xx: the API server is starting.
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => Err(()),
        status if status.is_server_error() => Err(()),
        _ => Ok(None),
    }
}
