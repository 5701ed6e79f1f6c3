//! Desired state of the cluster: pulled when a probe of the hub names another one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::delivery::{DELIVERY_PATH, DesiredState, MAX_DESIRED_STATE_BYTES};
use http::{Request, StatusCode, header};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info};

use crate::hub::HubConnection;

/// Longest time between two requests.
const FETCH_INTERVAL_MAX: Duration = Duration::from_secs(1800);
const FETCH_BACKOFF_MIN: Duration = Duration::from_millis(250);
const FETCH_BACKOFF_MAX: Duration = Duration::from_secs(60);
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);

/// Desired state; none until the hub has answered once.
pub(crate) type Desired = Option<Arc<DesiredState>>;

/// Follows the desired state until the receivers are gone. `wanted`: ETag of the last probe.
pub(crate) async fn follow(
    hub: Arc<dyn HubConnection>,
    mut wanted: watch::Receiver<Option<String>>,
    desired: watch::Sender<Desired>,
) {
    let mut known = None::<String>;
    let mut backoff = FETCH_BACKOFF_MIN;
    loop {
        wanted.mark_unchanged();
        let fetched = timeout(REQUEST_DEADLINE, fetch(&*hub, known.as_deref())).await;
        match fetched.unwrap_or_else(|_| Err("the hub did not answer".to_owned())) {
            Ok(Some((etag, state))) => {
                info!(
                    revision = etag,
                    bundles = state.bundles.len(),
                    "desired deliveries received"
                );
                known = Some(etag);
                desired.send_replace(Some(Arc::new(state)));
            }
            Ok(None) => {}
            Err(cause) => {
                debug!(cause, "desired deliveries not received; retrying");
                pause(&mut wanted, backoff).await;
                backoff = (backoff * 2).min(FETCH_BACKOFF_MAX);
                continue;
            }
        }
        let is_current = |wanted: &Option<String>| wanted.is_none() || *wanted == known;
        if !is_current(&wanted.borrow()) {
            // Another hub may not know the revision yet.
            pause(&mut wanted, backoff).await;
            backoff = (backoff * 2).min(FETCH_BACKOFF_MAX);
            continue;
        }
        backoff = FETCH_BACKOFF_MIN;
        let waiting = wanted.wait_for(|wanted| !is_current(wanted));
        if let Ok(Err(_)) = timeout(FETCH_INTERVAL_MAX, waiting).await {
            return;
        }
    }
}

/// Waits for `long`, or until a probe names another state: then the hub answers again.
async fn pause(wanted: &mut watch::Receiver<Option<String>>, long: Duration) {
    sleep(FETCH_BACKOFF_MIN).await;
    let _ = timeout(long.saturating_sub(FETCH_BACKOFF_MIN), wanted.changed()).await;
}

/// Requests the desired state. None if it is the known one.
async fn fetch(
    hub: &dyn HubConnection,
    known: Option<&str>,
) -> Result<Option<(String, DesiredState)>, String> {
    let mut request = Request::get(DELIVERY_PATH);
    if let Some(known) = known {
        request = request.header(header::IF_NONE_MATCH, format!("\"{known}\""));
    }
    let request = request
        .body(Bytes::new())
        .map_err(|error| error.to_string())?;
    let answer = hub.send(request, MAX_DESIRED_STATE_BYTES).await;
    let answer = answer.map_err(|error| error.0)?;
    match answer.status() {
        StatusCode::NOT_MODIFIED => return Ok(None),
        StatusCode::OK => {}
        status => return Err(format!("the hub answers {status}")),
    }
    let etag = answer.headers().get(header::ETAG);
    let etag = etag.and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    let etag = etag.trim_matches('"').to_owned();
    let state = serde_json::from_slice(answer.body()).map_err(|error| error.to_string())?;
    Ok(Some((etag, state)))
}

#[cfg(test)]
mod tests;
