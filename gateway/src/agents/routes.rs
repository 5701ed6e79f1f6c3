//! Requests of agents to modules, over streams that the agents open.
//!
//! A peer without an identity reaches only the enrolment, the adoption and the check, one with an expired identity only the renewal. An agent sends
//! its hello before anything else but a check.

use std::{io, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use fairlead_api::{
    Code, Failure,
    adoption::ADOPT_PATH,
    enroll::{CHECK_PATH, ENROLL_PATH, Issued, MAX_ENROLL_BODY_BYTES, RENEW_PATH},
    headers::CHANGED_PATH,
    hello::HELLO_PATH,
};
use fairlead_dialer::Session;
use fairlead_exchange::{Body, serve};
use fairlead_seam::{AgentAddress, AgentPeer};
use futures_util::FutureExt;
use http::{Method, Request, Response, StatusCode};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use tracing::debug;

use crate::{
    agents::{
        audit::AuditedRequest, entry::SessionEntry, hello, outbound, stream_peer::StreamPeer,
    },
    http::{
        body,
        failure::{self, Shape},
        modules, panic, path,
    },
    hub::Hub,
    metrics::HTTP_VIOLATION,
};

/// Limit of a renewal's answer, in bytes: a certificate chain and a few names.
const MAX_ISSUED_BYTES: usize = 16 * MAX_ENROLL_BODY_BYTES;

/// Serves streams until the session ends.
pub(crate) async fn serve_streams(hub: &Arc<Hub>, session: &Session, stream_peer: StreamPeer) {
    let mut streams = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = session.accept() => stream,
            Some(_) = streams.join_next() => continue,
        };
        let Some(stream) = stream else {
            return;
        };
        let (hub, stream_peer) = (Arc::clone(hub), stream_peer.clone());
        let metrics = Arc::clone(&hub.metrics);
        streams.spawn(async move {
            let served = serve(stream, move |request| {
                // Boxed: a stream of an agent idles for a minute without a request.
                Box::pin(answer(Arc::clone(&hub), stream_peer.clone(), request))
            });
            if let Err(error) = served.await {
                debug!(%error, "agent stream broke");
                if error.kind() == io::ErrorKind::InvalidData {
                    metrics.violation(HTTP_VIOLATION);
                }
            }
        });
    }
}

async fn answer(hub: Arc<Hub>, stream_peer: StreamPeer, request: Request<Body>) -> Response<Body> {
    let audited = AuditedRequest::begin(&hub, &stream_peer, &request);
    let handled = AssertUnwindSafe(handle(&hub, &stream_peer, request)).catch_unwind();
    let result = handled
        .await
        .unwrap_or_else(|panic| Err(panic::failure_of("of an agent", panic.as_ref())));
    let (response, code) = match result {
        Ok(response) => failure::render_embedded(response, Shape::Reason),
        Err(failure) => (failure::render(&failure, Shape::Reason), Some(failure.code)),
    };
    if let Some(audited) = audited {
        audited.end(&response, code);
    }
    response
}

async fn handle(
    hub: &Arc<Hub>,
    stream_peer: &StreamPeer,
    mut request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    if request.method() == Method::CONNECT {
        return match stream_peer {
            StreamPeer::Agent(entry) if entry.is_registered() => {
                outbound::connect(hub, entry, request).await
            }
            StreamPeer::Anonymous(..) => Err(Code::EnrolOnly.into()),
            StreamPeer::Agent(_) | StreamPeer::Lapsed(..) => Err(Code::BadRequest.into()),
        };
    }
    path::check(request.uri().path())?;
    let posts = request.method() == Method::POST;
    let enrols = posts && [ENROLL_PATH, ADOPT_PATH].contains(&request.uri().path());
    let checks = posts && request.uri().path() == CHECK_PATH;
    let renews = request.method() == Method::POST && request.uri().path() == RENEW_PATH;
    let greets = request.method() == Method::POST && request.uri().path() == HELLO_PATH;
    let peer = match stream_peer {
        StreamPeer::Anonymous(..) if !enrols && !checks => return Err(Code::EnrolOnly.into()),
        StreamPeer::Anonymous(from, seen) => {
            seen.notify_one();
            request.extensions_mut().insert(AgentAddress(*from));
            AgentPeer::Anonymous
        }
        StreamPeer::Lapsed(..) if !renews => {
            let detail = "it may only be renewed";
            return Err(Failure::because(Code::CertificateExpired, detail));
        }
        StreamPeer::Lapsed(identity, _, seen) => {
            seen.notify_one();
            AgentPeer::Lapsed(Arc::clone(identity))
        }
        StreamPeer::Agent(entry) if greets => return hello::receive(hub, entry, request).await,
        // A doctor registers no session.
        StreamPeer::Agent(entry) if !entry.is_registered() && !checks => {
            let detail = "an agent must send its hello first";
            return Err(Failure::because(Code::BadRequest, detail));
        }
        StreamPeer::Agent(entry) if posts && request.uri().path() == CHANGED_PATH => {
            entry.report_change();
            let mut response = Response::new(body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        }
        StreamPeer::Agent(entry) => AgentPeer::Agent(Arc::clone(entry.identity())),
    };
    hub.check_audit()?;
    let bodies = match &peer {
        AgentPeer::Anonymous => hub.bodies.for_agent("", "without identity"),
        AgentPeer::Lapsed(identity) | AgentPeer::Agent(identity) => hub
            .bodies
            .for_agent(identity.tenant.as_str(), identity.cluster.as_str()),
    };
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(bodies.clone());
    let response = modules::call(hub.agents.clone(), request).await?;
    drop(bodies);
    match stream_peer {
        StreamPeer::Anonymous(from, _) => count_wrong_secret(hub, *from, response),
        StreamPeer::Agent(entry) if renews && response.status() == StatusCode::OK => {
            note_renewal(entry, response).await
        }
        _ => Ok(response),
    }
}

/// Wrong bootstrap tokens count against the same limit as all other secrets.
fn count_wrong_secret(
    hub: &Hub,
    from: IpAddr,
    response: Response<Body>,
) -> Result<Response<Body>, Failure> {
    // A module's answer is HTTP: the code in it is all that the gateway knows of the error.
    let failure = response.extensions().get::<Failure>();
    if failure.is_some_and(|failure| failure.code == Code::BootstrapUnknown) {
        hub.wrong_tokens.count(from)?;
    }
    Ok(response)
}

/// Extends the session's validity to that of the certificate in the answer.
async fn note_renewal(
    entry: &SessionEntry,
    response: Response<Body>,
) -> Result<Response<Body>, Failure> {
    let (head, answer) = response.into_parts();
    let answer = body::read(answer, MAX_ISSUED_BYTES)
        .await
        .ok_or_else(|| Failure::because(Code::Internal, "a renewal's answer is too large"))?;
    if let Some(until) = not_after(&answer) {
        entry.extend_validity(until);
    }
    Ok(Response::from_parts(head, body::full(answer)))
}

fn not_after(answer: &[u8]) -> Option<OffsetDateTime> {
    serde_json::from_slice::<Issued>(answer)
        .ok()
        .map(|issued| issued.not_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_read_from_an_issued_certificate() {
        let issued = br#"{"cluster":"c-a","tenant":"t-a","certificate":"","ca":"",
            "notBefore":"2026-11-21T10:00:00Z","notAfter":"2026-11-22T10:00:00Z"}"#;
        assert_eq!(not_after(issued).unwrap().unix_timestamp(), 1_795_341_600);
        assert_eq!(not_after(b"{}"), None);
        assert_eq!(not_after(b"renewed"), None);
    }
}
