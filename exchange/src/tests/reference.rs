//! Comparison with hyper: accepted input is read as hyper reads it, and input that hyper reads
//! differently is refused.

use std::{convert::Infallible, sync::Arc};

use http::Method;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::{
    script::{ReadMessage, Script, ScriptEnd, answered, kind, served},
    *,
};

/// Requests that hyper's server reads from these bytes, up to the first one it refuses.
pub(super) async fn served_by_hyper(sent: &[u8]) -> Vec<ReadMessage> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let notes = notes.clone();
        async move {
            let (parts, body) = request.into_parts();
            let line = format!("{} {}", parts.method, parts.uri);
            let message = ReadMessage::read(line, parts.headers, body).await;
            lock(&notes).push(message);
            Ok::<_, Infallible>(Response::new(empty()))
        }
    });
    let (mut near, far) = duplex(1 << 20);
    near.write_all(sent).await.unwrap();
    near.shutdown().await.unwrap();
    let _ = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(far), service)
        .await;
    std::mem::take(&mut *lock(&seen))
}

/// Response that hyper's client reads from these bytes, followed by an end.
async fn answered_by_hyper(method: Method, sent: &[u8]) -> Option<ReadMessage> {
    let (mut near, far) = duplex(1 << 20);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(far))
        .await
        .unwrap();
    let driving = tokio::spawn(connection);
    let in_flight = sender.send_request(kind(method));
    let answering = async {
        // Not before the request has arrived: hyper would see a response to nothing.
        near.read_u8().await.unwrap();
        near.write_all(sent).await.unwrap();
        near.shutdown().await.unwrap();
    };
    let (answer, ()) = tokio::join!(in_flight, answering);
    let (parts, body) = answer.ok()?.into_parts();
    let line = parts.status.as_str().to_owned();
    let message = ReadMessage::read(line, parts.headers, body).await;
    driving.abort();
    Some(message)
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

/// A line of a head, valid or not.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("host: a\r\n".to_owned()),
        4 => (0..9_u8).prop_map(|n| format!("content-length: {n}\r\n")),
        4 => Just("transfer-encoding: chunked\r\n".to_owned()),
        2 => Just("Connection: close\r\n".to_owned()),
        2 => "[a-zA-Z0-9-]{1,8}:[ \t]?[ -~\t]{0,12}[ \t]?\r\n",
        1 => Just("expect: 100-continue\r\n".to_owned()),
        1 => Just("trailer: x\r\n".to_owned()),
        1 => "[a-z]{1,4}[ \t:]{0,2}[\\x00-\\x7f]{0,6}(\r\n|\n|\r)",
        1 => Just("content-length:\t3 \r\n".to_owned()),
        1 => Just("content-length: 3, 3\r\n".to_owned()),
        1 => Just("transfer-encoding: gzip, chunked\r\n".to_owned()),
        1 => Just("transfer-encoding: chunked, chunked\r\n".to_owned()),
        1 => Just("x: 1\r\n y\r\n".to_owned()),
        1 => Just("content-length : 3\r\n".to_owned()),
    ]
}

fn body() -> impl Strategy<Value = String> {
    let chunk = prop_oneof![
        4 => "[a-z]{1,20}".prop_map(|data| format!("{:x}\r\n{data}\r\n", data.len())),
        1 => "[a-z]{1,20}".prop_map(|data| format!("{:X};e=1\r\n{data}\r\n", data.len())),
        1 => "[0-9a-f]{1,3}[ ;\r\n]{1,3}[a-z]{0,4}\r?\n",
    ];
    let chunks = proptest::collection::vec(chunk, 0..4).prop_map(|chunks| chunks.concat());
    prop_oneof![
        2 => Just(String::new()),
        2 => "[a-z]{0,9}",
        3 => chunks.clone().prop_map(|chunks| format!("{chunks}0\r\n\r\n")),
        1 => chunks.clone().prop_map(|chunks| format!("{chunks}0\r\nx: 1\r\n\r\n")),
        1 => chunks,
    ]
}

pub(super) fn message(lines: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(lines);
    let fields = proptest::collection::vec(field(), 0..5);
    let noise = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (line, fields, body(), noise).prop_map(|(line, fields, body, noise)| {
        let mut message = format!("{line}{}\r\n{body}", fields.concat()).into_bytes();
        if let Some((at, byte)) = noise {
            let at = at.index(message.len());
            message[at] = byte;
        }
        message
    })
}

const REQUEST_LINES: &[&str] = &[
    "GET / HTTP/1.1\r\nhost: a\r\n",
    "POST /x HTTP/1.1\r\nhost: a\r\n",
    "PUT /x?y#z HTTP/1.1\r\nhost: a\r\n",
    "GET / HTTP/1.1\r\n",
    "GET / HTTP/1.0\r\nhost: a\r\n",
    "\r\nGET / HTTP/1.1\r\nhost: a\r\n",
    "GET http://b/ HTTP/1.1\r\nhost: a\r\n",
    "HEAD /y HTTP/1.1\nhost: a\r\n",
];

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 404 Not Found\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200\r\n",
    "HTTP/1.1 200 OK\n",
    "HTTP/1.1 101 Switching\r\n",
];

/// hyper removes fields that it has processed.
pub(super) fn comparable(mut message: ReadMessage) -> ReadMessage {
    message.headers.remove(header::TRANSFER_ENCODING);
    message
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn accepted_requests_are_read_as_by_hyper(
        messages in proptest::collection::vec(message(REQUEST_LINES), 1..3),
    ) {
        let sent = messages.concat();
        runtime().block_on(async {
            let (script, _) = Script::new(&[&sent], ScriptEnd::Clean);
            let (ours, _) = served(script).await;
            let theirs = served_by_hyper(&sent).await;
            let mut theirs = theirs.into_iter().map(comparable);
            for message in ours.into_iter().filter(|message| message.body.is_some()) {
                assert_eq!(Some(comparable(message)), theirs.next(), "of {:?}", String::from_utf8_lossy(&sent));
            }
        });
    }

    #[test]
    fn accepted_responses_are_read_as_by_hyper(
        sent in message(STATUS_LINES),
        method in prop_oneof![Just(Method::GET), Just(Method::HEAD), Just(Method::POST)],
    ) {
        runtime().block_on(async {
            let (script, _) = Script::new(&[&sent], ScriptEnd::Clean);
            if let Ok((ours, _)) = answered(kind(method.clone()), script).await {
                let theirs = answered_by_hyper(method, &sent).await.map(comparable);
                assert_eq!(Some(comparable(ours)), theirs, "of {:?}", String::from_utf8_lossy(&sent));
            }
        });
    }
}
