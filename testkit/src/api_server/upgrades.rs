//! Upgraded connections, as exec and port-forward use them.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use fairlead_exchange::{Body, OnUpgrade, SocketTransport, serve_on};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{response::respond, script::ApiScript};

trait UpgradedIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> UpgradedIo for T {}

type Upgrading = Pin<Box<dyn Future<Output = Box<dyn UpgradedIo>> + Send>>;

/// The connection of a request after its answer, from an agent's stream or from a socket.
fn upgraded(request: &mut Request<Body>) -> Upgrading {
    if let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() {
        return Box::pin(async move { Box::new(upgrade.await.unwrap()) as Box<dyn UpgradedIo> });
    }
    let upgrade = hyper::upgrade::on(request);
    Box::pin(async move { Box::new(TokioIo::new(upgrade.await.unwrap())) as Box<dyn UpgradedIo> })
}

/// Greets, reads to the end of the input, repeats the input and closes.
///
/// Options of the query: `refuse` answers 403; `ends-first` closes after the greeting; `closes` sends a large frame and
/// closes at once.
pub(super) fn exec(request: &mut Request<Body>, script: &Arc<ApiScript>) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let has = |key: &str| query.split('&').any(|part| part == key);
    if has("refuse") {
        return respond(403, &[], "no exec for you");
    }
    let (ends_first, closes) = (has("ends-first"), has("closes"));
    let protocol = request.headers()["upgrade"].clone();
    let (script, upgrading) = (script.clone(), upgraded(request));
    tokio::spawn(async move {
        let mut io = upgrading.await;
        if closes {
            // A data frame on stream 1 of SPDY, larger than all buffers on the path.
            io.write_all(b"\0\0\0\x01\0\x20\0\0").await.unwrap();
            io.write_all(&vec![7; 0x0020_0000]).await.unwrap();
            io.shutdown().await.unwrap();
            drop(io);
            script
                .stream_inputs
                .lock()
                .unwrap()
                .push("closed".to_owned());
            return;
        }
        io.write_all(b"hello ").await.unwrap();
        if ends_first {
            io.shutdown().await.unwrap();
        }
        let mut input = Vec::new();
        let read = io.read_to_end(&mut input).await;
        if !ends_first && read.is_ok() {
            let _ = io.write_all(&input).await;
            let _ = io.shutdown().await;
        }
        let end = if read.is_ok() { "" } else { " (broken)" };
        let input = String::from_utf8(input).unwrap();
        script
            .stream_inputs
            .lock()
            .unwrap()
            .push(format!("{input}{end}"));
    });
    let mut response = respond(101, &[("connection", "Upgrade")], "");
    response.headers_mut().insert("upgrade", protocol);
    response
}

/// An exec over WebSocket: sends `hi` on the channel of the output, and reads to the end of the input.
pub(super) fn channels(request: &mut Request<Body>) -> Response<Body> {
    let subprotocol = request.headers()["sec-websocket-protocol"].clone();
    let upgrading = upgraded(request);
    tokio::spawn(async move {
        let mut io = upgrading.await;
        io.write_all(&[0x82, 3, 1, b'h', b'i']).await.unwrap();
        io.flush().await.unwrap();
        let _ = io.read_to_end(&mut Vec::new()).await;
    });
    let headers = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let mut response = respond(101, &headers, "");
    response
        .headers_mut()
        .insert("sec-websocket-protocol", subprotocol);
    response
}

/// Returns every byte, and says `bye` after the client's end. Input that starts with `break` breaks it.
pub(super) fn echo(request: &mut Request<Body>) -> Response<Body> {
    let upgrading = upgraded(request);
    tokio::spawn(async move {
        let mut io = upgrading.await;
        let mut buffer = [0; 4096];
        loop {
            let read = io.read(&mut buffer).await.unwrap();
            if read == 0 {
                break;
            }
            if buffer[..read].starts_with(b"break") {
                return;
            }
            io.write_all(&buffer[..read]).await.unwrap();
            io.flush().await.unwrap();
        }
        io.write_all(b"bye").await.unwrap();
        io.shutdown().await.unwrap();
    });
    respond(
        101,
        &[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ],
        "",
    )
}

/// A TCP connection to a target that speaks HTTP. It answers with the number of the connection; the path `/close` ends it.
pub(super) fn http_target(request: &mut Request<Body>, script: &Arc<ApiScript>) -> Response<Body> {
    let number = 1 + script.http_connections.fetch_add(1, SeqCst);
    let upgrading = upgraded(request);
    tokio::spawn(async move {
        let target = SocketTransport::new(upgrading.await);
        let answer = move |request: Request<Body>| async move {
            let closes = request.uri().path() == "/close";
            let headers: &[_] = if closes {
                &[("connection", "close")]
            } else {
                &[]
            };
            drop(request.into_body().collect().await);
            respond(200, headers, number.to_string())
        };
        // The hub ends it with a reset.
        let _ = serve_on(target, answer).await;
    });
    respond(200, &[], "")
}

/// A TCP connection to a target that returns every byte, and then the end. Input that starts with `break` breaks it.
pub(super) fn tunnel(request: &mut Request<Body>, script: &Arc<ApiScript>) -> Response<Body> {
    let (script, upgrading) = (script.clone(), upgraded(request));
    tokio::spawn(async move {
        let mut io = upgrading.await;
        let (mut buffer, mut input) = ([0; 4096], Vec::new());
        let end = loop {
            let bytes = match io.read(&mut buffer).await {
                Ok(0) => break "",
                Ok(read) => &buffer[..read],
                Err(_) => break " (broken)",
            };
            input.extend_from_slice(bytes);
            if bytes.starts_with(b"break") || io.write_all(bytes).await.is_err() {
                return;
            }
            let _ = io.flush().await;
        };
        if end.is_empty() {
            let _ = io.shutdown().await;
        }
        let input = String::from_utf8_lossy(&input);
        let mut inputs = script.stream_inputs.lock().unwrap();
        inputs.push(format!("{input}{end}"));
    });
    respond(200, &[], "")
}
