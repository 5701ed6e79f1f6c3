//! The step that sends a permitted request to its cluster's agent, and the answer back. Bodies stream both ways. After
//! the head of the answer a failure can only break the connection.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure, error_chain, headers as ours,
    impersonation::{AS_HEADER, GROUP_HEADER, USER_HEADER},
};
use fairlead_exchange::{Answer, Body, OnUpgrade, PreparedRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::{
    agents::{silence::is_read_only, wait_budget},
    front::{
        attempts::Attempts,
        authorize::{ImpersonatedNames, Permit, PermittedRequest},
        farewell::Farewell,
        headers,
        record::{Inbound, RequestRecord},
        redirect,
        route::ClusterRequest,
        tap::Tap,
        transfer::{RecordedUpload, UploadProgress},
        upgrade::{self, UpgradeEnds},
    },
    http::{
        agent_failure::{agent_code, failure_from},
        body,
    },
    hub::Hub,
};

/// The agent replaces it by its API server's own name.
const NEUTRAL_HOST: HeaderValue = HeaderValue::from_static("kubernetes.default.svc");
/// Parsed once.
static USER: HeaderName = HeaderName::from_static(USER_HEADER);
static GROUP: HeaderName = HeaderName::from_static(GROUP_HEADER);
static AS: HeaderName = HeaderName::from_static(AS_HEADER);
static REQUEST_ID: HeaderName = HeaderName::from_static(ours::REQUEST_ID);
static AUDIT_ID: HeaderName = HeaderName::from_static(ours::AUDIT_ID);
static UPSTREAM_MICROS: HeaderName = HeaderName::from_static(ours::UPSTREAM_MICROS);

/// Forwards a request over the best session of its cluster.
///
/// # Errors
/// `FL-1301`, `FL-1304`, `FL-1401` to `FL-1405`, the agent's own failures, and `FL-1407` while slow clients fill the
/// memory budget (back-pressure).
#[allow(
    clippy::too_many_lines,
    reason = "one request from its session to its answer"
)]
pub(crate) async fn forward(
    hub: &Arc<Hub>,
    permitted: PermittedRequest,
) -> Result<Response<Body>, Failure> {
    if hub.reserve.is_over_budget() {
        let detail = "slow clients have used up --session-memory";
        return Err(Failure::because(Code::TooManyRequests, detail));
    }
    let PermittedRequest { permit, routed } = permitted;
    let budget = wait_budget::wait_budget(&routed.path);
    let (session, running) = wait_budget::acquire(hub, permit.cluster(), budget).await?;
    let ClusterRequest {
        inbound,
        path,
        form,
        ..
    } = routed;
    let Inbound {
        mut request,
        connection,
        record,
        ..
    } = *inbound;

    let wanted = headers::requested_upgrade(&request);
    let user = wanted
        .clone()
        .map(|protocol| (hyper::upgrade::on(&mut request), protocol));
    // Before the request has any effect.
    let recording = Tap::begin(
        hub,
        &permit,
        &request,
        path.path(),
        wanted.as_ref(),
        &record,
    )?;
    let progress = UploadProgress::default();
    let (mut head, upload) = request.into_parts();
    head.uri = Uri::from(path);
    head.version = http::Version::HTTP_11;
    head.extensions.clear();
    headers::strip(&mut head.headers);
    set_headers(&mut head.headers, &permit, record.id(), wanted)?;
    let upload = RecordedUpload {
        inner: upload,
        progress: progress.clone(),
        record: record.clone(),
    };
    let request = Request::from_parts(head, upload.boxed_unsync());

    let sent = Instant::now();
    let attempts = Attempts {
        hub,
        cluster: permit.cluster(),
        record: &record,
        progress: &progress,
        read_only: is_read_only(request.method(), user.is_some()),
        deadline: record.started() + wait_budget::answer_budget(budget),
    };
    let request = PreparedRequest::new(request)
        .map_err(|error| Failure::because(Code::BadRequest, error_chain(&error)))?;
    let answer = attempts.answer(session, running, request).await?;
    let took = sent.elapsed();
    match answer {
        Answer::Response(response) => {
            let mut response = answered(response, &record, took).await?;
            let status = response.status();
            redirect::rebase(status, response.headers_mut(), permit.cluster(), form)?;
            Ok(response)
        }
        Answer::Upgraded(mut head, agent) => {
            let Some((user, protocol)) = user else {
                return Err(Failure::because(
                    Code::TunnelBroke,
                    "the agent upgraded a request that was no upgrade",
                ));
            };
            record.set_timing(took, upstream(head.headers()));
            let farewell = Farewell::of(record.kind(), &protocol, head.headers());
            headers::strip_answer(head.headers_mut(), true);
            let ends = UpgradeEnds {
                client: OnUpgrade::from_hyper(user),
                agent,
            };
            upgrade::join(
                hub,
                record,
                connection.reset,
                ends,
                &protocol,
                (farewell, recording),
            );
            Ok(head.map(|()| body::empty()))
        }
    }
}

/// Sets the headers that the gateway sends to the agent.
fn set_headers(
    headers: &mut HeaderMap,
    permit: &Permit,
    request_id: &str,
    upgrade: Option<HeaderValue>,
) -> Result<(), Failure> {
    headers.insert(header::HOST, NEUTRAL_HOST);
    match permit.names() {
        ImpersonatedNames::Caller { user, groups } => {
            headers.insert(&USER, user.clone());
            for group in groups {
                headers.append(&GROUP, group.clone());
            }
        }
        ImpersonatedNames::Other(user) => {
            headers.insert(&AS, user.clone());
        }
    }
    let id = HeaderValue::from_str(request_id)
        .map_err(|error| Failure::because(Code::Internal, error))?;
    headers.insert(&AUDIT_ID, id.clone());
    headers.insert(&REQUEST_ID, id);
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    Ok(())
}

async fn answered(
    mut response: Response<Body>,
    record: &RequestRecord,
    took: Duration,
) -> Result<Response<Body>, Failure> {
    record.set_timing(took, upstream(response.headers()));
    if let Some(code) = agent_code(response.headers()) {
        return Err(failure_from(code, response.into_body()).await);
    }
    headers::strip_answer(response.headers_mut(), false);
    *response.version_mut() = http::Version::HTTP_11;
    Ok(response)
}

fn upstream(headers: &HeaderMap) -> Option<Duration> {
    let micros = headers.get(&UPSTREAM_MICROS)?.to_str().ok()?;
    micros.parse().ok().map(Duration::from_micros)
}
