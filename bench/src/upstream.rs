//! A stand-in API server: it answers at once from memory and believes every token, so that what is measured is the way to it.
//! It does no work that an answer does not need.

use std::{io, path::PathBuf};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};

use crate::serve::Server;

/// The sizes that `/bytes/SIZE` knows.
pub(crate) const SMALL: usize = 1024;
pub(crate) const LARGE: usize = 8 * 1024 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where upstream.ca.pem and upstream.ready.json go
    #[arg(long)]
    dir: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let answers = Answers::default();
    Server::start("upstream", &args.dir)?
        .serve(move |request| answer(answers.clone(), request))
        .await
}

#[derive(Clone)]
pub(crate) struct Answers {
    small: Bytes,
    large: Bytes,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            small: Bytes::from(vec![b'f'; SMALL]),
            large: Bytes::from(vec![b'f'; LARGE]),
        }
    }
}

/// `GET /bytes/SIZE`: that many bytes. `POST /sink`: reads all, answers how many came. `/readyz`, `/version`: enough for an agent.
pub(crate) async fn answer(
    answers: Answers,
    request: Request<Incoming>,
) -> io::Result<Response<Full<Bytes>>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/bytes/1024") => (StatusCode::OK, BYTES, answers.small),
        (&Method::GET, "/bytes/8388608") => (StatusCode::OK, BYTES, answers.large),
        (&Method::POST, "/sink") => (
            StatusCode::OK,
            TEXT,
            Bytes::from(drain(request.into_body()).await?.to_string()),
        ),
        (_, "/readyz" | "/livez" | "/healthz") => (StatusCode::OK, TEXT, Bytes::from_static(b"ok")),
        (_, "/version") => (StatusCode::OK, JSON, Bytes::from_static(VERSION)),
        _ => (StatusCode::NOT_FOUND, JSON, Bytes::from_static(NOT_FOUND)),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

const BYTES: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const VERSION: &[u8] =
    br#"{"major":"1","minor":"37","gitVersion":"v1.37.1","platform":"linux/amd64"}"#;
const NOT_FOUND: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the bench's upstream has no such resource","reason":"NotFound","code":404}"#;

async fn drain(mut body: Incoming) -> io::Result<usize> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame
            .map_err(io::Error::other)?
            .data_ref()
            .map_or(0, Bytes::len);
    }
    Ok(bytes)
}
