use std::future::ready;

use tokio::{io::duplex, sync::oneshot};

use super::*;
use crate::{
    link::frame::{self, Frame},
    rig::{OURS, agent_inner, hub_inner},
};

fn request() -> http::request::Builder {
    Request::builder().uri(CONNECT_PATH)
}

const GOOD: &[(&str, &str)] = &[
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "fairlead.v2, fairlead.v1"),
];

fn with(changed: &str, value: Option<&str>) -> Request<()> {
    let mut builder = request();
    for (name, good) in GOOD {
        let value = if *name == changed { value } else { Some(*good) };
        if let Some(value) = value {
            builder = builder.header(*name, value);
        }
    }
    builder.body(()).unwrap()
}

#[test]
fn valid_upgrade_request_gets_the_accept_key_of_the_rfc() {
    let head = upgrade_response(&with("", None)).unwrap();
    assert_eq!(head.status(), StatusCode::SWITCHING_PROTOCOLS);
    let of = |name: &str| head.headers()[name].to_str().unwrap();
    // RFC 6455, 1.3.
    assert_eq!(of("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(of("sec-websocket-protocol"), SUBPROTOCOL);
    assert!(httpdate::parse_http_date(of("date")).is_ok());
}

#[test]
fn incomplete_or_invalid_upgrade_request_is_refused() {
    use StatusCode as S;
    let table = [
        ("connection", None, S::UPGRADE_REQUIRED),
        ("connection", Some("close"), S::UPGRADE_REQUIRED),
        ("upgrade", None, S::UPGRADE_REQUIRED),
        ("upgrade", Some("SPDY/3.1"), S::UPGRADE_REQUIRED),
        ("sec-websocket-version", Some("8"), S::UPGRADE_REQUIRED),
        ("sec-websocket-key", None, S::BAD_REQUEST),
        ("sec-websocket-key", Some("short=="), S::BAD_REQUEST),
        ("sec-websocket-protocol", None, S::BAD_REQUEST),
        ("sec-websocket-protocol", Some("chat"), S::BAD_REQUEST),
        (
            "sec-websocket-protocol",
            Some("FAIRLEAD.V1"),
            S::BAD_REQUEST,
        ),
    ];
    for (name, value, status) in table {
        let refused = upgrade_response(&with(name, value)).unwrap_err();
        assert_eq!(refused, status, "{name}: {value:?}");
    }
    let mut post = with("", None);
    *post.method_mut() = Method::POST;
    assert_eq!(upgrade_response(&post).unwrap_err(), S::METHOD_NOT_ALLOWED);
    let mut twice = with("", None);
    let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
    twice.headers_mut().append("sec-websocket-key", key);
    assert_eq!(upgrade_response(&twice).unwrap_err(), S::BAD_REQUEST);
}

/// Answer of the hub to an eviction, as its own error and as that of the agent.
async fn evicted_at(
    evicted: impl Future<Output = ()>,
    agent: impl Future<Output = ()>,
    io: tokio::io::DuplexStream,
) {
    let known = Resumable::default();
    let limits = Limits::default();
    let accepting = accept_resumable(io, hub_inner(&OURS), limits, &known, evicted);
    let (accepted, ()) = tokio::join!(accepting, agent);
    let error = accepted.err().expect("it was accepted");
    assert_eq!(error.code, fairlead_api::Code::HandshakesFull);
}

#[tokio::test(start_paused = true)]
async fn agent_evicted_before_its_hello_gets_the_reason() {
    let (io, hub) = duplex(64 * 1024);
    // It sends nothing, so it loses its place before its HELLO.
    let agent = async {
        let mut socket = Socket::new(io, &[], SocketRole::Agent);
        let message = socket.receive().await.unwrap();
        let busy = CloseReason::Busy.code();
        assert!(matches!(frame::decode(message), Ok(Frame::Close(code)) if code == busy));
    };
    evicted_at(ready(()), agent, hub).await;
}

#[tokio::test(start_paused = true)]
async fn agent_evicted_within_its_inner_handshake_gets_the_reason() {
    let (io, hub) = duplex(64 * 1024);
    let (evict, evicted) = oneshot::channel();
    let agent = async {
        let mut socket = Socket::new(io, &[], SocketRole::Agent);
        let limits = Limits::default();
        let agreed = wire::offer(&mut socket, wire::VERSIONS, &limits, None);
        let agreed = agreed.await.unwrap();
        evict.send(()).unwrap();
        let secured = secure::client(socket, agreed, agent_inner(&OURS, None), &limits).await;
        let error = DialError::from(secured.err().expect("a session"));
        assert_eq!(
            (error.stage, error.code),
            (DialStage::Link, fairlead_api::Code::HandshakesFull)
        );
    };
    let evicted = async { evicted.await.unwrap() };
    evicted_at(evicted, agent, hub).await;
}
