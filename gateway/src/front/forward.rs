//! The step that sends a permitted request to its cluster's agent, and the answer back. Bodies stream both ways. After
//! the head of the answer a failure can only break the connection.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    ClusterId, Code, Failure, error_chain, headers as ours,
    impersonation::{AS_HEADER, GROUP_HEADER, USER_HEADER},
};
use fairlead_exchange::{Answer, Body, OnUpgrade, PreparedRequest, Upgraded, frames::Protocol};
use fairlead_protocols::Farewell;
use fairlead_traces::{RequestSpan, SpanRole};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header, uri::PathAndQuery,
};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    agents::{
        silence::is_read_only,
        wait_budget::{self, Place},
    },
    front::{
        address::AddressForm,
        attempts::Attempts,
        authorize::{ImpersonatedNames, PermittedRequest},
        headers, hop,
        record::{Inbound, RequestRecord},
        redirect,
        route::ClusterRequest,
        socket::ResetOnDrop,
        tap::Tap,
        tcp::{self, TcpRequest, UpgradeUser},
        transfer::{UploadProgress, recorded_upload},
        upgrade::{self, Joined, UpgradeEnds},
    },
    http::{
        agent_failure::{agent_code, failure_from},
        body,
        lookup::first,
    },
    hub::Hub,
};

/// The agent replaces it by its API server's own name.
static NEUTRAL_HOST: HeaderValue = HeaderValue::from_static("kubernetes.default.svc");
/// Protocol of a connection without HTTP.
static PLAIN_TCP: HeaderValue = HeaderValue::from_static("tcp");
/// Protocol of the client of a TCP connection, over HTTP/1.1 and HTTP/2.
static WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
/// Parsed once.
static HOST: HeaderName = header::HOST;
static USER: HeaderName = HeaderName::from_static(USER_HEADER);
static GROUP: HeaderName = HeaderName::from_static(GROUP_HEADER);
static AS: HeaderName = HeaderName::from_static(AS_HEADER);
static AUDIT_ID: HeaderName = HeaderName::from_static(ours::AUDIT_ID);
static UPSTREAM_MICROS: HeaderName = HeaderName::from_static(ours::UPSTREAM_MICROS);

/// Forwards a request over the best session of its cluster.
///
/// # Errors
/// `FL-1301`, `FL-1304`, `FL-1401` to `FL-1405`, `FL-1408`, `FL-1409`, the agent's own failures, and `FL-1407` while slow clients fill the
/// memory budget (back-pressure).
pub(crate) async fn forward(
    hub: &Arc<Hub>,
    permitted: PermittedRequest,
) -> Result<Response<Body>, Failure> {
    let budget = wait_budget::wait_budget(&permitted.routed.path);
    let record = &permitted.routed.inbound.record;
    let place = place(hub, record, permitted.permit.cluster(), budget).await?;
    forward_to(hub, permitted, place, budget).await
}

/// Acquires the best place for a request.
///
/// # Errors
/// Those of [`wait_budget::acquire`], and `FL-1407` while slow clients fill the memory budget.
pub(super) async fn place(
    hub: &Hub,
    record: &RequestRecord,
    cluster: &ClusterId,
    budget: Duration,
) -> Result<Place, Failure> {
    if hub.reserve.is_over_budget() {
        let detail = "slow clients have used up --session-memory";
        return Err(Failure::because(Code::TooManyRequests, detail));
    }
    let waited = |time| record.set_wait(time);
    wait_budget::acquire(hub, cluster, budget, waited).await
}

/// Forwards a request over the session or hub that it has a place at.
///
/// # Errors
/// As [`forward`].
pub(super) async fn forward_to(
    hub: &Arc<Hub>,
    permitted: PermittedRequest,
    place: Place,
    budget: Duration,
) -> Result<Response<Body>, Failure> {
    let (session, running) = match place {
        Place::Session(session, running) => (session, running),
        // Boxed, because its future is larger than that of the way over an own session.
        Place::Hub(route) => return Box::pin(hop::forward(hub, permitted, route, budget)).await,
    };
    let (exchange, request) = Exchange::begin(hub, permitted, SpanRole::Session)?;
    let again = hop::movable(hub, &exchange, &request)?;
    let request = request.prepared()?;
    let sent = Instant::now();
    let attempts = Attempts {
        hub,
        cluster: &exchange.cluster,
        record: &exchange.record,
        progress: &exchange.progress,
        read_only: exchange.read_only,
        deadline: exchange.record.started() + wait_budget::answer_budget(budget),
    };
    match (attempts.answer(session, running, request).await, again) {
        (Err(failure), Some(again)) if matches!(failure.code, Code::Lost | Code::OtherHub) => {
            // Boxed, because it happens seldom.
            Box::pin(hop::resend(hub, exchange, *again, budget)).await
        }
        (answer, _) => exchange.finish(hub, answer?, sent.elapsed()).await,
    }
}

/// A request on its way to its answer. Few fields: the future of each request has room for them.
pub(super) struct Exchange {
    pub(super) cluster: ClusterId,
    form: AddressForm,
    pub(super) record: RequestRecord,
    pub(super) progress: UploadProgress,
    pub(super) read_only: bool,
    upgrade: Option<Box<RequestedUpgrade>>,
    /// Span until the head of the answer, over all attempts.
    pub(super) span: Option<Box<RequestSpan>>,
}

/// A request as the agent gets it, with the names of its caller beside its own headers.
pub(super) struct AgentRequest {
    pub(super) request: Request<Body>,
    pub(super) names: ImpersonatedNames,
    pub(super) id: HeaderValue,
}

impl AgentRequest {
    pub(super) fn without_body(&self) -> Self {
        let mut request = Request::new(body::empty());
        *request.method_mut() = self.request.method().clone();
        *request.uri_mut() = self.request.uri().clone();
        *request.version_mut() = self.request.version();
        *request.headers_mut() = self.request.headers().clone();
        AgentRequest {
            request,
            names: self.names.clone(),
            id: self.id.clone(),
        }
    }

    fn prepared(self) -> Result<PreparedRequest, Failure> {
        let fields = added_fields(self.request.method(), &self.names, &self.id);
        prepare(self.request, &fields)
    }
}

/// Encodes the head of a request with these headers.
pub(super) fn prepare(
    request: Request<Body>,
    fields: &[(&HeaderName, &HeaderValue)],
) -> Result<PreparedRequest, Failure> {
    PreparedRequest::with_fields(request, fields)
        .map_err(|error| Failure::because(Code::BadRequest, error_chain(&error)))
}

/// Upgrade that the client wants.
struct RequestedUpgrade {
    user: UpgradeUser,
    protocol: HeaderValue,
    path: PathAndQuery,
    reset: ResetOnDrop,
    recording: Option<Tap>,
    tcp: Option<Box<TcpRequest>>,
}

impl Exchange {
    /// The request as the agent gets it.
    pub(super) fn begin(
        hub: &Hub,
        permitted: PermittedRequest,
        role: SpanRole,
    ) -> Result<(Self, AgentRequest), Failure> {
        let PermittedRequest { permit, routed } = permitted;
        let ClusterRequest {
            inbound,
            path,
            form,
            mut tcp,
            ..
        } = routed;
        let Inbound {
            mut request,
            connection,
            record,
        } = *inbound;

        let (user, wanted) = wanted_upgrade(&mut request, tcp.as_deref_mut()).unzip();
        let whole_path = wanted.is_some().then(|| path.clone());
        // Before the request has any effect. A TCP connection is no terminal session.
        let recording = match tcp {
            Some(_) => None,
            None => Tap::begin(
                hub,
                &permit,
                &request,
                path.path(),
                wanted.as_ref(),
                &record,
            )?,
        };
        let (mut head, upload) = request.into_parts();
        head.uri = Uri::from(path);
        head.version = http::Version::HTTP_11;
        head.extensions.clear();
        headers::strip(&mut head.headers);
        let (cluster, names) = permit.into_parts();
        match (&tcp, &wanted) {
            (Some(tcp), _) => tcp.set_connect(&mut head),
            (None, Some(protocol)) => headers::set_upgrade(&mut head.headers, protocol),
            (None, None) => {}
        }
        let span = record.span().map(|it| Box::new(it.child(role)));
        if let Some(span) = &span {
            span.inject(&mut head.headers);
        }
        let id = HeaderValue::from_str(record.id())
            .map_err(|error| Failure::because(Code::Internal, error))?;
        let read_only = is_read_only(&head.method, tcp.is_none() && user.is_some());
        let (upload, progress) = recorded_upload(upload, &record);
        let request = AgentRequest {
            request: Request::from_parts(head, upload),
            names,
            id,
        };
        let upgrade = user.zip(wanted).zip(whole_path);
        let upgrade = upgrade.map(|((user, protocol), path)| {
            Box::new(RequestedUpgrade {
                user,
                protocol,
                path,
                reset: connection.reset,
                recording,
                tcp,
            })
        });
        let exchange = Exchange {
            cluster,
            form,
            record,
            progress,
            read_only,
            upgrade,
            span,
        };
        Ok((exchange, request))
    }

    /// Makes the client's answer of the agent's.
    pub(super) async fn finish(
        mut self,
        hub: &Arc<Hub>,
        answer: Answer,
        took: Duration,
    ) -> Result<Response<Body>, Failure> {
        let span = self.span.take();
        if let Some(span) = span {
            describe_answer(&span, &answer);
        }
        match answer {
            Answer::Response(response) => self.respond(response, took).await,
            Answer::Upgraded(head, agent) => self.upgrade(hub, head, agent, took),
        }
    }

    async fn respond(
        &self,
        mut response: Response<Body>,
        took: Duration,
    ) -> Result<Response<Body>, Failure> {
        // Removed here by its name, because nearly all answers have it.
        let api = response.headers_mut().remove(&UPSTREAM_MICROS);
        self.record.set_timing(took, api.as_ref().and_then(micros));
        if let Some(code) = agent_code(response.headers()) {
            // Boxed, because it happens seldom.
            return Err(Box::pin(failure_from(code, response.into_body())).await);
        }
        if self.upgrade.as_ref().is_some_and(|it| it.tcp.is_some()) {
            return Err(tcp::unexpected_answer(&response));
        }
        headers::strip_answer(response.headers_mut(), false);
        *response.version_mut() = http::Version::HTTP_11;
        let status = response.status();
        redirect::rebase(status, response.headers_mut(), &self.cluster, self.form)?;
        Ok(response)
    }

    fn upgrade(
        self,
        hub: &Arc<Hub>,
        mut head: Response<()>,
        agent: Upgraded,
        took: Duration,
    ) -> Result<Response<Body>, Failure> {
        let Exchange {
            record, upgrade, ..
        } = self;
        let Some(upgrade) = upgrade else {
            return Err(Failure::because(
                Code::TunnelBroke,
                "the agent upgraded a request that was no upgrade",
            ));
        };
        let RequestedUpgrade {
            user,
            protocol,
            path,
            reset,
            recording,
            tcp,
        } = *upgrade;
        record.set_timing(took, upstream(head.headers()));
        let joined = match &tcp {
            Some(tcp) => tcp.joined(),
            None => Joined::Protocol(Protocol::of(&protocol)),
        };
        if let Some(tcp) = tcp {
            head = tcp.into_answer();
        }
        let user = match user {
            UpgradeUser::Client(user) => user,
            UpgradeUser::Exchange(send) => {
                // Without a receiver the request has ended, and the drop resets the stream.
                let _ = send.send(agent);
                return Ok(head.map(|()| body::empty()));
            }
        };
        let farewell = Farewell::of(record.kind(), path.query(), &protocol, head.headers());
        headers::strip_answer(head.headers_mut(), true);
        let ends = UpgradeEnds {
            client: user,
            agent,
        };
        upgrade::join(hub, record, reset, ends, joined, (farewell, recording));
        Ok(head.map(|()| body::empty()))
    }
}

/// The end that an upgrade joins with the agent's, and its protocol.
fn wanted_upgrade(
    request: &mut Request<Body>,
    tcp: Option<&mut TcpRequest>,
) -> Option<(UpgradeUser, HeaderValue)> {
    let protocol = match tcp {
        Some(tcp) => match tcp.take_user() {
            Some(user) => return Some((user, PLAIN_TCP.clone())),
            None => WEBSOCKET.clone(),
        },
        None => headers::requested_upgrade(request)?,
    };
    let client = OnUpgrade::take(request);
    Some((UpgradeUser::Client(client), protocol))
}

/// Sets the attributes of the span of a session or hop, whose answer has a head.
pub(crate) fn describe_answer(span: &RequestSpan, answer: &Answer) {
    span.answered(answer.status());
    if let Some(time) = upstream(answer.headers()) {
        span.seconds("fairlead.api.duration", time);
    }
    if let Some(code) = agent_code(answer.headers()) {
        span.fail(&code.unwrap_or(Code::Internal).to_string());
    }
}

/// Headers that the gateway adds; those of most callers need no allocation.
pub(super) type AddedFields<'a> = SmallVec<[(&'static HeaderName, &'a HeaderValue); 8]>;

/// Headers that the gateway adds for the agent. The client's own ones of these names are stripped.
///
/// A CONNECT names its host itself, and has no use for groups.
pub(super) fn added_fields<'a>(
    method: &Method,
    names: &'a ImpersonatedNames,
    request_id: &'a HeaderValue,
) -> AddedFields<'a> {
    let mut fields = AddedFields::new();
    let is_connect = *method == Method::CONNECT;
    if !is_connect {
        fields.push((&HOST, &NEUTRAL_HOST));
    }
    match names {
        ImpersonatedNames::Caller(names) if is_connect => fields.push((&USER, &names.user)),
        ImpersonatedNames::Caller(names) => {
            fields.push((&USER, &names.user));
            fields.extend(names.groups.iter().map(|group| (&GROUP, group)));
        }
        ImpersonatedNames::Other(user) => fields.push((&AS, user)),
    }
    fields.push((&AUDIT_ID, request_id));
    fields
}

fn upstream(headers: &HeaderMap) -> Option<Duration> {
    micros(first(headers, &UPSTREAM_MICROS)?)
}

fn micros(value: &HeaderValue) -> Option<Duration> {
    let micros = value.to_str().ok()?;
    micros.parse().ok().map(Duration::from_micros)
}
