//! Tests of requests for TCP connections.

use bytes::Bytes;
use http_body_util::Empty;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::Instant,
};

use super::*;
use crate::front::pings::{PING_INTERVAL, WebSocketPings};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path)
        .header("host", "hub.test")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", KEY)
        .header("sec-websocket-protocol", "other, v1.tcp.fairlead.io")
        .body(Empty::new())
        .unwrap()
}

#[test]
fn websocket_of_a_client_becomes_a_connect() {
    for (segment, target) in [
        ("db.shop:5432", "db.shop:5432"),
        ("%5Bfd00::1%5D:22", "[fd00::1]:22"),
    ] {
        let tcp = TcpRequest::of(&request(&format!("/v1/clusters/c-a/tcp/{segment}"))).unwrap();
        let (mut head, _) = request("/x").into_parts();
        tcp.set_connect(&mut head);
        assert_eq!(
            (head.method, head.uri.to_string().as_str()),
            (Method::CONNECT, target)
        );
        assert!(head.headers.is_empty());
        let answer = tcp.into_answer();
        assert_eq!(answer.status(), 101);
        // RFC 6455, section 1.3.
        assert_eq!(
            answer.headers()["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert_eq!(answer.headers()["sec-websocket-protocol"], TCP_PROTOCOL);
    }
}

#[test]
fn target_in_another_spelling_is_refused() {
    for segment in [
        "",
        "db",
        "db:",
        ":80",
        "db:0",
        "db:65536",
        "db:080",
        "db:+80",
        "db:80:80",
        "DB:80",
        "db.:80",
        ".db:80",
        "user@db:80",
        "u:p@db:80",
        "db%2D:80",
        "db%00:80",
        "db%0d%0a:80",
        "db%20:80",
        "db%40x:80",
        "127.1:80",
        "0x7f.1:80",
        "2130706433:80",
        "0177.0.0.1:80",
        "fd00::1:80",
        "[fd00::1:80",
        "%5Bfe80::1%25eth0%5D:80",
        "%5B::ffff:127.0.0.1%5D:80",
        "%5B0::1%5D:80",
        "http:%2F%2Fdb:80",
        "http://db:80",
        "db:80/",
        "db:80/x",
        "a/../db:80",
        "db:80%3A",
    ] {
        let path = format!("/v1/clusters/c-a/tcp/{segment}");
        let error = TcpRequest::of(&request(&path)).err().unwrap();
        assert_eq!(error.code(), Code::TcpTargetInvalid, "{segment}");
    }
}

#[test]
fn anything_but_our_websocket_is_refused() {
    let path = "/v1/clusters/c-a/tcp/db:80";
    let refused = |change: &dyn Fn(&mut Request<Empty<Bytes>>)| {
        let mut request = request(path);
        change(&mut request);
        TcpRequest::of(&request).err().unwrap().code()
    };
    let set = |name: &'static str, value: &'static str| {
        move |request: &mut Request<Empty<Bytes>>| {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
    };
    assert!(TcpRequest::of(&request(path)).is_ok());
    for (name, value) in [
        ("connection", "close"),
        ("upgrade", "h2c"),
        ("upgrade", "SPDY/3.1"),
        ("sec-websocket-version", "8"),
        ("sec-websocket-key", "short"),
        ("sec-websocket-protocol", "v1.tcp.fairlead.io.x"),
        ("sec-websocket-protocol", "V1.TCP.fairlead.io"),
    ] {
        assert_eq!(
            refused(&set(name, value)),
            Code::TcpUpgradeMissing,
            "{name}: {value}"
        );
    }
    assert_eq!(
        refused(&|it| *it.method_mut() = Method::POST),
        Code::TcpUpgradeMissing
    );
    assert_eq!(
        refused(&|it| *it.version_mut() = Version::HTTP_2),
        Code::TcpUpgradeMissing
    );
    assert_eq!(
        refused(&|it| *it.uri_mut() = Uri::from_static("/v1/clusters/c-a/tcp/db:80?x")),
        Code::TcpUpgradeMissing
    );
    for name in ["impersonate-user", "impersonate-group"] {
        assert_eq!(refused(&set(name, "ann")), Code::NoImpersonation);
    }
}

#[test]
fn close_frame_names_the_side_that_failed() {
    let status =
        |end| last_bytes(&end).map(|last| u16::from_be_bytes([last.message[2], last.message[3]]));
    let broken = || io::Error::other("x");
    assert_eq!(status(SpliceEnd::Clean), Some(1000));
    assert_eq!(status(SpliceEnd::B(broken())), Some(1011));
    assert_eq!(status(SpliceEnd::A(broken())), None);
    assert_eq!(
        status(SpliceEnd::A(ByteSocketError::AfterEnd.into())),
        Some(1002)
    );
    assert_eq!(status(SpliceEnd::A(ByteSocketError::Cut.into())), None);
    let last = last_bytes(&SpliceEnd::B(broken())).unwrap().message;
    assert!(last[4..].starts_with(b"FL-1422: "), "{last:?}");
}

/// A client's WebSocket and the agent's stream, joined by a task.
struct JoinedPair {
    client: DuplexStream,
    agent: DuplexStream,
    end: JoinHandle<SpliceEnd>,
}

/// Half-close of a client: an empty message, masked with zeros.
const HALF_CLOSE: &[u8] = b"\x82\x80\0\0\0\0";
const PING: [u8; 2] = [0x89, 0];

fn join() -> JoinedPair {
    let ((client, hub), (stream, agent)) = (duplex(1024), duplex(1024));
    let agents = Upgraded::new(stream, Bytes::new());
    let splicing = splice_tcp(WebSocketPings::new(hub), agents);
    JoinedPair {
        client,
        agent,
        end: tokio::spawn(async { splicing.await.end }),
    }
}

async fn frame<const N: usize>(from: &mut DuplexStream) -> [u8; N] {
    let mut frame = [0; N];
    from.read_exact(&mut frame).await.unwrap();
    frame
}

#[tokio::test(start_paused = true)]
async fn client_gets_pings_after_its_half_close() {
    let JoinedPair {
        mut client,
        mut agent,
        end,
    } = join();
    let begin = Instant::now();
    client.write_all(HALF_CLOSE).await.unwrap();
    assert_eq!(agent.read(&mut [0]).await.unwrap(), 0, "the target's end");
    for count in 1..=3 {
        assert_eq!(frame(&mut client).await, PING);
        assert_eq!(begin.elapsed(), PING_INTERVAL * count);
        // Its answer, and a ping of its own.
        client.write_all(b"\x8a\x80\0\0\0\0").await.unwrap();
    }
    client.write_all(b"\x89\x81\0\0\0\0x").await.unwrap();
    assert_eq!(&frame(&mut client).await, b"\x8a\x01x");
    agent.write_all(b"late").await.unwrap();
    assert_eq!(&frame(&mut client).await, b"\x82\x04late");
    agent.shutdown().await.unwrap();
    assert_eq!(frame(&mut client).await, [0x82, 0]);
    assert!(matches!(end.await.unwrap(), SpliceEnd::Clean));
}

#[tokio::test(start_paused = true)]
async fn client_gets_pings_after_the_half_close_of_the_target() {
    let JoinedPair {
        mut client,
        mut agent,
        end,
    } = join();
    agent.shutdown().await.unwrap();
    assert_eq!(frame(&mut client).await, [0x82, 0]);
    assert_eq!(frame(&mut client).await, PING);
    client.write_all(b"\x82\x81\0\0\0\0x").await.unwrap();
    client.write_all(HALF_CLOSE).await.unwrap();
    let mut received = Vec::new();
    agent.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"x");
    assert!(matches!(end.await.unwrap(), SpliceEnd::Clean));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_client_that_waits_is_noticed_at_once() {
    for (last, status) in [
        (&b""[..], None),
        (b"\x88\x82\0\0\0\0\x03\xe9", None),
        (b"\x82\x81\0\0\0\0x", Some(PROTOCOL_ERROR)),
    ] {
        let mut joined = join();
        let begin = Instant::now();
        joined.client.write_all(HALF_CLOSE).await.unwrap();
        joined.client.write_all(last).await.unwrap();
        let stays = (!last.is_empty()).then_some(joined.client);
        let end = joined.end.await.unwrap();
        assert!(matches!(end, SpliceEnd::A(_)), "{end:?}");
        let close =
            last_bytes(&end).map(|last| u16::from_be_bytes([last.message[2], last.message[3]]));
        assert_eq!(close, status, "{last:?}");
        assert_eq!(begin.elapsed().as_secs(), 0);
        drop((stays, joined.agent));
    }
}
