//! A request that another hub has forwarded, on its way to an agent of this hub.
//!
//! The first hub has authenticated and authorized it, and has set each header for the agent. Here it goes to a session of
//! this hub or is refused: there is no way from here to a third hub.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fairlead_api::{
    ClusterId, Code, Failure,
    headers::{AGENT_PATH_PREFIX, AUDIT_ID, is_hop_by_hop},
    hop,
    impersonation::{AS_HEADER, USER_HEADER},
    tcp::TcpTarget,
};
use fairlead_exchange::{
    Answer, Body, OnUpgrade, PreparedRequest, Spliced, Upgraded, splice, splice::SpliceEnd,
};
use fairlead_traces::SpanRole;
use http::{HeaderMap, HeaderName, Method, Request, Response, header};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::{
    relay_record::{RelayRecord, RelayedBody},
    serve::PeerHub,
};
use crate::{
    agents::{
        entry::{Running, SessionEntry},
        silence::is_read_only,
        table::Acquired,
        wait_budget,
    },
    front::{
        attempts::{Attempts, SessionUser},
        forward::describe_answer,
        transfer::UploadProgress,
    },
    http::{body, path},
    hub::Hub,
    metrics::RequestEnd,
};

/// Time for an upgraded stream to become raw after its answer was sent.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for unread bytes of a closed raw stream to be read by the other side.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a forwarded request over a session of this hub.
///
/// # Errors
/// `FL-1409` without a session that works, unsent; `FL-1304` for a request that no hub sends; those of the attempt.
pub(super) async fn relay(
    hub: &Arc<Hub>,
    peer: &PeerHub,
    mut request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let Some(first_hub) = peer.names() else {
        let detail = "a hub must send its hello first";
        return Err(Failure::because(Code::BadRequest, detail));
    };
    let cluster = checked_cluster(&request)?;
    hub.check_audit()?;
    if hub.reserve.is_over_budget() {
        let detail = "slow clients have used up --session-memory of the hub with the session";
        return Err(Failure::because(Code::TooManyRequests, detail));
    }
    // Before the record: a refused request has no event here, and goes to another hub.
    let (session, running) = acquire_here(hub, &cluster)?;
    let record = RelayRecord::begin(hub, (first_hub, peer.from), &cluster, &request);
    let raw = request.extensions_mut().remove::<OnUpgrade>();
    let answered = send(hub, (session, running), request, &record, &cluster).await;
    let answer = answered.inspect_err(|failure| record.set_failure(failure.code))?;
    match answer {
        Answer::Response(mut response) => {
            response.headers_mut().remove(hop::HUB_CODE);
            record.set_status(response.status());
            Ok(response.map(|it| RelayedBody::download(it, record).boxed_unsync()))
        }
        Answer::Upgraded(mut head, agent) => {
            let raw = raw.ok_or_else(|| {
                Failure::because(
                    Code::TunnelBroke,
                    "the agent upgraded a request that was no upgrade",
                )
            })?;
            head.headers_mut().remove(hop::HUB_CODE);
            record.set_status(head.status());
            join(hub, raw, agent, record);
            Ok(head.map(|()| body::empty()))
        }
    }
}

/// The cluster of a forwarded request.
fn checked_cluster(request: &Request<Body>) -> Result<ClusterId, Failure> {
    let bad = |detail: &str| Failure::because(Code::BadRequest, detail);
    let headers = request.headers();
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let cluster = only(hop::CLUSTER).and_then(|id| id.to_str().ok()?.parse().ok());
    let cluster = cluster.ok_or_else(|| bad("a forwarded request must name one cluster"))?;
    if only(USER_HEADER).is_none() == only(AS_HEADER).is_none() || only(AUDIT_ID).is_none() {
        return Err(bad("a forwarded request must have a user and an id"));
    }
    let uri = request.uri();
    if request.method() == Method::CONNECT {
        let target = uri.authority().map(|it| it.as_str().parse::<TcpTarget>());
        return match target {
            Some(Ok(_)) => Ok(cluster),
            _ => Err(Code::TcpTargetInvalid.into()),
        };
    }
    path::check(uri.path())?;
    if uri.path().starts_with(AGENT_PATH_PREFIX) {
        return Err(bad("a hub forwards requests to API servers only"));
    }
    Ok(cluster)
}

/// The best session here, without any wait: the first hub waits, and looks at all hubs meanwhile.
fn acquire_here(hub: &Hub, cluster: &ClusterId) -> Result<(Arc<SessionEntry>, Running), Failure> {
    if hub.process.is_draining() {
        // The agent moves to another hub. New requests would keep this hub until its drain timeout, which cuts them.
        return Err(Code::HubWithoutSession.into());
    }
    match hub.sessions.acquire(cluster)? {
        Acquired::Up(entry, running) => Ok((entry, running)),
        Acquired::Down(_) | Acquired::Absent(_) => Err(Code::HubWithoutSession.into()),
    }
}

async fn send(
    hub: &Arc<Hub>,
    (session, running): (Arc<SessionEntry>, Running),
    request: Request<Body>,
    record: &Arc<RelayRecord>,
    cluster: &ClusterId,
) -> Result<Answer, Failure> {
    let (mut head, upload) = request.into_parts();
    let upgrades = head.headers.contains_key(header::UPGRADE);
    let budget = head.uri.path_and_query().map(wait_budget::wait_budget);
    let budget = wait_budget::answer_budget(budget.unwrap_or_default());
    head.extensions.clear();
    strip(&mut head.headers, upgrades);
    let span = record.span().map(|it| it.child(SpanRole::Session));
    if let Some(span) = &span {
        span.inject(&mut head.headers);
    }
    let read_only = is_read_only(&head.method, upgrades);
    let frames = Arc::<AtomicU64>::default();
    let upload = match http_body::Body::is_end_stream(&upload) {
        true => upload,
        false => RelayedBody::upload(upload, record, Arc::clone(&frames)).boxed_unsync(),
    };
    let request = PreparedRequest::new(Request::from_parts(head, upload))
        .map_err(|error| Failure::because(Code::BadRequest, error))?;
    let attempts = Attempts {
        hub,
        cluster,
        record: record.as_ref(),
        progress: &UploadProgress::of(frames),
        read_only,
        deadline: record.started() + budget,
    };
    let answered = attempts.answer(session, running, request).await;
    if let (Some(span), Ok(answer)) = (&span, &answered) {
        describe_answer(span, answer);
    }
    answered
}

/// Removes the headers of the hop. Those for the agent and the API server stay, and so does the upgrade.
fn strip(headers: &mut HeaderMap, upgrades: bool) {
    let of_hop = |name: &HeaderName| {
        let is_upgrade = name == header::UPGRADE || name == header::CONNECTION;
        let is_kept = (upgrades && is_upgrade) || name == header::TE;
        name == hop::CLUSTER || (is_hop_by_hop(name.as_str()) && !is_kept)
    };
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| of_hop(name))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Joins both streams after the `101`. An error on one side resets the other.
fn join(hub: &Arc<Hub>, raw: OnUpgrade, agent: Upgraded, record: Arc<RelayRecord>) {
    hub.process.spawn(async move {
        let first_hub = match timeout(UPGRADE_TIMEOUT, raw).await {
            Ok(Ok(first_hub)) => first_hub,
            Ok(Err(_)) | Err(_) => return record.set_outcome(RequestEnd::Left),
        };
        let gone = first_hub.gone();
        let outcome = tokio::select! {
            Spliced { to_b, to_a, end } = splice(first_hub, agent) => {
                record.add_bytes(to_b, to_a);
                debug!(request = record.id(), ?end, "forwarded stream ended");
                match end {
                    SpliceEnd::Clean => RequestEnd::Ok,
                    SpliceEnd::A(_) => RequestEnd::Left,
                    SpliceEnd::B(_) => RequestEnd::Aborted,
                }
            }
            () = async { gone.await; sleep(LEFTOVER_TIMEOUT).await } => RequestEnd::Left,
        };
        record.set_outcome(outcome);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn headers_of_the_hop_are_removed_and_those_for_the_agent_stay() {
        let given = [
            ("fairlead-cluster", "c-a"),
            ("fairlead-user", "fairlead:ada"),
            ("fairlead-group", "fairlead:admin"),
            ("audit-id", "0123"),
            ("expect", "100-continue"),
            ("te", "trailers"),
            ("connection", "upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("accept", "application/json"),
        ];
        let left = |upgrades: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(name, HeaderValue::from_static(value));
            }
            strip(&mut headers, upgrades);
            let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            names.sort_unstable();
            names.join(" ")
        };
        let plain = "accept audit-id fairlead-group fairlead-user te";
        assert_eq!(left(false), plain);
        assert_eq!(
            left(true),
            "accept audit-id connection fairlead-group fairlead-user te upgrade"
        );
    }
}
