//! Role `proxy`, the baseline: a one-hop reverse proxy, TLS on both legs, as lean as hyper allows. It must
//! never be handicapped: a slow baseline flatters Fairlead.

mod pool;

use std::{io, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri, Version,
    body::{Bytes, Incoming},
    header::{
        CONNECTION, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};
use rustls::ClientConfig;

use self::pool::{BackendPool, Returning};
use hyper::service::service_fn;

use crate::{serve::Server, tls};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of proxy.ca.pem and proxy.ready.json
    #[arg(long)]
    dir: PathBuf,
    /// https://HOST:PORT of the upstream
    #[arg(long)]
    upstream: Uri,
    /// CA certificate of the upstream
    #[arg(long)]
    upstream_ca: PathBuf,
    /// http://HOST:PORT of the upstream, for requests without TLS
    #[arg(long)]
    plain_upstream: Uri,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let tls = tls::client(&args.upstream_ca)?;
    let secure = pool(&args.upstream, Some(tls))?;
    let plain = pool(&args.plain_upstream, None)?;
    Server::start("proxy", &args.dir)?
        .serve(
            service_fn(move |request| answer(secure.clone(), request)),
            service_fn(move |request| answer(plain.clone(), request)),
        )
        .await
}

pub(crate) fn pool(
    upstream: &Uri,
    tls: Option<Arc<ClientConfig>>,
) -> anyhow::Result<Arc<BackendPool>> {
    let authority = upstream
        .authority()
        .context("an upstream is https://HOST:PORT or http://HOST:PORT")?;
    Ok(Arc::new(BackendPool::new(authority, tls)?))
}

type Answer = Response<Either<Returning, Full<Bytes>>>;

pub(crate) async fn answer(
    pool: Arc<BackendPool>,
    request: Request<Incoming>,
) -> io::Result<Answer> {
    Ok(match forward(pool, request).await {
        Ok(response) => response.map(Either::Left),
        Err(error) => {
            eprintln!("upstream: {error:#}");
            let mut response =
                Response::new(Either::Right(Full::from(format!("upstream: {error:#}\n"))));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    })
}

async fn forward(
    pool: Arc<BackendPool>,
    mut request: Request<Incoming>,
) -> anyhow::Result<Response<Returning>> {
    strip(request.headers_mut());
    if request.version() == Version::HTTP_2 {
        make_http1(&mut request)?;
    }
    let mut connection = pool.take().await?;
    let mut response = connection.send_request(request).await?;
    strip(response.headers_mut());
    Ok(response.map(|body| Returning::new(body, connection, pool)))
}

/// Moves the authority from the URI of HTTP/2 into the Host header of HTTP/1.1.
fn make_http1(request: &mut Request<Incoming>) -> anyhow::Result<()> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = None;
    if let Some(authority) = parts.authority.take() {
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = Uri::from_parts(parts)?;
    *request.version_mut() = Version::HTTP_11;
    Ok(())
}

/// Headers of one leg only (RFC 9110, section 7.6.1), as far as this proxy's peers send them.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
];

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}
