//! The agent's end of each stream: HTTP/1.1 for a tower service, and CONNECT to TCP targets.

use std::{
    future::{Future, poll_fn},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{Either, Full};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::service_fn,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tower_service::Service;
use tracing::debug;

use super::{BoxError, target::TargetStream};
use crate::{mux::Stream, session::Session, sync::lock};

/// Time to resolve a target and to connect to it.
const TARGET_DEADLINE: Duration = Duration::from_secs(10);

type TargetRule = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Serves the streams of a session: requests by a `tower::Service`, CONNECT by connecting to allowed targets.
///
/// The service is cloned for each request, and awaited until it is ready. Its error resets the stream. It may upgrade a
/// connection with [`hyper::upgrade::on`]. Without [`StreamServer::allow_targets`], each CONNECT is refused.
#[derive(Clone)]
pub struct StreamServer<S> {
    service: S,
    targets: TargetRule,
}

/// Connected target of a CONNECT, and the stream that it waits for.
type PendingTunnel = Mutex<Option<(OnUpgrade, TcpStream)>>;

type Answer<B> = Response<Either<B, Full<Bytes>>>;

impl<S> StreamServer<S> {
    /// Server of one service, without TCP targets.
    #[must_use]
    pub fn new(service: S) -> Self {
        StreamServer {
            service,
            targets: Arc::new(|_| false),
        }
    }

    /// Allows TCP connections to each `host:port` for which `rule` returns true.
    ///
    /// `rule` gets the text that the hub has sent. Compare it with a list: a name is resolved only afterwards, and
    /// `localhost` or an address of a metadata service is a target as any other.
    #[must_use]
    pub fn allow_targets(self, rule: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        StreamServer {
            targets: Arc::new(rule),
            ..self
        }
    }

    /// Serves until the session has ended. Each stream has a task. All of them end with the returned future, which
    /// resets their streams.
    pub async fn serve<B>(&self, session: Session)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // The session bounds the number of streams.
        let mut streams = JoinSet::new();
        loop {
            tokio::select! {
                stream = session.accept() => match stream {
                    Some(stream) => drop(streams.spawn(self.clone().serve_stream(stream))),
                    None => return,
                },
                Some(_) = streams.join_next() => {}
            }
        }
    }

    async fn serve_stream<B>(self, stream: Stream)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let pending = Arc::new(PendingTunnel::default());
        let service = service_fn({
            let pending = Arc::clone(&pending);
            move |request| self.clone().answer(request, Arc::clone(&pending))
        });
        // No deadline for a head: a pooled stream waits for its next request, and the session notices a dead hub.
        let served = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            debug!(%error, "stream broke");
            return;
        }
        let Some((upgrade, tcp)) = lock(&pending).take() else {
            return;
        };
        match upgrade.await.map(Upgraded::downcast::<TokioIo<Stream>>) {
            Ok(Ok(parts)) => {
                let stream = TargetStream::new(parts.io.into_inner(), parts.read_buf);
                match stream.forward(tcp).await {
                    Ok((sent, received)) => debug!(sent, received, "TCP connection ended"),
                    Err(error) => debug!(%error, "TCP connection broke"),
                }
            }
            Ok(Err(_)) => debug!("stream upgrade failed"),
            Err(error) => debug!(%error, "stream upgrade failed"),
        }
    }

    fn answer<B>(
        self,
        request: Request<Incoming>,
        pending: Arc<PendingTunnel>,
    ) -> impl Future<Output = Result<Answer<B>, BoxError>> + Send
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Send + 'static,
    {
        let StreamServer {
            mut service,
            targets,
        } = self;
        async move {
            if request.method() == Method::CONNECT {
                let answer = connect(request, &targets, &pending).await;
                return Ok(answer.map(Either::Right));
            }
            poll_fn(|cx| service.poll_ready(cx))
                .await
                .map_err(Into::into)?;
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(Either::Left))
        }
    }
}

/// Connects to the target of a CONNECT before it is answered.
async fn connect(
    mut request: Request<Incoming>,
    targets: &TargetRule,
    pending: &PendingTunnel,
) -> Response<Full<Bytes>> {
    let target = match request.uri().authority() {
        Some(target) => target.as_str().to_owned(),
        None => return refusal(StatusCode::BAD_REQUEST, "CONNECT needs host:port"),
    };
    if !targets(&target) {
        debug!(target, "target refused");
        return refusal(
            StatusCode::FORBIDDEN,
            "the agent does not allow this target",
        );
    }
    match timeout(TARGET_DEADLINE, TcpStream::connect(&target)).await {
        Ok(Ok(tcp)) => {
            *lock(pending) = Some((hyper::upgrade::on(&mut request), tcp));
            Response::new(Full::default())
        }
        Ok(Err(error)) => {
            let cause = format!("the target is unreachable: {error}");
            refusal(StatusCode::BAD_GATEWAY, cause)
        }
        Err(_) => {
            let cause = format!("no answer within {} s", TARGET_DEADLINE.as_secs());
            refusal(StatusCode::GATEWAY_TIMEOUT, cause)
        }
    }
}

fn refusal(status: StatusCode, cause: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(cause.into()));
    *response.status_mut() = status;
    response
}
