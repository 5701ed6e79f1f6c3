//! The life of one session, from its inner TLS to its end. Only the session's own task closes it.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fairlead_api::{
    Code,
    resources::{ClusterStatus, LastError},
};
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, Session, SessionError};
use fairlead_seam::DirectoryError;
use time::OffsetDateTime;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::info;

use crate::{
    agents::{
        entry::SessionEntry, group::lost_status, probe, routes::serve_streams,
        stream_peer::StreamPeer,
    },
    hub::Hub,
};

/// Time for the requests of a replaced session to finish.
const REPLACED_GRACE: Duration = Duration::from_secs(30);
/// Idle timeout of a peer without a valid identity.
const VISITOR_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Deadline for an agent's hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a rejected agent to read the reason.
const REJECTED_READ_TIME: Duration = Duration::from_secs(1);
/// Deadline for closing, so that the peer receives the reason.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of reading the wall clock and the validity while waiting for an expiry, because the clock may be set and the certificate
/// renewed.
const CLOCK_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Serves a session without an identity, or with an expired one that may be renewed.
pub(crate) async fn visitor(
    hub: &Arc<Hub>,
    session: Session,
    from: IpAddr,
    lapsed: Option<AgentIdentity>,
) {
    let slot = hub.visitors.acquire(from);
    let seen = Arc::new(Notify::new());
    let peer = match lapsed {
        None => StreamPeer::Anonymous(from, Arc::clone(&seen)),
        Some(identity) => StreamPeer::Lapsed(Arc::new(identity), from, Arc::clone(&seen)),
    };
    let idle = async { while timeout(VISITOR_IDLE_TIMEOUT, seen.notified()).await.is_ok() {} };
    let reason = tokio::select! {
        _ = session.closed() => CloseReason::Done,
        () = serve_streams(hub, &session, peer) => CloseReason::Done,
        () = idle => CloseReason::Done,
        () = slot.evicted() => CloseReason::Done,
        () = hub.process.draining() => CloseReason::Draining,
    };
    count(hub, &close(&session, reason).await);
}

fn count(hub: &Hub, error: &SessionError) {
    if let SessionError::Violation { rule, .. } = error {
        hub.metrics.violation(rule);
    }
}

/// Serves a session of an admitted agent.
pub(crate) async fn agent(hub: &Arc<Hub>, entry: Arc<SessionEntry>) {
    let directory = Arc::clone(&hub.seam.directory);
    let session = entry.session();
    info!(cluster = %entry.cluster(), serial = entry.identity().serial, "session opened");
    // A revocation between the first check and the table would have missed this session.
    let still = directory.admit(entry.identity()).await;
    let error = match still {
        Err(DirectoryError::ClusterDeleted) => close(session, CloseReason::Deleted).await,
        Err(DirectoryError::Revoked(_)) => close(session, CloseReason::Revoked).await,
        // If it cannot be checked now, each of the agent's requests checks it again.
        Ok(()) | Err(DirectoryError::Cloned(_) | DirectoryError::Unavailable(_)) => {
            tokio::select! {
                error = session.closed() => error,
                reason = ending(hub, &entry) => close(session, reason).await,
                error = working(hub, &entry) => error,
            }
        }
    };
    count(hub, &error);
    let (end, status) = final_status(&error);
    hub.sessions.remove(&entry, end, status);
    info!(cluster = %entry.cluster(), end, error = %error, "session ended");
}

/// Neither future ends before the session. Both are created here: a future passed as an argument takes its memory
/// twice.
async fn working(hub: &Arc<Hub>, entry: &Arc<SessionEntry>) -> SessionError {
    let session = entry.session();
    tokio::join!(
        serve_streams(hub, session, StreamPeer::Agent(Arc::clone(entry))),
        async {
            entry.registered().await;
            probe::run(hub, entry).await;
        }
    );
    session.closed().await
}

/// Completes with the reason to close the session.
///
/// Each session has this future for its whole life, so rare branches are boxed.
async fn ending(hub: &Hub, entry: &SessionEntry) -> CloseReason {
    let drained = async {
        hub.closing.cancelled().await;
        Box::pin(entry.idle()).await;
    };
    let no_hello = async {
        if Box::pin(sends_hello(hub, entry)).await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        reason = requested_end(entry) => reason,
        () = no_hello => CloseReason::Protocol,
        () = drained => CloseReason::Draining,
        () = expiry(entry) => CloseReason::Expired,
    }
}

/// True if the agent sends its hello in time, and before its cluster opens too many other sessions. Time without a link does not count.
async fn sends_hello(hub: &Hub, entry: &SessionEntry) -> bool {
    let slot = hub.unregistered.enter(entry.cluster().clone());
    let greeting = async {
        while timeout(HELLO_TIMEOUT, entry.registered()).await.is_err() {
            if entry.session().is_up() {
                return false;
            }
            entry.up().await;
        }
        true
    };
    tokio::select! {
        biased;
        greeted = greeting => greeted,
        () = slot.evicted() => false,
    }
}

/// Completes when an end was requested and its grace period is over.
async fn requested_end(entry: &SessionEntry) -> CloseReason {
    let mut reason = None;
    loop {
        let time = async {
            match reason {
                Some(reason) => Box::pin(grace_period(entry, reason)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reason = time => return reason,
            // A new reason replaces the former one.
            other = entry.end_requested(reason) => reason = other,
        }
    }
}

async fn grace_period(entry: &SessionEntry, reason: CloseReason) -> CloseReason {
    match reason {
        // Running requests may finish; new ones go to the session that replaced this one. The replacement may be the
        // same agent, restarted: without a link there is nothing to wait for.
        CloseReason::Replaced => tokio::select! {
            _ = timeout(REPLACED_GRACE, entry.idle()) => {}
            () = entry.down() => {}
        },
        // Time to read the reason.
        CloseReason::Cloned => sleep(REJECTED_READ_TIME).await,
        _ => {}
    }
    reason
}

/// Completes when the certificate has expired without renewal. Validity only grows, so a renewal need not interrupt the wait.
async fn expiry(entry: &SessionEntry) {
    while let Ok(left) = Duration::try_from(entry.valid_until() - OffsetDateTime::now_utc()) {
        sleep(left.min(CLOCK_POLL_INTERVAL)).await;
    }
}

/// Closes the session, and waits until the peer has received the reason.
pub(crate) async fn close(session: &Session, reason: CloseReason) -> SessionError {
    session.close(reason);
    timeout(CLOSE_TIMEOUT, session.closed())
        .await
        .unwrap_or(SessionError::Here(reason))
}

/// Label and final status of a session that has ended.
fn final_status(error: &SessionError) -> (&'static str, ClusterStatus) {
    let (end, code) = match error {
        SessionError::Here(reason) | SessionError::Peer(reason) => match reason {
            CloseReason::Draining => ("draining", Code::Draining),
            CloseReason::Replaced => ("replaced", Code::DialReplaced),
            CloseReason::Deleted => ("deleted", Code::ClusterDeleted),
            CloseReason::Expired => ("expired", Code::CertificateExpired),
            CloseReason::Protocol => ("protocol", Code::DialProtocol),
            CloseReason::Done => ("done", Code::SessionBroke),
            CloseReason::Cloned => ("cloned", Code::IdentityCloned),
            CloseReason::Revoked => ("revoked", Code::IdentityRevoked),
            CloseReason::Busy => ("busy", Code::HandshakesFull),
        },
        SessionError::Silent(_) => ("silent", Code::SessionBroke),
        SessionError::Broken(_) => ("broken", Code::SessionBroke),
        SessionError::Violation { .. } => ("protocol", Code::DialProtocol),
    };
    let cause = match error {
        SessionError::Peer(CloseReason::Done | CloseReason::Draining) => {
            "the agent was shut down".to_owned()
        }
        other => other.to_string(),
    };
    (end, lost_status(LastError { code, cause }))
}
