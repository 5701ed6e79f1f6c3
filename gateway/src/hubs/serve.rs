//! Serves a session that another hub has opened here. Its certificate is that of a hub, which no agent and no client has.

use std::{
    io,
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use fairlead_api::{Code, Failure, hop};
use fairlead_dialer::{CloseReason, LinkState, Session};
use fairlead_exchange::{Body, serve};
use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::task::JoinSet;
use tracing::{debug, info};

use super::{presence::activity_here, relay};
use crate::{
    agents::lifetime::close,
    http::{body, panic},
    hub::Hub,
    metrics::HTTP_VIOLATION,
};

/// Another hub at the other end of a session.
pub(crate) struct PeerHub {
    pub(crate) from: IpAddr,
    /// From its hello.
    names: OnceLock<Arc<HubNames>>,
}

/// Name of a hub among the hubs of the database, and the same as a caller.
pub(super) struct HubNames {
    pub(super) name: String,
    pub(super) caller: String,
}

impl PeerHub {
    pub(crate) fn name(&self) -> Option<&str> {
        Some(&self.names()?.name)
    }

    pub(super) fn names(&self) -> Option<&Arc<HubNames>> {
        self.names.get()
    }
}

/// Serves the session until it ends. While this hub drains, that is after the last session of an agent.
pub(crate) async fn run(hub: &Arc<Hub>, session: Session, from: IpAddr) {
    let peer = Arc::new(PeerHub {
        from,
        names: OnceLock::new(),
    });
    info!(peer.ip = %from, "session of another hub opened");
    let mut link = session.link();
    let reason = tokio::select! {
        cause = session.closed() => {
            info!(peer.ip = %from, hub = peer.name(), %cause, "session of another hub ended");
            return;
        }
        () = serve_streams(hub, &session, &peer) => CloseReason::Done,
        // The other hub opens a new session, so nothing resumes this one.
        Ok(_) = link.wait_for(|link| *link != LinkState::Up) => CloseReason::Done,
        () = hub.sessions_ended.cancelled() => CloseReason::Draining,
    };
    let cause = close(&session, reason).await;
    info!(peer.ip = %from, hub = peer.name(), %cause, "session of another hub ended");
}

async fn serve_streams(hub: &Arc<Hub>, session: &Session, peer: &Arc<PeerHub>) {
    let mut streams = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = session.accept() => stream,
            Some(_) = streams.join_next() => continue,
        };
        let Some(stream) = stream else {
            return;
        };
        let (hub, peer) = (Arc::clone(hub), Arc::clone(peer));
        streams.spawn(async move {
            let metrics = Arc::clone(&hub.metrics);
            let served = serve(stream, move |request| {
                // Boxed: most streams idle.
                Box::pin(answer(Arc::clone(&hub), Arc::clone(&peer), request))
            });
            if let Err(error) = served.await {
                debug!(%error, "stream of another hub broke");
                if error.kind() == io::ErrorKind::InvalidData {
                    metrics.violation(HTTP_VIOLATION);
                }
            }
        });
    }
}

async fn answer(hub: Arc<Hub>, peer: Arc<PeerHub>, request: Request<Body>) -> Response<Body> {
    let handled = AssertUnwindSafe(handle(&hub, &peer, request)).catch_unwind();
    let result = handled
        .await
        .unwrap_or_else(|panic| Err(panic::failure_of("of another hub", panic.as_ref())));
    result.unwrap_or_else(|failure| failed(&failure))
}

async fn handle(
    hub: &Arc<Hub>,
    peer: &Arc<PeerHub>,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    if request.headers().contains_key(hop::CLUSTER) {
        return relay::relay(hub, peer, request).await;
    }
    let path = request.uri().path();
    if request.method() == Method::POST && path == hop::HELLO_PATH {
        return hello(hub, peer, request).await;
    }
    if request.method() == Method::POST && path == hop::ACTIVITY_PATH {
        return activity(hub, request).await;
    }
    if request.method() == Method::POST && path == hop::ENDED_PATH {
        return ended(hub, peer, request).await;
    }
    match path.strip_prefix(hop::SESSIONS_PATH) {
        Some(id) if request.method() == Method::GET => sessions(hub, id),
        _ => Err(Code::NoSuchRoute.into()),
    }
}

async fn hello(
    hub: &Hub,
    peer: &PeerHub,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let bad = |detail: &str| Failure::because(Code::BadRequest, detail);
    let text = body::read(request.into_body(), hop::MAX_HELLO_BYTES).await;
    let text = text.ok_or_else(|| bad("the hello is incomplete"))?;
    let hello: hop::HubHello =
        serde_json::from_slice(&text).map_err(|_| bad("the hello is invalid"))?;
    let caller = format!("hub:{}", hello.hub);
    let name = hello.hub;
    let _ = peer.names.set(Arc::new(HubNames { name, caller }));
    let own = hop::HubHello {
        hub: hub.own_name.as_ref().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    json(serde_json::to_vec(&own))
}

fn sessions(hub: &Hub, id: &str) -> Result<Response<Body>, Failure> {
    let cluster = id.parse();
    let cluster = cluster.map_err(|_| Failure::new(Code::NoSuchCluster))?;
    let here = hop::HubSessions {
        items: hub.sessions.registered(&cluster),
    };
    json(serde_json::to_vec(&here))
}

async fn activity(hub: &Hub, request: Request<Body>) -> Result<Response<Body>, Failure> {
    let bad = |detail: &str| Failure::because(Code::BadRequest, detail);
    let text = body::read(request.into_body(), hop::MAX_ACTIVITY_BYTES).await;
    let text = text.ok_or_else(|| bad("the request for activity is incomplete"))?;
    let asked: hop::ActivityRequest =
        serde_json::from_slice(&text).map_err(|_| bad("the request for activity is invalid"))?;
    if asked.clusters.len() > hop::MAX_ACTIVITY_CLUSTERS {
        return Err(bad("the request for activity has too many clusters"));
    }
    json(serde_json::to_vec(&activity_here(
        &hub.sessions,
        &asked.clusters,
    )))
}

/// Ends requests of this hub with the reason that the hub with their session gives.
async fn ended(
    hub: &Hub,
    peer: &PeerHub,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let bad = |detail: &str| Failure::because(Code::BadRequest, detail);
    let text = body::read(request.into_body(), hop::MAX_ENDED_BYTES).await;
    let text = text.ok_or_else(|| bad("the list of ended requests is incomplete"))?;
    let ended: hop::EndedRequests =
        serde_json::from_slice(&text).map_err(|_| bad("the list of ended requests is invalid"))?;
    let failure = Failure::because(Code::AccessEnded, ended.cause);
    let ids = ended.ids.into_iter().collect();
    let count = hub.requests.end_ids(&ids, &failure);
    info!(
        hub = peer.name(),
        count,
        cause = failure.cause,
        "forwarded requests ended; the identity of their agent is void"
    );
    Ok(Response::new(body::empty()))
}

fn json(encoded: serde_json::Result<Vec<u8>>) -> Result<Response<Body>, Failure> {
    let json = encoded.map_err(|error| Failure::because(Code::Internal, error))?;
    let mut response = Response::new(body::full(json));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// A failure for the other hub, which makes the client's answer of it.
fn failed(failure: &Failure) -> Response<Body> {
    let mut response = Response::new(body::full(failure.cause.clone()));
    *response.status_mut() =
        StatusCode::from_u16(failure.code.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
    if let Ok(code) = HeaderValue::from_str(&failure.code.to_string()) {
        response.headers_mut().insert(hop::HUB_CODE, code);
    }
    response
}
