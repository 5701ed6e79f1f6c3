//! The life of one session, from its inner TLS to its end. Its task is the only one that closes it.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fairlead_api::{
    Code,
    resources::{ClusterStatus, LastError},
};
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, Session, SessionError};
use time::OffsetDateTime;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::info;

use crate::{
    agents::{
        entry::Entry,
        group::lost,
        probe,
        routes::{Guest, serve_streams},
    },
    hub::Hub,
};

/// How long requests on a replaced session may go on.
const GRACE: Duration = Duration::from_secs(30);
/// How long a peer without a good identity may ask nothing.
const VISITOR_IDLE: Duration = Duration::from_secs(60);
/// How long an agent may take to name itself.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// How long one that is refused may take to read why.
const REFUSED: Duration = Duration::from_secs(1);
/// How long closing may take, the peer being told why.
const CLOSING: Duration = Duration::from_secs(5);
/// Sleeping towards an expiry looks at the wall clock this often, for that clock may be set.
const CLOCK_LOOK: Duration = Duration::from_secs(60);

/// A session without an identity, or with one that has expired and may be renewed.
pub(crate) async fn visitor(
    hub: &Arc<Hub>,
    session: Session,
    from: IpAddr,
    lapsed: Option<AgentIdentity>,
) {
    let place = hub.visitors.enter(from);
    let seen = Arc::new(Notify::new());
    let guest = match lapsed {
        None => Guest::Anonymous(from, Arc::clone(&seen)),
        Some(identity) => Guest::Lapsed(Arc::new(identity), Arc::clone(&seen)),
    };
    let idle = async { while timeout(VISITOR_IDLE, seen.notified()).await.is_ok() {} };
    let reason = tokio::select! {
        _ = session.closed() => CloseReason::Done,
        () = serve_streams(hub, &session, guest) => CloseReason::Done,
        () = idle => CloseReason::Done,
        () = place.evicted() => CloseReason::Done,
        () = hub.process.draining() => CloseReason::Draining,
    };
    count(hub, &close(&session, reason).await);
}

fn count(hub: &Hub, error: &SessionError) {
    if let SessionError::Violation { rule, .. } = error {
        hub.metrics.violation(rule);
    }
}

/// A session of an agent that may have one.
pub(crate) async fn agent(hub: &Arc<Hub>, entry: Arc<Entry>) {
    let directory = Arc::clone(&hub.seam.directory);
    let session = entry.session();
    info!(cluster = %entry.cluster(), serial = entry.identity().serial, "session opened");
    // A deletion or a move between the first question and the table would not have found this session.
    let still = directory.admit(entry.identity()).await;
    let error = match still.map_err(|failure| failure.code) {
        Err(Code::ClusterDeleted) => {
            hub.sessions.part(entry.cluster(), None);
            close(session, CloseReason::Deleted).await
        }
        // Whoever has the cluster now stays.
        Err(Code::ForeignCertificate) => close(session, CloseReason::Protocol).await,
        // What cannot be asked now is asked with whatever the agent does.
        Ok(()) | Err(_) => tokio::select! {
            error = session.closed() => error,
            reason = ending(hub, &entry) => close(session, reason).await,
            error = working(hub, &entry) => error,
        },
    };
    count(hub, &error);
    let (end, status) = obituary(&error);
    hub.sessions.leave(&entry, end, status);
    info!(cluster = %entry.cluster(), end, error = %error, "session ended");
}

/// Neither ends before the session does. What runs here is made here: a future that is given to another one is kept twice.
async fn working(hub: &Arc<Hub>, entry: &Arc<Entry>) -> SessionError {
    let session = entry.session();
    tokio::join!(
        serve_streams(hub, session, Guest::Agent(Arc::clone(entry))),
        async {
            entry.introduced().await;
            probe::run(hub, entry).await;
        }
    );
    session.closed().await
}

/// Completes when the session should be closed, and says why. There is a task of this for each session, for as long as it
/// lives, so what happens once at most has its room only then.
async fn ending(hub: &Hub, entry: &Entry) -> CloseReason {
    let drained = async {
        hub.process.draining().await;
        Box::pin(entry.idle()).await;
    };
    let nameless = async {
        if Box::pin(introduces_itself(entry)).await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        reason = told(entry) => reason,
        () = nameless => CloseReason::Protocol,
        () = drained => CloseReason::Draining,
        () = expiry(entry) => CloseReason::Expired,
    }
}

/// Whether the agent says who it is in good time; that begins anew with each link, without which it cannot say anything.
async fn introduces_itself(entry: &Entry) -> bool {
    while timeout(INTRODUCTION, entry.introduced()).await.is_err() {
        if entry.session().is_up() {
            return false;
        }
        entry.up().await;
    }
    true
}

/// Completes when the session was asked to end, and has had the time that this leaves it.
async fn told(entry: &Entry) -> CloseReason {
    let mut reason = None;
    loop {
        let time = async {
            match reason {
                Some(reason) => Box::pin(last_time(entry, reason)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reason = time => return reason,
            // For another reason than before.
            other = entry.asked_to_end(reason) => reason = other,
        }
    }
}

async fn last_time(entry: &Entry, reason: CloseReason) -> CloseReason {
    match reason {
        // Its requests may finish; new ones go to the session that replaced it, or are refused. Whoever came in its place
        // may be the same agent, begun anew; who has lost the old one's link waits for nothing.
        CloseReason::Replaced => tokio::select! {
            _ = timeout(GRACE, entry.idle()) => {}
            () = entry.down() => {}
        },
        // To read why.
        CloseReason::Cloned => sleep(REFUSED).await,
        _ => {}
    }
    reason
}

/// Completes when the certificate has expired and was not renewed.
async fn expiry(entry: &Entry) {
    loop {
        let until = entry.good_until();
        let Ok(left) = Duration::try_from(until - OffsetDateTime::now_utc()) else {
            return;
        };
        tokio::select! {
            () = sleep(left.min(CLOCK_LOOK)) => {}
            () = entry.good_beyond(until) => {}
        }
    }
}

/// Closes, and waits a moment for the peer to have heard of it.
pub(crate) async fn close(session: &Session, reason: CloseReason) -> SessionError {
    session.close(reason);
    timeout(CLOSING, session.closed())
        .await
        .unwrap_or(SessionError::Here(reason))
}

/// What is said of a session that ended: a label, and the cluster's status.
fn obituary(error: &SessionError) -> (&'static str, ClusterStatus) {
    let (end, code) = match error {
        SessionError::Here(reason) | SessionError::Peer(reason) => match reason {
            CloseReason::Draining => ("draining", Code::Draining),
            CloseReason::Replaced => ("replaced", Code::DialReplaced),
            CloseReason::Deleted => ("deleted", Code::ClusterDeleted),
            CloseReason::Expired => ("expired", Code::CertificateExpired),
            CloseReason::Protocol => ("protocol", Code::DialProtocol),
            CloseReason::Done => ("done", Code::SessionBroke),
            CloseReason::Cloned => ("cloned", Code::IdentityCloned),
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
    (end, lost(LastError { code, cause }))
}
