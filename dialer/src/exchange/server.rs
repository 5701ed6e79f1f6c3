//! The answering side: HTTP/1.1 with keep-alive on one stream, for as long as the peer keeps it. An idle stream waits
//! without a deadline of its own: it counts against the session's limit, and it ends with the session, whose marks have
//! deadlines.

use std::{convert::Infallible, future::Future, io};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

use super::{Body, MAX_HEAD, MAX_HEADERS, OnUpgrade};
use crate::session::Stream;

/// Serves requests that come over `stream` until it ends. A 101 (or 2xx to CONNECT) answer makes the request's
/// [`OnUpgrade`] extension yield the raw stream. Heads of more than 100 fields or 64 KiB are refused with 431.
///
/// # Errors
/// When the stream broke, or an answer's body failed: the stream is reset then, never ended.
pub async fn serve<H, F>(stream: Stream, handler: H) -> io::Result<()>
where
    H: Fn(Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        if request
            .extensions_mut()
            .get::<hyper::upgrade::OnUpgrade>()
            .is_some()
        {
            let upgrade = OnUpgrade::from_hyper(hyper::upgrade::on(&mut request));
            request.extensions_mut().insert(upgrade);
        }
        let answer = handler(request.map(|body| Body::new(body.map_err(Into::into))));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)
}
