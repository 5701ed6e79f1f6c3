//! The way to the API server: pooled HTTP/1.1 connections over TLS. A connection carries one request at a time; what is
//! dropped before its answer ended takes its connection with it, so that a watch nobody reads ends at once.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use fairlead_dialer::{Body, BodyError};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use tokio::time::{Instant, timeout};
use tokio_util::task::{AbortOnDropHandle, task_tracker::TaskTrackerToken};

use crate::{
    body,
    target::{Access, Credentials, Endpoint, TargetError},
};

mod connect;

pub(crate) use connect::Upgraded;
use connect::{ConnectError, Connector};

/// Connections that wait for their next request. Fewer than there are requests at a time would mean TLS handshakes.
const MAX_IDLE: usize = 256;
/// kube-apiserver keeps them for 90 s and more.
const IDLE: Duration = Duration::from_secs(60);
/// For what the agent itself asks.
const OWN_DEADLINE: Duration = Duration::from_secs(15);
/// The largest answer to what the agent itself asks, in bytes: a Secret is at most 1 MiB, and base64 in JSON.
const OWN_ANSWER: usize = 2 * 1024 * 1024;

/// Why the API server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("no credential")]
    Target(#[from] TargetError),
    #[error("no connection to {host}")]
    Connect {
        host: String,
        #[source]
        cause: ConnectError,
    },
    #[error("the connection broke before the answer")]
    Broken(#[source] BodyError),
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the path cannot be put behind the API server's own")]
    Path,
}

/// What the API server said.
pub(crate) enum Answer {
    /// Anything but a taken upgrade.
    Response(Response<Body>),
    /// `101`, and the connection as raw bytes.
    Upgraded(Response<()>, Upgraded),
}

/// The pooled way to one API server.
pub(crate) struct Upstream {
    credentials: Credentials,
    connector: Connector,
    pool: Arc<Pool>,
}

impl Upstream {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Upstream {
            credentials,
            connector: Connector::new(),
            pool: Arc::default(),
        }
    }

    /// Whether the API server's address and credentials can be had at all.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(crate) async fn check(&self) -> Result<(), TargetError> {
        self.credentials.access().await.map(drop)
    }

    /// Sends a request, whose URI has a path and a query only, with the agent's own credential. `head`: how long the
    /// answer's head may take.
    ///
    /// # Errors
    /// [`UpstreamError`]; an answer is none, whatever its status.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
        head: Option<Duration>,
    ) -> Result<Answer, UpstreamError> {
        let answering = self.send_unbounded(request);
        match head {
            None => answering.await,
            Some(limit) => timeout(limit, answering)
                .await
                .map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    /// What the agent itself asks, in JSON.
    ///
    /// # Errors
    /// [`UpstreamError`]; an answer is none, whatever its status.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), UpstreamError> {
        let mut request = Request::new(body::text(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| UpstreamError::Path)?;
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json.clone());
        if !request.body().is_end_stream() {
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let asking = async {
            match self.send(request, None).await? {
                Answer::Upgraded(head, _) => Ok((head.status(), Bytes::new())),
                Answer::Response(response) => {
                    let status = response.status();
                    let body = body::whole(response.into_body(), OWN_ANSWER).await;
                    Ok((status, body.map_err(UpstreamError::Broken)?))
                }
            }
        };
        timeout(OWN_DEADLINE, asking)
            .await
            .map_err(|_| UpstreamError::Timeout(OWN_DEADLINE))?
    }

    async fn send_unbounded(&self, mut request: Request<Body>) -> Result<Answer, UpstreamError> {
        let access = self.credentials.access().await?;
        address(&mut request, &access)?;
        let (response, lease) = self.lend(request, &access.endpoint).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.credentials.refused(&access).await;
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Upgraded::answer(response, lease));
        }
        Ok(Answer::Response(response.map(|body| {
            self.pool.clone().body(body, lease, access.endpoint.clone())
        })))
    }

    /// Sends over an idle connection, or over a new one: an idle one may turn out to have been closed by the other side.
    async fn lend(
        &self,
        mut request: Request<Body>,
        endpoint: &Arc<Endpoint>,
    ) -> Result<(Response<Incoming>, Lease), UpstreamError> {
        while let Some(mut lease) = self.pool.take(endpoint) {
            match lease.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, lease)),
                Err(mut error) => match error.take_message() {
                    // Not a byte of it was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Broken(error.into_error().into())),
                },
            }
        }
        let connected = self.connector.connect(endpoint).await;
        let host = || endpoint.host.to_str().unwrap_or_default().to_owned();
        let mut lease = connected.map_err(|cause| UpstreamError::Connect {
            host: host(),
            cause,
        })?;
        let sent = lease.sender.send_request(request).await;
        sent.map(|response| (response, lease))
            .map_err(|error| UpstreamError::Broken(error.into()))
    }
}

/// Puts credential, host and the API server's base path into a request.
fn address(request: &mut Request<Body>, access: &Access) -> Result<(), UpstreamError> {
    let endpoint = &access.endpoint;
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", PathAndQuery::as_str);
    let whole = format!("{}{path}", endpoint.base_path).parse::<PathAndQuery>();
    *request.uri_mut() = Uri::from(whole.map_err(|_| UpstreamError::Path)?);
    *request.version_mut() = http::Version::HTTP_11;
    let headers: &mut HeaderMap = request.headers_mut();
    headers.insert(header::HOST, endpoint.host.clone());
    match &access.authorization {
        Some(authorization) => headers.insert(header::AUTHORIZATION, authorization.clone()),
        None => headers.remove(header::AUTHORIZATION),
    };
    Ok(())
}

/// One connection, and the task that drives it: dropped, the connection is closed.
struct Lease {
    sender: SendRequest<Body>,
    driver: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    lease: Lease,
    endpoint: Arc<Endpoint>,
    since: Instant,
}

impl Pool {
    /// The one used last, so that those in excess grow old. Connections of an older CA or credential are let go.
    fn take(&self, endpoint: &Arc<Endpoint>) -> Option<Lease> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| {
            !idle.lease.sender.is_closed()
                && idle.since.elapsed() < IDLE
                && Arc::ptr_eq(&idle.endpoint, endpoint)
        });
        // One whose request's body still goes out is not ready.
        let at = idle.iter().rposition(|idle| idle.lease.sender.is_ready())?;
        Some(idle.remove(at).lease)
    }

    fn put(&self, lease: Lease, endpoint: Arc<Endpoint>) {
        if lease.sender.is_closed() || lease.driver.is_finished() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(Idle {
            lease,
            endpoint,
            since: Instant::now(),
        });
    }

    fn body(self: Arc<Self>, body: Incoming, lease: Lease, endpoint: Arc<Endpoint>) -> Body {
        let mut lent = Lent {
            body,
            back: Some((self, lease, endpoint)),
        };
        lent.give_back_at_end();
        lent.boxed_unsync()
    }
}

/// A body on a lent connection, which goes back when the body has ended, and is closed when it is dropped before.
struct Lent {
    body: Incoming,
    back: Option<(Arc<Pool>, Lease, Arc<Endpoint>)>,
}

impl Lent {
    fn give_back_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some((pool, lease, endpoint)) = self.back.take() {
            pool.put(lease, endpoint);
        }
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            None => self.give_back(),
            Some(Ok(_)) => self.give_back_at_end(),
            Some(Err(_)) => self.back = None,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that holds something until it has ended or is dropped.
pub(crate) fn held(body: Body, running: TaskTrackerToken) -> Body {
    Held {
        body,
        _running: running,
    }
    .boxed_unsync()
}

struct Held {
    body: Body,
    _running: TaskTrackerToken,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
