//! The step that accepts an agent: from an upgrade request to a session with an authenticated peer.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_certs::{agent_identity, hub_expiry};
use fairlead_dialer::{
    Accepted, Arrival, CloseReason, Limits,
    accept::{accept_resumable, resume_only, upgrade_response},
};
use fairlead_exchange::{Body, OnUpgrade};
use fairlead_seam::DirectoryError;
use http::Response;
use time::OffsetDateTime;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::{
    agents::{entry::SessionEntry, lifetime},
    front::{record::Inbound, socket::agent_connection},
    http::{
        body,
        failure::{self, Shape, accepted},
    },
    hub::Hub,
    hubs,
    metrics::{HandshakeOutcome, TlsLayer},
};

/// Deadline for the upgrade to take effect, and for the inner TLS after it.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Upgrades the connection of an agent and runs its session in a task.
///
/// # Errors
/// `FL-1304` for anything but our WebSocket.
pub(crate) fn connect(hub: &Arc<Hub>, inbound: Box<Inbound>) -> Result<Response<Body>, Failure> {
    let mut request = inbound.request;
    let head = match upgrade_response(&request) {
        Ok(head) => head,
        Err(status) => {
            let failure = Failure::because(
                Code::BadRequest,
                "agents connect here, by a WebSocket with subprotocol fairlead.v1",
            );
            inbound.record.set_code(failure.code);
            let shape = Shape::Status(accepted(request.headers()));
            let mut response = failure::render(&failure, shape);
            *response.status_mut() = status;
            return Ok(response);
        }
    };
    let upgraded = OnUpgrade::take(&mut request);
    let peer = inbound.connection.peer;
    let hub = Arc::clone(hub);
    let owner = hub.process.clone();
    owner.spawn(async move {
        // Boxed: the task of a session would keep the size of the handshake for its whole life.
        let (outcome, arrived) = Box::pin(handshake(&hub, upgraded, peer.ip())).await;
        hub.metrics.handshake(TlsLayer::Session, outcome);
        match arrived {
            Ok(Arrival::New(accepted)) => {
                let admitted = Box::pin(admit(&hub, accepted, peer.ip())).await;
                if let Some(entry) = admitted {
                    lifetime::agent(&hub, entry).await;
                }
            }
            // The session's own task continues over this link, and logs it.
            Ok(Arrival::Resumed) => {}
            Ok(Arrival::Declined) => {
                debug!(peer.ip = %peer.ip(), "agent resumes a session that is unknown here");
            }
            Err(cause) => info!(peer.ip = %peer.ip(), cause, "agent handshake failed"),
        }
    });
    Ok(head.map(|()| body::empty()))
}

async fn handshake(
    hub: &Hub,
    upgraded: OnUpgrade,
    from: IpAddr,
) -> (HandshakeOutcome, Result<Arrival, String>) {
    let slot = hub.session_handshakes.acquire(from);
    let shaking = async {
        let io = match timeout(UPGRADE_TIMEOUT, upgraded).await {
            Ok(Ok(upgraded)) => match agent_connection(upgraded) {
                Ok(io) => io,
                Err(cause) => return (HandshakeOutcome::Failed, Err(cause.to_owned())),
            },
            Ok(Err(error)) => return (HandshakeOutcome::Failed, Err(error.to_string())),
            Err(_) => {
                return (
                    HandshakeOutcome::Timeout,
                    Err("it did not upgrade in time".to_owned()),
                );
            }
        };
        let tls = Arc::clone(&hub.session_tls.borrow());
        let limits = Limits {
            handshake: HANDSHAKE_TIMEOUT,
            resume_window: hub.resume_window,
            memory: hub.reserve.clone(),
            ..Limits::default()
        };
        let arriving = async {
            if !hub.process.is_draining() {
                // The handshake itself reports the reason to the agent.
                return accept_resumable(io, tls, limits, &hub.resumable, slot.evicted())
                    .await
                    .map(Some);
            }
            let came_back = resume_only(io, &limits, &hub.resumable).await?;
            Ok(came_back.then_some(Arrival::Resumed))
        };
        // The handshake has a deadline of its own; this one is a second line of defence.
        match timeout(2 * HANDSHAKE_TIMEOUT, arriving).await {
            Ok(Ok(Some(arrived @ Arrival::Declined))) => (HandshakeOutcome::Declined, Ok(arrived)),
            Ok(Ok(Some(arrived))) => (HandshakeOutcome::Ok, Ok(arrived)),
            Ok(Ok(None)) => refused(),
            Ok(Err(error)) if error.code == Code::HandshakesFull => evicted(),
            Ok(Err(error)) => (HandshakeOutcome::Failed, Err(error.to_string())),
            Err(_) => (
                HandshakeOutcome::Timeout,
                Err("its handshake took too long".to_owned()),
            ),
        }
    };
    tokio::select! {
        biased;
        done = shaking => done,
        () = slot.evicted() => evicted(),
        () = hub.sessions_ended.cancelled() => refused(),
    }
}

fn evicted() -> (HandshakeOutcome, Result<Arrival, String>) {
    let cause = "too many handshakes";
    (HandshakeOutcome::Evicted, Err(cause.to_owned()))
}

fn refused() -> (HandshakeOutcome, Result<Arrival, String>) {
    let cause = "the hub is shutting down";
    (HandshakeOutcome::Refused, Err(cause.to_owned()))
}

/// Authenticates and admits the peer; `None` if it was rejected, or was a visitor and has gone.
async fn admit(hub: &Arc<Hub>, accepted: Accepted, from: IpAddr) -> Option<Arc<SessionEntry>> {
    let Accepted {
        session,
        certificates,
    } = accepted;
    if certificates.is_empty() {
        lifetime::visitor(hub, session, from, None).await;
        return None;
    }
    if let Some(expires) = hub_expiry(&certificates, &hub.trust_domain) {
        match expires > OffsetDateTime::now_utc() {
            true => hubs::serve::run(hub, session, from).await,
            false => drop(lifetime::close(&session, CloseReason::Expired).await),
        }
        return None;
    }
    let identity = agent_identity(&certificates, &hub.trust_domain);
    let admitted = match identity {
        Ok(identity) => match hub.seam.directory.admit(&identity).await {
            Ok(()) => Ok(identity),
            Err(error) => Err((reason_of(&error), Failure::from(error))),
        },
        Err(error) => Err((CloseReason::Protocol, Failure::from(error))),
    };
    match admitted {
        Ok(identity) if identity.not_after <= OffsetDateTime::now_utc() => {
            lifetime::visitor(hub, session, from, Some(identity)).await;
        }
        Ok(identity) => {
            return Some(hub.sessions.open(session, identity, from));
        }
        Err((reason, failure)) => {
            info!(code = %failure.code, cause = failure.cause, "agent not admitted");
            lifetime::close(&session, reason).await;
        }
    }
    None
}

/// The reason to close for this error. An agent that cannot change anything about it retries later.
const fn reason_of(error: &DirectoryError) -> CloseReason {
    match error {
        DirectoryError::ClusterDeleted => CloseReason::Deleted,
        DirectoryError::Unavailable(_) => CloseReason::Draining,
        DirectoryError::Revoked(_) => CloseReason::Revoked,
        DirectoryError::Cloned(_) => CloseReason::Protocol,
    }
}
