//! Requests of the hub, from a stream of the session to the API server and back: probes, CONNECT, and requests
//! of users. The agent's own rules decide on the impersonated user. The service account's token goes to the API
//! server and nowhere else.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure,
    headers::{DRAINING, PROBE_PATH},
    streaming::is_streaming,
};
use fairlead_apiserver::RelayedHeaders;
use fairlead_dialer::ResetSocket;
use fairlead_exchange::{Answer, Body, OnUpgrade, Spliced, body, frames::Protocol, splice};
use fairlead_traces::SpanRole;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::{context::AgentContext, metrics::RequestOutcome};

pub(crate) mod admit;
mod connect;
pub(crate) mod headers;
mod judged_lines;
mod lines;
mod ping_responder;
pub(crate) mod probe;
mod running;
pub(crate) mod watch_api;

use admit::ImpersonationRules;
use headers::TowardsApi;
use ping_responder::PingResponder;
use running::{RunningRequest, count_until_end};
use watch_api::Watch;

/// Time for an upgraded stream to become raw after its answer was sent.
const UPGRADE_DEADLINE: Duration = Duration::from_secs(10);
/// Time for unread bytes of a closed raw stream to be read by the other side.
const LEFTOVER_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline for the head of an ordinary answer; the API server's own limit is a minute. Watches and followed
/// logs have none: they may be silent for ever.
const HEAD_DEADLINE: Duration = Duration::from_secs(300);

/// Proxy of one session: the site's context, and the impersonation rules of the session's identity.
pub(crate) struct RequestProxy {
    context: Arc<AgentContext>,
    rules: ImpersonationRules,
    /// Running requests of this session.
    requests: TaskTracker,
    /// Whether the hub has announced that it drains.
    hub_draining: watch::Sender<bool>,
    /// Watch of the API server until the hub's next probe.
    watch: watch::Sender<Option<Watch>>,
}

impl RequestProxy {
    pub(crate) fn new(context: Arc<AgentContext>, rules: ImpersonationRules) -> Self {
        RequestProxy {
            context,
            rules,
            requests: TaskTracker::new(),
            hub_draining: watch::Sender::new(false),
            watch: watch::Sender::new(None),
        }
    }

    /// The watch of the API server that the last probe has asked for.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Watch>> {
        self.watch.subscribe()
    }

    /// Whether the hub has announced that it drains.
    pub(crate) fn hub_draining(&self) -> watch::Receiver<bool> {
        self.hub_draining.subscribe()
    }

    /// Running requests of this session.
    pub(crate) fn requests(&self) -> TaskTracker {
        self.requests.clone()
    }

    /// Answers one request; failures become answers, too.
    pub(crate) async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let trace = self.context.traces.request(request.headers());
        let running = RunningRequest::new(&self.context.requests, &self.requests, trace);
        let id = headers::request_id(request.headers()).to_owned();
        let method = request.method().clone();
        let is_probe = method != Method::CONNECT && request.uri().path() == PROBE_PATH;
        let span = match is_probe {
            true => None,
            false => running.begin_span(&request),
        };
        let answered = if method == Method::CONNECT {
            self.connect(request, &running).await
        } else if is_probe {
            if request.headers().contains_key(DRAINING) {
                self.hub_draining.send_replace(true);
            }
            // The hub expects no report while it waits for this answer.
            self.watch.send_replace(None);
            let answer = probe::answer(&self.context, request.headers()).await;
            let watch = Watch::of_probe(&self.context, request.headers());
            self.watch.send_replace(watch.filter(|_| answer.is_ok()));
            answer.map(|answer| (answer, RequestOutcome::Probed))
        } else {
            self.forward(request, &running).await
        };
        let mut response = match answered {
            Ok((response, outcome)) => {
                debug!(request.id = %id, %method, status = response.status().as_u16(), "request answered");
                self.context.metrics.request(outcome);
                response.map(|body| count_until_end(body, running))
            }
            Err(failure) => {
                info!(request.id = %id, %method, code = %failure.code, cause = failure.cause, "request rejected");
                self.context.metrics.request(outcome_of(failure.code));
                if let Some(span) = span {
                    span.fail(&failure.code.to_string());
                }
                error_response(&failure)
            }
        };
        if is_probe {
            probe::report_configuration(&self.context, response.headers_mut());
        }
        response
    }

    async fn connect(
        &self,
        mut request: Request<Body>,
        running: &RunningRequest,
    ) -> Result<(Response<Body>, RequestOutcome), Failure> {
        let raw = request.extensions_mut().remove::<OnUpgrade>();
        let raw = raw.ok_or_else(no_upgrade)?;
        self.check_memory()?;
        let socket = connect::open(&self.context.connect_rules(), request.uri()).await?;
        self.splice_upgrade(raw, ResetSocket::new(socket), running.clone());
        Ok((Response::new(body::empty()), RequestOutcome::Connected))
    }

    async fn forward(
        &self,
        mut request: Request<Body>,
        running: &RunningRequest,
    ) -> Result<(Response<Body>, RequestOutcome), Failure> {
        let permitted = self.rules.admit(request.headers())?;
        self.check_target(permitted.is_admin(), request.method(), request.uri())?;
        let raw = request.extensions_mut().remove::<OnUpgrade>();
        let upgrade = headers::upgrade(request.headers());
        // A request without a body needs no memory, so reads continue over budget.
        if upgrade.is_some() || request.body().size_hint().exact() != Some(0) {
            self.check_memory()?;
        }
        // A followed log is silent until its first line.
        let streams = is_streaming(request.uri().path(), request.uri().query());
        let head = (upgrade.is_none() && !streams).then_some(HEAD_DEADLINE);
        let towards = TowardsApi::of(request.headers(), upgrade, permitted);
        let span = running.span().map(|it| it.child(SpanRole::ApiServer));
        if let Some(span) = &span {
            span.inject(request.headers_mut());
        }
        let uri = request.uri().clone();
        let started = Instant::now();
        let relayed = RelayedHeaders {
            added: towards.added(),
            kept: &|name| towards.keeps(name),
        };
        let answer = self.context.upstream.relay(request, &relayed, head).await?;
        if let Some(span) = span {
            span.answered(answer.status());
        }
        match answer {
            Answer::Response(response) => {
                check_credential(response.status(), &uri)?;
                Ok(self.answered(response, started))
            }
            Answer::Upgraded(mut response, upgraded) => {
                let raw = raw.ok_or_else(no_upgrade)?;
                let took = started.elapsed();
                self.context.metrics.api_answered(took);
                let upgrade = towards.upgrade();
                headers::towards_hub(response.headers_mut(), upgrade, Some(took));
                match upgrade.and_then(Protocol::of) {
                    Some(spoken) => self.splice_upgrade(
                        raw,
                        PingResponder::new(upgraded, spoken),
                        running.clone(),
                    ),
                    None => self.splice_upgrade(raw, upgraded, running.clone()),
                }
                Ok((response.map(|()| body::empty()), RequestOutcome::Upgraded))
            }
        }
    }

    /// Answer of the API server on its way to the hub.
    fn answered(
        &self,
        mut response: Response<Body>,
        started: Instant,
    ) -> (Response<Body>, RequestOutcome) {
        let took = started.elapsed();
        self.context.metrics.api_answered(took);
        headers::towards_hub(response.headers_mut(), None, Some(took));
        (response, RequestOutcome::Answered)
    }

    /// Checks the target of a request against the agent's own rules.
    fn check_target(&self, is_admin: bool, method: &Method, uri: &Uri) -> Result<(), Failure> {
        headers::check_path(uri)?;
        match &self.context.reserved {
            Some(reserved) => reserved.check(is_admin, method, uri),
            None => Ok(()),
        }
    }

    /// Rejects a request while the memory budget for data into the cluster is used up.
    fn check_memory(&self) -> Result<(), Failure> {
        match self.context.memory_budget.is_over_budget() {
            true => Err(Code::AgentOverBudget.into()),
            false => Ok(()),
        }
    }

    /// Splices the raw stream with the other side, in a task of the process.
    fn splice_upgrade<IO>(&self, raw: OnUpgrade, other: IO, running: RunningRequest)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The serving task no longer counts this stream.
        let open = self.context.metrics.count_stream();
        self.context.process.spawn(async move {
            let _held = (running, open);
            match timeout(UPGRADE_DEADLINE, raw).await {
                Ok(Ok(raw)) => {
                    let gone = raw.gone();
                    tokio::select! {
                        Spliced { to_b, to_a, end } = splice(raw, other) => {
                            debug!(to_api = to_b, to_hub = to_a, ?end, "raw stream ended");
                        }
                        () = async { gone.await; sleep(LEFTOVER_DEADLINE).await } => {
                            debug!("unread rest of a raw stream dropped");
                        }
                    }
                }
                Ok(Err(error)) => debug!(%error, "stream upgrade failed"),
                Err(_) => warn!("stream upgrade timed out"),
            }
        });
    }
}

/// Fails if the API server itself rejects a request. The hub has authenticated the user: a 401 is about the agent's own token.
fn check_credential(status: StatusCode, uri: &Uri) -> Result<(), Failure> {
    if status == StatusCode::UNAUTHORIZED && !headers::is_proxied(uri) {
        return Err(Failure::because(
            Code::ApiUnreachable,
            "it rejects the agent's own credential (401)",
        ));
    }
    Ok(())
}

fn no_upgrade() -> Failure {
    Failure::because(Code::Internal, "this stream cannot be upgraded")
}

/// Answer of the agent itself. The gateway makes a `metav1.Status` of it.
fn error_response(failure: &Failure) -> Response<Body> {
    let mut response = Response::new(body::full(failure.cause.clone()));
    *response.status_mut() =
        StatusCode::from_u16(failure.code.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
    headers::mark_as_agents(response.headers_mut(), failure.code);
    response
}

const fn outcome_of(code: Code) -> RequestOutcome {
    match code {
        Code::ApiUnreachable | Code::TargetUnreachable | Code::BadKubeconfig => {
            RequestOutcome::Unreachable
        }
        Code::ApiTimeout => RequestOutcome::Timeout,
        Code::Internal => RequestOutcome::Internal,
        _ => RequestOutcome::Refused,
    }
}
