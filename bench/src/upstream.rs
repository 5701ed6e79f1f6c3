//! Role `upstream`: a stand-in API server.
//!
//! It answers at once from memory and accepts every token, so that the path to it is measured. It does no
//! work that an answer does not need.

mod raw;
mod stream;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
    sync::watch,
    time,
};

use self::stream::UpstreamBody;
pub(crate) use self::{
    raw::{RawReady, RawServer, RawService},
    stream::{SMALL_BODY_BYTES, age},
};
use hyper::service::service_fn;

use crate::serve::Server;

/// Size of the large body of `/bytes/SIZE`.
pub(crate) const LARGE_BODY_BYTES: usize = 8 * 1024 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Upgrade protocol of `/echo`. Every route permits this name; no SPDY is spoken here.
pub(crate) const ECHO: &str = "SPDY/3.1";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of ca.pem and ready.json of `upstream` and `raw`, and of the socket upstream.count
    #[arg(long)]
    dir: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let answers = UpstreamAnswers::default();
    let counter = UnixListener::bind(count_socket(&args.dir))?;
    // The task ends with the process.
    drop(tokio::spawn(tell(counter, answers.received.clone())));
    let raw = RawServer::start(&args.dir)?;
    drop(tokio::spawn(raw.serve(answers.received.clone())));
    let answered = service_fn(move |request| answer(answers.clone(), request));
    Server::start("upstream", &args.dir)?
        .serve(answered.clone(), answered)
        .await
}

/// Socket that reports to each client the bytes of bodies received so far. A Unix socket is reachable from
/// any network namespace without the emulated link.
pub(crate) fn count_socket(dir: &Path) -> PathBuf {
    dir.join("upstream.count")
}

async fn tell(counter: UnixListener, received: Arc<AtomicU64>) {
    loop {
        match counter.accept().await {
            Ok((mut asking, _)) => {
                let number = received.load(Relaxed).to_string();
                // A number fits into the socket's buffer, so no client can block this.
                drop(asking.write_all(number.as_bytes()).await);
            }
            Err(_) => time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

#[derive(Clone)]
pub(crate) struct UpstreamAnswers {
    small: Bytes,
    large: Bytes,
    /// Bytes of bodies received by `/sink`.
    received: Arc<AtomicU64>,
    /// The last event, for the watches.
    event: watch::Sender<Bytes>,
}

impl Default for UpstreamAnswers {
    fn default() -> Self {
        Self {
            small: Bytes::from(vec![b'f'; SMALL_BODY_BYTES]),
            large: Bytes::from(vec![b'f'; LARGE_BODY_BYTES]),
            received: Arc::default(),
            event: watch::Sender::new(Bytes::new()),
        }
    }
}

pub(crate) type Answer = Response<Either<Full<Bytes>, UpstreamBody>>;

/// Answers a request:
///
/// - `GET /bytes/SIZE`: that many bytes.
/// - `GET /endless`: bytes until the client stops reading.
/// - `GET /ticks`: a numbered line every [`stream::TICK_INTERVAL`].
/// - `GET /echo` with an upgrade: every byte comes back.
/// - `POST /sink`: reads the body and answers its size.
/// - `GET /watch`: a line at once, and one of 1 KiB with the time for each request to `/event`.
/// - `/readyz`, `/version`: enough for an agent.
pub(crate) async fn answer(
    answers: UpstreamAnswers,
    request: Request<Incoming>,
) -> io::Result<Answer> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/bytes/1024") => whole(StatusCode::OK, BYTES, answers.small),
        (&Method::GET, "/bytes/8388608") => stream(UpstreamBody::large(answers.large)),
        (&Method::GET, "/endless") => stream(UpstreamBody::endless(answers.large)),
        (&Method::GET, "/ticks") => stream(UpstreamBody::ticks()),
        (&Method::GET, "/echo") => echo(request),
        (&Method::GET, "/watch") => stream(UpstreamBody::events(answers.event.subscribe())),
        (_, "/event") => {
            answers.event.send_replace(stream::event());
            whole(StatusCode::OK, TEXT, Bytes::new())
        }
        (&Method::POST, "/sink") => {
            let came = drain(request.into_body(), &answers.received).await?;
            whole(StatusCode::OK, TEXT, Bytes::from(came.to_string()))
        }
        (_, "/readyz" | "/livez" | "/healthz") => {
            whole(StatusCode::OK, TEXT, Bytes::from_static(b"ok"))
        }
        (_, "/version") => whole(StatusCode::OK, JSON, Bytes::from_static(VERSION)),
        _ => whole(StatusCode::NOT_FOUND, JSON, Bytes::from_static(NOT_FOUND)),
    })
}

const BYTES: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const VERSION: &[u8] =
    br#"{"major":"1","minor":"37","gitVersion":"v1.37.1","platform":"linux/amd64"}"#;
const NOT_FOUND: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the bench's upstream has no such resource","reason":"NotFound","code":404}"#;

fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn stream(body: UpstreamBody) -> Answer {
    let mut response = Response::new(Either::Right(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(BYTES));
    response
}

fn echo(request: Request<Incoming>) -> Answer {
    if request
        .headers()
        .get(UPGRADE)
        .is_none_or(|name| name != ECHO)
    {
        return whole(
            StatusCode::BAD_REQUEST,
            TEXT,
            Bytes::from_static(b"upgrade"),
        );
    }
    // The task ends with its connection.
    drop(tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await?;
        let mut io = TokioIo::new(upgraded);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = io.read(&mut buffer).await?;
            match buffer.get(..read) {
                None | Some([]) => return anyhow::Ok(()),
                Some(bytes) => io.write_all(bytes).await?,
            }
            io.flush().await?;
        }
    }));
    let mut response = whole(StatusCode::SWITCHING_PROTOCOLS, TEXT, Bytes::new());
    let headers = response.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(ECHO));
    response
}

async fn drain(mut body: Incoming, received: &AtomicU64) -> io::Result<usize> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let came = frame
            .map_err(io::Error::other)?
            .data_ref()
            .map_or(0, Bytes::len);
        received.fetch_add(came as u64, Relaxed);
        bytes += came;
    }
    Ok(bytes)
}
