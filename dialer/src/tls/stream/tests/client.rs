//! The client's side, with tokio-rustls as the server.

use std::ops::Range;

use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server};

use super::*;
use crate::{
    input_gate::{InputGate, PollInput},
    rig::stale_hub_outer,
    tls::ClientTls,
};

type Server = server::TlsStream<DuplexStream>;

fn name_of(host: &'static str) -> ServerName<'static> {
    ServerName::try_from(host).unwrap()
}

async fn connect(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> (io::Result<ClientTls<DuplexStream>>, io::Result<Server>) {
    let (near, far) = duplex(1 << 16);
    let connecting = ClientTls::connect(near, client, name_of("localhost"));
    tokio::join!(connecting, TlsAcceptor::from(server).accept(far))
}

async fn pair() -> (ClientTls<DuplexStream>, Server) {
    let (client, server) = connect(agent_outer(&OURS), hub_outer()).await;
    (client.unwrap(), server.unwrap())
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(test)
}

/// Writes pieces of these sizes and ends. Returns what the peer wrote, read in pieces of `read` bytes, and how it ended.
async fn exchange(
    io: impl AsyncRead + AsyncWrite,
    pieces: &[usize],
    read: usize,
) -> (Vec<u8>, io::Result<()>) {
    let (mut reader, mut writer) = tokio::io::split(io);
    let sent = pattern(pieces.iter().sum());
    let writing = async {
        let mut rest = &*sent;
        for piece in pieces {
            let (now, later) = rest.split_at(*piece);
            writer.write_all(now).await?;
            writer.flush().await?;
            rest = later;
        }
        writer.shutdown().await
    };
    let reading = async {
        let (mut got, mut block) = (Vec::new(), vec![0; read]);
        loop {
            match reader.read(&mut block).await {
                Ok(0) => return (got, Ok(())),
                Ok(bytes) => got.extend_from_slice(&block[..bytes]),
                Err(error) => return (got, Err(error)),
            }
        }
    };
    // A peer that is gone takes nothing.
    let (_, read) = tokio::join!(writing, reading);
    read
}

/// Passes bytes in pieces of `piece`, up to `limit` of them, and then ends this direction.
async fn relay(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    piece: usize,
    limit: u64,
) {
    let (mut from, mut block) = (from.take(limit), vec![0; piece]);
    while let Ok(read @ 1..) = from.read(&mut block).await {
        if to.write_all(&block[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// Sizes of a byte, about a record, or more.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1..4_usize, 16_380..16_390_usize, 30_000..70_000_usize];
    prop::collection::vec(size, 0..4)
}

/// Sizes of a read: a byte, about a record, or all.
fn parts() -> impl Strategy<Value = usize> {
    prop_oneof![1..4_usize, 16_380..16_410_usize, Just(1 << 17)]
}

/// Capacities of a pipe. In one of fewer than six bytes, both sides write at the same time in the handshake, and neither reads.
fn pipes() -> impl Strategy<Value = usize> {
    prop_oneof![6..100_usize, parts().prop_map(|size| size.max(6))]
}

const ANY_CUT: Range<u64> = 0..60_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pieces_of_any_size_pass_both_ways_at_once(
        up in sizes(),
        down in sizes(),
        (pipe, client_reads, server_reads) in (pipes(), parts(), parts()),
        version in prop::sample::select(vec![&TLS12, &TLS13]),
    ) {
        let (near, far) = duplex(pipe);
        let (client, server) = only(version);
        let (of_server, of_client) = run(async {
            tokio::join!(
                async {
                    let tls = ClientTls::connect(near, client, name_of("localhost")).await;
                    exchange(tls.unwrap(), &up, client_reads).await
                },
                async {
                    let tls = TlsAcceptor::from(server).accept(far).await;
                    exchange(tls.unwrap(), &down, server_reads).await
                },
            )
        });
        of_server.1.unwrap();
        of_client.1.unwrap();
        prop_assert!(of_server.0 == pattern(down.iter().sum()));
        prop_assert!(of_client.0 == pattern(up.iter().sum()));
    }

    #[test]
    fn connection_that_is_cut_anywhere_never_ends_cleanly(
        cut in ANY_CUT,
        piece in parts(),
        version in prop::sample::select(vec![&TLS12, &TLS13]),
    ) {
        let sent = [1, 16_384, 20_000];
        let (near, its_near) = duplex(1 << 16);
        let (far, its_far) = duplex(1 << 16);
        let (client, server) = only(version);
        let (outcome, ..) = run(async {
            let (from_client, to_client) = tokio::io::split(its_near);
            let (from_server, to_server) = tokio::io::split(its_far);
            tokio::join!(
                async {
                    let tls = ClientTls::connect(near, client, name_of("localhost")).await?;
                    Ok::<_, io::Error>(exchange(tls, &[], 5000).await)
                },
                async {
                    if let Ok(tls) = TlsAcceptor::from(server).accept(far).await {
                        let _ = exchange(tls, &sent, 5000).await;
                    }
                },
                relay(from_client, to_server, 1 << 16, u64::MAX),
                relay(from_server, to_client, piece, cut),
            )
        });
        let whole = pattern(sent.iter().sum());
        let (got, end) = outcome.unwrap_or_else(|error| (Vec::new(), Err(error)));
        match end {
            Ok(()) => prop_assert!(got == whole),
            Err(error) => {
                prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                prop_assert!(whole.starts_with(&got));
            }
        }
    }
}

/// Kinds and texts of the errors of our client and of tokio-rustls, for one failure. `answer` plays the server.
async fn failures<F: Future>(
    client: &Arc<ClientConfig>,
    host: &'static str,
    answer: impl Fn(DuplexStream) -> F,
) -> [String; 2] {
    let text = |error: io::Error| format!("{:?}: {error}", error.kind());
    let (near, far) = duplex(1 << 16);
    let own = async {
        let mut tls = ClientTls::connect(near, client.clone(), name_of(host)).await?;
        tls.read_u8().await
    };
    let (own, _) = tokio::join!(own, answer(far));
    let (near, far) = duplex(1 << 16);
    let other = async {
        let connector = TlsConnector::from(client.clone());
        let mut tls = connector.connect(name_of(host), near).await?;
        tls.read_u8().await
    };
    let (other, _) = tokio::join!(other, answer(far));
    [text(own.unwrap_err()), text(other.unwrap_err())]
}

#[tokio::test]
async fn failed_handshake_has_the_error_of_tokio_rustls() {
    let ours = agent_outer(&OURS);
    let (new, _) = only(&TLS13);
    let (_, old) = only(&TLS12);
    let mut h2 = ServerConfig::clone(&hub_outer());
    h2.alpn_protocols = vec![b"h2".to_vec()];
    let cases = [
        (
            agent_outer(&FOREIGN),
            hub_outer(),
            "localhost",
            "BadSignature",
        ),
        (ours.clone(), hub_outer(), "other.test", "other.test"),
        (ours.clone(), stale_hub_outer(), "localhost", "expired"),
        (new, old, "localhost", "ProtocolVersion"),
        (
            ours.clone(),
            h2.into(),
            "localhost",
            "NoApplicationProtocol",
        ),
    ];
    for (client, server, host, named) in cases {
        let answer = |far| TlsAcceptor::from(server.clone()).accept(far);
        let [own, other] = failures(&client, host, answer).await;
        assert_eq!(timeless(&own), timeless(&other));
        assert!(own.contains(named), "{own}");
    }
}

/// An error without its numbers: a second may pass between two handshakes, and an expired certificate is older then.
fn timeless(error: &str) -> String {
    error.replace(|letter: char| letter.is_ascii_digit(), "")
}

#[tokio::test]
async fn peer_without_tls_is_reported_as_by_tokio_rustls() {
    let ours = agent_outer(&OURS);
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\x16\x03\x03\x00\x02\x63\x00",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"",
    ] {
        let play = async |mut far: DuplexStream| {
            far.write_all(answer).await.unwrap();
            far.shutdown().await.unwrap();
            let _ = far.read_to_end(&mut Vec::new()).await;
        };
        let [own, other] = failures(&ours, "localhost", play).await;
        assert_eq!(own, other);
    }
}

#[tokio::test]
async fn server_learns_why_it_is_not_trusted() {
    let (client, server) = connect(agent_outer(&FOREIGN), hub_outer()).await;
    client.err().expect("the client accepts no such server");
    let error = server.unwrap_err();
    assert!(error.to_string().contains("DecryptError"), "{error}");
}

#[tokio::test]
async fn name_and_protocol_are_sent() {
    let (client, server) = pair().await;
    assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(server.get_ref().1.server_name(), Some("localhost"));
}

#[tokio::test]
async fn idle_client_keeps_no_buffer() {
    let (mut client, mut server) = pair().await;
    assert_eq!(buffered(&client), [0; 3], "after the handshake");
    client.write_all(b"question").await.unwrap();
    assert_eq!(buffered(&client), [0; 3], "after a question");
    let mut got = [0; 8];
    server.read_exact(&mut got).await.unwrap();
    server.write_all(&got).await.unwrap();
    server.flush().await.unwrap();
    client.read_exact(&mut got).await.unwrap();
    assert_eq!((&got, buffered(&client)), (b"question", [0; 3]));
}

#[tokio::test]
async fn new_keys_of_both_sides_are_taken() {
    let (mut client, mut server) = pair().await;
    let mut got = [0; 5];
    for _ in 0..3 {
        // The client answers with new keys of its own.
        server.get_mut().1.refresh_traffic_keys().unwrap();
        server.write_all(b"after").await.unwrap();
        server.flush().await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        client.write_all(&got).await.unwrap();
        server.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"after");
    }
}

#[tokio::test]
async fn client_that_has_ended_still_reads() {
    let (mut client, mut server) = pair().await;
    client.shutdown().await.unwrap();
    let error = client.write_all(b"more").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0, "a clean end");
    server.write_all(b"late").await.unwrap();
    server.shutdown().await.unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"late");
}

#[tokio::test]
async fn client_still_writes_after_the_end_of_the_server() {
    let (mut client, mut server) = pair().await;
    server.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "a clean end");
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"late");
}

#[tokio::test]
async fn ticket_of_the_server_resumes_its_session() {
    for version in [&TLS12, &TLS13] {
        let (client, server) = only(version);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (client, server) = connect(client.clone(), server.clone()).await;
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            server.write_all(b"!").await.unwrap();
            server.flush().await.unwrap();
            client.read_u8().await.unwrap();
            kinds.push(server.get_ref().1.handshake_kind().unwrap());
        }
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
    }
}

/// A connection that never reports input.
struct Silent(DuplexStream);

impl PollInput for Silent {
    fn poll_input(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl AsyncRead for Silent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Silent {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn only_after_a_pending_read_the_connection_determines_whether_there_is_input() {
    let (near, far) = duplex(1 << 16);
    let connecting = ClientTls::connect(Silent(near), agent_outer(&OURS), name_of("localhost"));
    let accepting = TlsAcceptor::from(hub_outer()).accept(far);
    let (client, server) = tokio::join!(connecting, accepting);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(client.poll_input(&mut cx).is_ready(), "not read yet");

    server.write_all(b"12").await.unwrap();
    server.flush().await.unwrap();
    let mut piece = [0; 1];
    for byte in b"12" {
        client.read_exact(&mut piece).await.unwrap();
        assert_eq!(piece, [*byte]);
        assert!(client.poll_input(&mut cx).is_ready(), "it may hold more");
    }
    let mut buf = ReadBuf::new(&mut piece);
    let read = Pin::new(&mut client).poll_read(&mut cx, &mut buf);
    assert!(read.is_pending());
    assert!(client.poll_input(&mut cx).is_pending());

    server.write_all(b"3").await.unwrap();
    server.flush().await.unwrap();
    let mut gate = InputGate::new(client);
    let mut buf = ReadBuf::new(&mut piece);
    let read = Pin::new(&mut gate).poll_read(&mut cx, &mut buf);
    assert!(read.is_pending());
    gate.get_mut().read_exact(&mut piece).await.unwrap();
    assert!(gate.get_ref().poll_input(&mut cx).is_ready());
}
