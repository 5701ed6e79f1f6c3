//! Sends a permitted request to another hub that has a session of its cluster.
//!
//! Identity and permission are decided here, and travel in the headers that an agent gets. A hub without the session
//! refuses the request before it takes a byte of the body, so that another one can get it. A request with a body waits for
//! `100 Continue` for that.

use std::{sync::Arc, time::Duration};

use fairlead_api::{ClusterId, Code, Failure, hop};
use fairlead_dialer::OpenError;
use fairlead_exchange::{Answer, Body, ExchangeError, PreparedRequest};
use fairlead_traces::SpanRole;
use http::{HeaderName, HeaderValue, Request, Response, header, request};
use http_body::Body as _;
use tokio::time::{Instant, timeout};

use crate::{
    agents::{
        silence::POSSIBLY_DONE,
        wait_budget::{self, Place},
    },
    front::{
        attempts::Attempts,
        authorize::{ImpersonatedNames, PermittedRequest},
        forward::{AgentRequest, Exchange, added_fields, prepare},
        offered_body::OfferedBody,
    },
    http::agent_failure::{failure_from, hub_code},
    hub::Hub,
    hubs::{links::HubRoute, refused::RefusedHubs},
    metrics::{HopDirection, RequestEnd},
};

/// Limit of hubs that a read without an answer is sent to. Refusals do not count.
const MAX_ATTEMPTS: usize = 3;
/// Time for the other hub to report its own timeout.
const HEAD_MARGIN: Duration = Duration::from_secs(5);

static CLUSTER: HeaderName = HeaderName::from_static(hop::CLUSTER);
static CONTINUE: HeaderValue = HeaderValue::from_static("100-continue");

/// A request that can be encoded once for each hub.
pub(super) struct OfferedRequest {
    head: request::Parts,
    body: OfferedBody,
    names: ImpersonatedNames,
    id: HeaderValue,
    cluster: HeaderValue,
}

/// End of an attempt without an answer for the client.
enum HopFailure {
    /// The hub did not accept the request, so nothing was carried out.
    Refused(Failure),
    /// The connection broke: a read may be sent again.
    Broke(Failure),
    /// The failure is the answer.
    Final(Failure),
}

/// Forwards a request over another hub, and over a session of this one if that comes first.
///
/// # Errors
/// `FL-1408` and `FL-1409` without a hub that takes the request; `FL-1404` and `FL-1405` as over an own session; those of
/// the other hub.
pub(super) async fn forward(
    hub: &Arc<Hub>,
    permitted: PermittedRequest,
    first: HubRoute,
    budget: Duration,
) -> Result<Response<Body>, Failure> {
    let (exchange, request) = Exchange::begin(hub, permitted, SpanRole::Hop)?;
    let request = OfferedRequest::new(request, &exchange.cluster)?;
    send(hub, exchange, request, Place::Hub(first), budget).await
}

/// A read that may go to another hub if its session here ends; `None` for any other request, and without other hubs.
pub(super) fn movable(
    hub: &Hub,
    exchange: &Exchange,
    request: &AgentRequest,
) -> Result<Option<Box<OfferedRequest>>, Failure> {
    let is_movable =
        exchange.read_only && !hub.links.is_empty() && request.request.body().is_end_stream();
    if !is_movable {
        return Ok(None);
    }
    let again = OfferedRequest::new(request.without_body(), &exchange.cluster)?;
    Ok(Some(Box::new(again)))
}

/// Sends a read again whose session here has ended.
///
/// # Errors
/// As for [`forward`].
pub(super) async fn resend(
    hub: &Arc<Hub>,
    exchange: Exchange,
    request: OfferedRequest,
    budget: Duration,
) -> Result<Response<Body>, Failure> {
    let deadline = exchange.record.started() + wait_budget::answer_budget(budget);
    let left = deadline.saturating_duration_since(Instant::now());
    let none_refused = RefusedHubs::default();
    let place = wait_budget::acquire_again(hub, &exchange.cluster, left, &none_refused).await?;
    hub.metrics.reads_moved.inc();
    if let (Some(span), Place::Hub(_)) = (&exchange.span, &place) {
        span.rename(SpanRole::Hop);
    }
    send(hub, exchange, request, place, budget).await
}

async fn send(
    hub: &Arc<Hub>,
    exchange: Exchange,
    request: OfferedRequest,
    mut place: Place,
    budget: Duration,
) -> Result<Response<Body>, Failure> {
    let deadline = exchange.record.started() + wait_budget::answer_budget(budget);
    let mut refused = RefusedHubs::default();
    let (mut attempts, sent) = (0, Instant::now());
    loop {
        let route = match place {
            Place::Hub(route) => route,
            Place::Session(session, running) => {
                let attempts = Attempts {
                    hub,
                    cluster: &exchange.cluster,
                    record: &exchange.record,
                    progress: &exchange.progress,
                    read_only: exchange.read_only,
                    deadline,
                };
                let request = request.for_agent()?;
                let answer = attempts.answer(session, running, request).await?;
                return exchange.finish(hub, answer, sent.elapsed()).await;
            }
        };
        let failure = match attempt(hub, &exchange, &route, request.for_hub()?).await {
            Ok(answer) => {
                hub.metrics.forwarded(HopDirection::ToHub, RequestEnd::Ok);
                // Both end after the last byte: a renewed link keeps the old session until then.
                exchange.record.keep((route.session, route.running));
                return exchange.finish(hub, answer, sent.elapsed()).await;
            }
            Err(failure) => failure,
        };
        let failure = match failure {
            HopFailure::Refused(failure) => {
                hub.metrics
                    .forwarded(HopDirection::ToHub, RequestEnd::Refused);
                failure
            }
            HopFailure::Broke(failure) => {
                hub.metrics
                    .forwarded(HopDirection::ToHub, RequestEnd::Failed);
                attempts += 1;
                if attempts >= MAX_ATTEMPTS || !request.may_be_repeated(exchange.read_only) {
                    return Err(failure);
                }
                failure
            }
            HopFailure::Final(failure) => {
                hub.metrics
                    .forwarded(HopDirection::ToHub, RequestEnd::Failed);
                return Err(failure);
            }
        };
        if !request.body.is_untouched() {
            return Err(failure);
        }
        tracing::debug!(request = exchange.record.id(), hub = %route.hub.id, cause = failure.cause, "request moves to another hub");
        refused.add(&route.hub.id);
        let left = match budget.is_zero() {
            true => Duration::ZERO,
            false => deadline.saturating_duration_since(Instant::now()),
        };
        place = wait_budget::acquire_again(hub, &exchange.cluster, left, &refused).await?;
    }
}

/// Sends the request to one hub, and waits for the head of its answer.
async fn attempt(
    hub: &Hub,
    exchange: &Exchange,
    route: &HubRoute,
    request: PreparedRequest,
) -> Result<Answer, HopFailure> {
    let head_timeout = hub.head_timeout + HEAD_MARGIN;
    let mut sending = std::pin::pin!(route.session.exchanges().send_prepared(request));
    let mut seen = exchange.progress.frames();
    let answered = loop {
        match timeout(head_timeout, sending.as_mut()).await {
            Ok(answered) => break answered,
            // The head may come after the last byte of the upload only.
            Err(_) => match std::mem::replace(&mut seen, exchange.progress.frames()) {
                before if before == seen => break Err(ExchangeError::Timeout(head_timeout)),
                _ => {}
            },
        }
    };
    let possibly_done = |failure: Failure| match exchange.read_only {
        true => failure,
        false => failure.next(POSSIBLY_DONE),
    };
    let url = &route.hub.url;
    let response = match answered {
        Ok(Answer::Response(response)) => response,
        Ok(upgraded @ Answer::Upgraded(..)) => return Ok(upgraded),
        Err(ExchangeError::Open(OpenError::Full)) => {
            let detail = format_args!("the sessions to the hub {url} are full");
            let failure = Failure::because(Code::TooManyRequests, detail);
            return Err(HopFailure::Refused(failure));
        }
        Err(ExchangeError::Open(OpenError::Closed(cause))) => {
            let failure = Failure::because(Code::OtherHub, format_args!("{url}: {cause}"));
            return Err(HopFailure::Refused(failure));
        }
        Err(ExchangeError::Broken(cause)) => {
            let detail = format_args!("over the hub {url}: {cause}");
            let failure = Failure::because(Code::TunnelBroke, detail);
            return Err(HopFailure::Broke(possibly_done(failure)));
        }
        Err(ExchangeError::Request(cause)) => {
            let detail = format_args!("its body broke off: {cause}");
            return Err(HopFailure::Final(Failure::because(
                Code::BadRequest,
                detail,
            )));
        }
        Err(ExchangeError::Timeout(time)) => {
            let detail = format_args!("nothing within {} s", time.as_secs());
            let failure = Failure::because(Code::Timeout, detail);
            return Err(HopFailure::Final(possibly_done(failure)));
        }
    };
    let Some(code) = hub_code(response.headers()) else {
        return Ok(Answer::Response(response));
    };
    let failure = failure_from(code, response.into_body()).await;
    Err(match failure.code {
        Code::HubWithoutSession => HopFailure::Refused(failure),
        Code::TunnelBroke => HopFailure::Broke(possibly_done(failure)),
        Code::Lost if exchange.read_only => HopFailure::Broke(failure),
        Code::Timeout => HopFailure::Final(possibly_done(failure)),
        _ => HopFailure::Final(failure),
    })
}

impl OfferedRequest {
    fn new(request: AgentRequest, cluster: &ClusterId) -> Result<Self, Failure> {
        let AgentRequest { request, names, id } = request;
        let (head, body) = request.into_parts();
        Ok(OfferedRequest {
            head,
            body: OfferedBody::new(body),
            names,
            id,
            cluster: HeaderValue::from_str(cluster.as_str())
                .map_err(|error| Failure::because(Code::Internal, error))?,
        })
    }

    /// True if a broken attempt had no effect that a second one would double.
    fn may_be_repeated(&self, read_only: bool) -> bool {
        // An API server carries out no request whose body it has not got.
        self.body.is_untouched() && (read_only || !self.body.is_empty())
    }

    fn for_hub(&self) -> Result<PreparedRequest, Failure> {
        let mut head = self.head.clone();
        if !self.body.is_empty() {
            head.headers.insert(header::EXPECT, CONTINUE.clone());
        }
        let mut fields = added_fields(&head.method, &self.names, &self.id);
        fields.push((&CLUSTER, &self.cluster));
        prepare(Request::from_parts(head, self.body.offer()), &fields)
    }

    fn for_agent(&self) -> Result<PreparedRequest, Failure> {
        let request = Request::from_parts(self.head.clone(), self.body.offer());
        let fields = added_fields(request.method(), &self.names, &self.id);
        prepare(request, &fields)
    }
}
