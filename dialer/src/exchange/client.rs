//! The asking side: a pool of one session's idle streams, HTTP/1.1 with keep-alive on each, one request at a time.
//!
//! A request with `Expect: 100-continue` holds its body back until the other side has said `100 Continue` (or for a
//! second). The body's source is not asked before that, so a hyper server that reads the same body from a user says
//! `100 Continue` to the user no earlier: the expectation passes end to end.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, Uri, Version, header, request::Parts};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tracing::debug;

use super::{
    Answer, Body, ExchangeError, MAX_HEAD, MAX_HEADERS, Upgraded,
    body::{Done, Download, Gate, Upload},
};
use crate::{lock, session::Session};

/// How long a stream may wait for its next request.
const IDLE: Duration = Duration::from_secs(60);
/// How long a stream may take to be ready again after an answer.
const SETTLE: Duration = Duration::from_secs(1);

/// The streams of one session that wait for their next request. Clones share them.
#[derive(Clone)]
pub struct Exchanges {
    pool: Arc<Pool>,
    head_timeout: Option<Duration>,
}

struct Pool {
    session: Session,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The newest last.
    streams: Vec<(SendRequest<Upload>, AbortHandle, Instant)>,
    swept: bool,
}

/// A stream while a request has it. Dropped before [`Lease::finish`], it is reset.
pub(super) struct Lease {
    sender: SendRequest<Upload>,
    connection: Connection,
    pool: Weak<Pool>,
    upload: Done,
}

/// The task that drives a stream's HTTP. Stopping it drops the stream.
struct Connection {
    task: AbortHandle,
    stop: bool,
}

impl Connection {
    fn go_on(mut self) -> AbortHandle {
        self.stop = false;
        self.task.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.stop {
            self.task.abort();
        }
    }
}

/// Why a request got no answer, and the request, if nothing of it was sent.
struct Failed {
    error: hyper::Error,
    unsent: Option<Request<Upload>>,
}

impl Exchanges {
    #[must_use]
    pub fn new(session: Session) -> Self {
        Exchanges {
            pool: Arc::new(Pool {
                session,
                idle: Mutex::default(),
            }),
            head_timeout: None,
        }
    }

    /// How long a head may take, from the request on. None is set by default: exec and attach may take theirs.
    #[must_use]
    pub fn with_head_timeout(mut self, timeout: Duration) -> Self {
        self.head_timeout = Some(timeout);
        self
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.pool.session
    }

    /// One request, in origin form (or CONNECT authority). Upgrades get a fresh stream. A request that may be repeated
    /// (RFC 9110, 9.2.2), without a body, is sent once more if a pooled stream died under it before an answer. Dropping the
    /// future or the answer's body resets the stream.
    ///
    /// # Errors
    /// See [`ExchangeError`]. A body that breaks off later is an error of the body.
    pub async fn send(&self, request: Request<Body>) -> Result<Answer, ExchangeError> {
        // Hyper's futures are large; the caller's need not be.
        let exchange = Box::pin(self.exchange(request));
        match self.head_timeout {
            None => exchange.await,
            Some(limit) => timeout(limit, exchange)
                .await
                .unwrap_or(Err(ExchangeError::Timeout(limit))),
        }
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Answer, ExchangeError> {
        let request = in_origin_form(request);
        let connect = request.method() == Method::CONNECT;
        if connect || request.headers().contains_key(header::UPGRADE) {
            let mut lease = self.pool.open().await?;
            let answer = lease.ask(request.map(Upload::new)).await.map_err(failed)?;
            return lease.switch(answer, connect).await;
        }
        let Some(mut lease) = self.pool.take() else {
            return self.fresh(request.map(Upload::new)).await;
        };
        let repeatable = request.body().is_end_stream() && request.method().is_idempotent();
        let (parts, body) = request.into_parts();
        let copy = repeatable.then(|| copy(&parts));
        let request = Request::from_parts(parts, Upload::new(body));
        let mut failure = match lease.ask(request).await {
            Ok(answer) => return Ok(lease.answer(answer)),
            Err(failure) => failure,
        };
        drop(lease);
        let again = match (failure.unsent.take(), copy) {
            (Some(unsent), _) => unsent,
            (None, Some(copy)) if !failure.error.is_parse() => {
                let empty = Empty::new().map_err(|never| match never {});
                Request::from_parts(copy, Upload::new(Body::new(empty)))
            }
            _ => return Err(failed(failure)),
        };
        debug!(error = %failure.error, "a pooled stream died; asking again on a fresh one");
        self.fresh(again).await
    }

    async fn fresh(&self, request: Request<Upload>) -> Result<Answer, ExchangeError> {
        let mut lease = self.pool.open().await?;
        let answer = lease.ask(request).await.map_err(failed)?;
        Ok(lease.answer(answer))
    }
}

impl Pool {
    /// The newest idle stream that is fit for a request.
    fn take(self: &Arc<Self>) -> Option<Lease> {
        let mut idle = lock(&self.idle);
        while let Some((sender, connection, _)) = idle.streams.pop() {
            if sender.is_ready() {
                return Some(self.lease(sender, connection));
            }
        }
        None
    }

    async fn open(self: &Arc<Self>) -> Result<Lease, ExchangeError> {
        let stream = self.session.open().await.map_err(ExchangeError::Open)?;
        let (sender, connection) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ExchangeError::Broken(error.into()))?;
        // Owned by the lease or the pool, and ends with its stream.
        let task = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                debug!(%error, "a stream's exchange ended");
            }
        });
        Ok(self.lease(sender, task.abort_handle()))
    }

    fn lease(self: &Arc<Self>, sender: SendRequest<Upload>, task: AbortHandle) -> Lease {
        Lease {
            sender,
            connection: Connection { task, stop: true },
            pool: Arc::downgrade(self),
            upload: Done::default(),
        }
    }

    fn put(self: &Arc<Self>, sender: SendRequest<Upload>, connection: AbortHandle) {
        let mut idle = lock(&self.idle);
        idle.streams.push((sender, connection, Instant::now()));
        if !idle.swept {
            idle.swept = true;
            // Ends with the pool, or when nothing is left to sweep.
            drop(tokio::spawn(sweep(Arc::downgrade(self))));
        }
    }
}

/// Lets go of streams that have waited for too long, and of those that died.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(IDLE / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = lock(&pool.idle);
        idle.streams
            .retain(|(sender, _, since)| !sender.is_closed() && since.elapsed() < IDLE);
        if idle.streams.is_empty() {
            idle.swept = false;
            return;
        }
    }
}

impl Lease {
    async fn ask(
        &mut self,
        mut request: Request<Upload>,
    ) -> Result<Response<Incoming>, Box<Failed>> {
        self.upload = request.body().done();
        if expects_continue(&request) && !self.upload.is() {
            let gate = Arc::new(Gate::default());
            let opens = gate.clone();
            request.body_mut().wait_for(gate);
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    opens.open();
                }
            });
        }
        let asked = self.sender.try_send_request(request).await;
        asked.map_err(|mut error| {
            Box::new(Failed {
                unsent: error.take_message(),
                error: error.into_error(),
            })
        })
    }

    fn answer(self, answer: Response<Incoming>) -> Answer {
        Answer::Response(answer.map(|body| Body::new(Download::new(body, self))))
    }

    async fn switch(
        self,
        mut answer: Response<Incoming>,
        connect: bool,
    ) -> Result<Answer, ExchangeError> {
        let status = answer.status();
        // What hyper takes for switched, and nothing else.
        let switched = status == StatusCode::SWITCHING_PROTOCOLS
            || (connect && status.is_success() && status != StatusCode::NO_CONTENT);
        if !switched {
            return Ok(self.answer(answer));
        }
        let upgraded = hyper::upgrade::on(&mut answer)
            .await
            .map_err(|error| ExchangeError::Broken(error.into()))?;
        // The stream is the caller's from here on, and its task has ended.
        self.connection.go_on();
        let (head, _) = answer.into_parts();
        Ok(Answer::Upgraded(
            Response::from_parts(head, ()),
            Upgraded::from_hyper(upgraded),
        ))
    }

    /// The answer has ended cleanly: the stream is for the next request, unless the upload goes on, which nobody asked for
    /// any more.
    pub(super) fn finish(self) {
        let Lease {
            mut sender,
            connection,
            pool,
            upload,
        } = self;
        if !upload.is() {
            return;
        }
        if sender.is_ready() {
            if let Some(pool) = pool.upgrade() {
                pool.put(sender, connection.go_on());
            }
            return;
        }
        // The connection's task has yet to notice the end. Bounded by the deadline.
        drop(tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(SETTLE, sender.ready()).await
                && let Some(pool) = pool.upgrade()
            {
                pool.put(sender, connection.go_on());
            }
        }));
    }
}

fn expects_continue<B>(request: &Request<B>) -> bool {
    request
        .headers()
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// HTTP/1.1, without scheme and host in the target, whatever the request came by.
fn in_origin_form(mut request: Request<Body>) -> Request<Body> {
    *request.version_mut() = Version::HTTP_11;
    if request.method() != Method::CONNECT && request.uri().authority().is_some() {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    request
}

/// The head, to be sent once more.
fn copy(parts: &Parts) -> Parts {
    let mut copy = Request::new(()).into_parts().0;
    copy.method = parts.method.clone();
    copy.uri = parts.uri.clone();
    copy.version = parts.version;
    copy.headers = parts.headers.clone();
    copy
}

fn failed(failed: Box<Failed>) -> ExchangeError {
    let error = failed.error;
    if error.is_user() {
        return ExchangeError::Request(error.into());
    }
    ExchangeError::Broken(error.into())
}
