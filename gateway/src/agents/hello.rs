//! Receives an agent's hello, which registers its session.
//!
//! An agent with its identity in another Kubernetes cluster is a clone, and is rejected here, before it replaces any
//! session.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure,
    hello::{Hello, HelloResponse, MAX_HELLO_BYTES, printable},
};
use fairlead_dialer::CloseReason;
use fairlead_exchange::Body;
use fairlead_seam::{DirectoryError, Recognition};
use http::{HeaderValue, Request, Response, header};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{
    agents::{entry::SessionEntry, group::SessionIdentity},
    http::body,
    hub::Hub,
};

/// Deadline for the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Registers the session.
///
/// # Errors
/// `FL-1304` for an invalid hello, `FL-2112` for a clone, and the errors of the directory.
pub(crate) async fn receive(
    hub: &Hub,
    entry: &Arc<SessionEntry>,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let bad = |detail: &str| Failure::because(Code::BadRequest, detail);
    let read = timeout(
        BODY_TIMEOUT,
        body::read(request.into_body(), MAX_HELLO_BYTES),
    )
    .await;
    let text = read
        .ok()
        .flatten()
        .ok_or_else(|| bad("the hello is incomplete"))?;
    let hello: Hello = serde_json::from_slice(&text).map_err(|_| bad("the hello is invalid"))?;
    let uid = hello.cluster_uid.as_ref();
    let recognised = hub
        .seam
        .directory
        .recognise(entry.identity(), uid, entry.from())
        .await;
    let recognition = match recognised {
        Ok(recognition) => recognition,
        Err(error @ DirectoryError::Cloned(_)) => {
            warn!(cluster = %entry.cluster(), peer.ip = %entry.from(), uid = uid.map(tracing::field::display),
                "clone rejected: an agent with this cluster's identity runs in another cluster");
            hub.metrics.clones.inc();
            let failure = Failure::from(error);
            hub.sessions
                .evict(entry, CloseReason::Cloned, Some(&failure));
            return Err(failure);
        }
        Err(error) => return Err(error.into()),
    };
    let again = entry.is_registered();
    let version = printable(&hello.agent_version);
    let identity = SessionIdentity {
        version: version.as_str().into(),
        name: (hello.instance, hello.link),
        uid: hello.cluster_uid,
        known: recognition == Recognition::Known,
    };
    hub.sessions.register(entry, identity)?;
    info!(cluster = %entry.cluster(), instance = %hello.instance, link = %hello.link, known = recognition == Recognition::Known,
        agent.version = version, again, "agent registered");
    let own = hub.seam.directory.agent_hubs().own;
    let json = serde_json::to_vec(&HelloResponse { hub: own })
        .map_err(|error| Failure::because(Code::Internal, error))?;
    let mut response = Response::new(body::full(json));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
