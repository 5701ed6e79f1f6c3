//! Our HTTP codec compared with hyper: every accepted request, of a peer or of any client, and every accepted answer must be read
//! as hyper reads it. The first byte selects the kind, and where the rest is split.
#![no_main]

use std::{
    convert::Infallible,
    future::Future,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fairlead_exchange::{
    Answer, Body, BodyError, Client, ClientSettings, ConnectionShutdown, HttpError, Outgoing,
    Transport, Upgraded, serve_clients, serve_on,
};
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, empty, join, sink};

const PIPE_BYTES: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let [how, sent @ ..] = bytes else { return };
    if sent.len() > PIPE_BYTES / 2 {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let pieces = sent.split_at(sent.len() * usize::from(how >> 2) / 64);
    runtime.block_on(async {
        match how & 3 {
            kind @ (0 | 1) => requests(sent, pieces, kind == 1).await,
            2 => answer(Method::GET, sent, pieces).await,
            _ => answer(Method::HEAD, sent, pieces).await,
        }
    });
});

/// First line, headers, body and trailers.
type Message = (String, HeaderMap, Bytes, Option<HeaderMap>);

/// Two pieces, and a clean end.
struct Pieces(Vec<Bytes>);

impl Pieces {
    fn new((first, second): (&[u8], &[u8])) -> Self {
        Pieces(vec![
            Bytes::copy_from_slice(second),
            Bytes::copy_from_slice(first),
        ])
    }
}

impl Transport for Pieces {
    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.0.pop()))
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        out.advance(out.len());
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::new(join(empty(), sink()), read)
    }
}

fn nothing() -> Body {
    Body::new(Empty::new().map_err(|never| match never {}))
}

/// Reads a complete message. hyper removes the headers that it has handled itself.
async fn read<B>(line: String, mut headers: HeaderMap, body: B) -> Option<Message>
where
    B: http_body::Body<Data = Bytes>,
{
    let whole = body.collect().await.ok()?;
    let trailers = whole.trailers().cloned();
    headers.remove(header::TRANSFER_ENCODING);
    Some((line, headers, whole.to_bytes(), trailers))
}

async fn noted<B>(request: Request<B>, notes: Arc<Mutex<Vec<Message>>>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
{
    let (parts, body) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri);
    let message = read(line, parts.headers, body).await;
    notes.lock().expect("no panic").extend(message);
    Response::new(nothing())
}

/// Settings of the hub's front.
const SETTINGS: ClientSettings = ClientSettings {
    max_head_bytes: 128 * 1024,
    head_timeout: Duration::from_secs(100),
    refusal,
};

fn refusal(_: &HttpError) -> Bytes {
    Bytes::from_static(b"HTTP/1.1 400 Bad Request\r\n\r\n")
}

async fn requests(sent: &[u8], pieces: (&[u8], &[u8]), of_client: bool) {
    let ours = collected(|notes| async move {
        let wire = Pieces::new(pieces);
        let handler = move |request| noted(request, notes.clone());
        let _ = match of_client {
            true => serve_clients(wire, &SETTINGS, &ConnectionShutdown::default(), handler).await,
            false => serve_on(wire, handler).await,
        };
    });
    let ours = ours.await;
    if ours.is_empty() {
        return;
    }
    let theirs = collected(|notes| async move {
        let (mut near, far) = duplex(PIPE_BYTES);
        near.write_all(sent).await.expect("room");
        near.shutdown().await.expect("a pipe");
        let service = service_fn(move |request| {
            let notes = notes.clone();
            async move { Ok::<_, Infallible>(noted(request, notes).await) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(far), service)
            .await;
    });
    let theirs = theirs.await;
    assert!(theirs.starts_with(&ours), "{ours:?}, hyper {theirs:?}");
}

async fn collected<F: Future>(serve: impl FnOnce(Arc<Mutex<Vec<Message>>>) -> F) -> Vec<Message> {
    let notes = Arc::default();
    serve(Arc::clone(&notes)).await;
    std::mem::take(&mut *notes.lock().expect("no panic"))
}

fn asking(method: Method) -> Request<Body> {
    let mut request = Request::new(nothing());
    *request.method_mut() = method;
    request
}

async fn answer(method: Method, sent: &[u8], pieces: (&[u8], &[u8])) {
    let client = Client::new(1);
    let connect = || async { Ok::<_, BodyError>(Pieces::new(pieces)) };
    let Ok(Answer::Response(ours)) = client.send(asking(method.clone()), connect).await else {
        return;
    };
    let (parts, body) = ours.into_parts();
    let Some(ours) = read(parts.status.to_string(), parts.headers, body).await else {
        return;
    };
    let (mut near, far) = duplex(PIPE_BYTES);
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(far));
    let (mut sender, connection) = handshake.await.expect("a pipe");
    let driving = tokio::spawn(connection);
    let sending = async {
        near.read_u8().await.expect("a request");
        near.write_all(sent).await.expect("room");
        near.shutdown().await.expect("a pipe");
    };
    let (theirs, ()) = tokio::join!(sender.send_request(asking(method)), sending);
    let (parts, body) = theirs.expect("hyper takes it too").into_parts();
    let theirs = read(parts.status.to_string(), parts.headers, body).await;
    driving.abort();
    assert_eq!(Some(ours), theirs);
}
