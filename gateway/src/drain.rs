//! The first part of a hub's drain.
//!
//! A load balancer needs some rounds of its health check to notice that a hub drains. Until then a hub among several serves
//! new requests, over sessions of other hubs where it can. A single hub refuses them at once: no other one could take them.

use std::sync::Arc;

use http::Request;
use tokio::time::sleep;
use tracing::info;

use crate::hub::Hub;

/// Path of the front for health checks of load balancers.
const HEALTH_PATH: &str = "/healthz";

/// Ends the service of new requests after the drain delay.
pub(crate) async fn close_after_delay(hub: Arc<Hub>) {
    hub.process.draining().await;
    if !hub.links.is_empty() {
        let delay = hub.drain_delay;
        info!(
            delay.seconds = delay.as_secs_f64(),
            "new requests are served until the end of the drain delay"
        );
        sleep(delay).await;
    }
    hub.closing.cancel();
}

/// True for a health check of a draining hub.
pub(crate) fn is_unhealthy<B>(hub: &Hub, request: &Request<B>) -> bool {
    hub.process.is_draining() && request.uri().path() == HEALTH_PATH
}
