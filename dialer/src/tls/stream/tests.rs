mod client;

use std::sync::Arc;

use rustls::{
    ClientConfig, HandshakeKind, ServerConfig, ServerConnection, SupportedProtocolVersion,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::{
    limits::OUTER_TLS_BUFFER_BYTES,
    rig::{FOREIGN, OURS, agent_outer, hub_outer},
    tls::{ServerTls, records::RECORD_OVERHEAD},
};

type Client = TlsStream<DuplexStream>;

async fn connect(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    pipe: usize,
) -> (io::Result<Client>, io::Result<ServerTls<DuplexStream>>) {
    let (near, far) = duplex(pipe);
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(client).connect(name, near);
    tokio::join!(connecting, ServerTls::accept(far, server))
}

async fn pair(pipe: usize) -> (Client, ServerTls<DuplexStream>) {
    let (client, server) = connect(agent_outer(&OURS), hub_outer(), pipe).await;
    (client.unwrap(), server.unwrap())
}

/// Both configurations with one version, without resumption.
fn only(version: &'static SupportedProtocolVersion) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (client, server) = (agent_outer(&OURS), hub_outer());
    let of_client = ClientConfig::builder_with_provider(Arc::clone(client.crypto_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(OURS.roots())
        .with_no_client_auth();
    let of_server = ServerConfig::builder_with_provider(Arc::clone(server.crypto_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&server.cert_resolver));
    (Arc::new(of_client), Arc::new(of_server))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8).collect()
}

/// Bytes of the connection's buffers.
fn buffered<S>(tls: &super::TlsStream<DuplexStream, S>) -> [usize; 3] {
    [
        tls.sealed.capacity(),
        tls.plain.capacity(),
        tls.output.capacity(),
    ]
}

async fn echo(mut client: Client, mut server: ServerTls<DuplexStream>, bytes: usize) {
    let sent = pattern(bytes);
    let (mut to_server, mut from_client) = (Vec::new(), vec![0; 1000]);
    let receiving = async {
        loop {
            let read = server.read(&mut from_client).await.unwrap();
            if read == 0 {
                break;
            }
            to_server.extend_from_slice(&from_client[..read]);
        }
        server.write_all(&to_server).await.unwrap();
        server.shutdown().await.unwrap();
    };
    let sending = async {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        back
    };
    let ((), back) = tokio::join!(receiving, sending);
    assert!(to_server == sent && back == sent, "{bytes}");
}

#[tokio::test]
async fn data_of_any_size_passes_both_ways_until_a_clean_end() {
    // Nobody reads tickets before the end of both handshakes, and a small pipe cannot carry them.
    let mut config = ServerConfig::clone(&hub_outer());
    config.send_tls13_tickets = 0;
    let config = Arc::new(config);
    for (bytes, pipe) in [
        (0, 64),
        (1, 64),
        (1000, 7),
        (16_384, 4096),
        (16_385, 100),
        (700_000, 50_000),
    ] {
        let (client, server) = connect(agent_outer(&OURS), config.clone(), pipe).await;
        echo(client.unwrap(), server.unwrap(), bytes).await;
    }
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    for version in [&TLS12, &TLS13] {
        let (client, server) = only(version);
        let (client, server) = connect(client, server, 1 << 16).await;
        echo(client.unwrap(), server.unwrap(), 100_000).await;
    }
}

#[tokio::test]
async fn name_and_protocol_of_the_handshake_are_reported() {
    let (_client, server) = pair(1 << 16).await;
    assert_eq!(server.server_name().map(|name| &**name), Some("localhost"));
    assert_eq!(server.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn idle_connection_keeps_no_buffer() {
    let (mut client, mut server) = pair(1 << 16).await;
    assert_eq!(buffered(&server), [0; 3], "after the handshake");
    client.write_all(b"question").await.unwrap();
    client.flush().await.unwrap();
    let mut got = [0; 8];
    server.read_exact(&mut got[..3]).await.unwrap();
    assert_eq!(buffered(&server), [0, 5, 0], "unread data");
    server.read_exact(&mut got[3..]).await.unwrap();
    assert_eq!((&got, buffered(&server)), (b"question", [0; 3]));
    server.write_all(b"answer").await.unwrap();
    assert_eq!(buffered(&server), [0; 3], "after an answer");
    client.read_exact(&mut got[..6]).await.unwrap();
    assert_eq!(&got[..6], b"answer");
}

#[tokio::test]
async fn beginning_of_a_record_keeps_its_own_size_only() {
    let (mut client, mut server) = pair(1 << 16).await;
    // A record of 10,000 bytes, of which the pipe carries the first part.
    let mut whole = Vec::new();
    client.get_mut().1.writer().write_all_now(&pattern(10_000));
    client.get_mut().1.write_tls(&mut whole).unwrap();
    client.get_mut().0.write_all(&whole[..600]).await.unwrap();
    let mut got = vec![0; 10_000];
    let polled = poll_fn(|cx| {
        let mut buf = ReadBuf::new(&mut got);
        Poll::Ready(Pin::new(&mut server).poll_read(cx, &mut buf).is_pending())
    });
    assert!(polled.await);
    let [sealed, plain, output] = buffered(&server);
    assert!((600..2000).contains(&sealed), "{sealed}");
    assert_eq!((plain, output), (0, 0));
    server
        .write_all(b"a write between both parts")
        .await
        .unwrap();
    client.get_mut().0.write_all(&whole[600..]).await.unwrap();
    server.read_exact(&mut got).await.unwrap();
    assert!(got == pattern(10_000));
}

trait WriteNow {
    fn write_all_now(&mut self, bytes: &[u8]);
}

impl<T: io::Write> WriteNow for T {
    fn write_all_now(&mut self, bytes: &[u8]) {
        io::Write::write_all(self, bytes).unwrap();
    }
}

#[tokio::test]
async fn connection_that_breaks_is_no_clean_end() {
    let (mut client, mut server) = pair(1 << 16).await;
    client.write_all(b"last").await.unwrap();
    client.flush().await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    let mut got = Vec::new();
    let error = server.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(
        (error.kind(), &*got),
        (io::ErrorKind::UnexpectedEof, &b"last"[..])
    );
}

#[tokio::test]
async fn garbled_record_is_an_error_after_the_data_before_it() {
    let (mut client, mut server) = pair(1 << 16).await;
    client.write_all(b"last").await.unwrap();
    client.flush().await.unwrap();
    client
        .get_mut()
        .0
        .write_all(&[23, 3, 3, 0, 40])
        .await
        .unwrap();
    client.get_mut().0.write_all(&[7; 40]).await.unwrap();
    let mut got = Vec::new();
    let error = server.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(
        (error.kind(), &*got),
        (io::ErrorKind::InvalidData, &b"last"[..])
    );
    server.write_all(b"more").await.unwrap_err();
    let error = client.read_u8().await.unwrap_err();
    assert!(error.to_string().contains("BadRecordMac"), "{error}");
}

#[tokio::test]
async fn failed_handshake_is_explained_to_both_sides() {
    let (client, server) = connect(agent_outer(&FOREIGN), hub_outer(), 1 << 16).await;
    assert_eq!(client.unwrap_err().kind(), io::ErrorKind::InvalidData);
    let error = server.err().expect("the client accepts no such server");
    assert!(error.to_string().contains("fatal alert"), "{error}");

    let (_, old) = only(&TLS12);
    let (new, _) = only(&TLS13);
    let (client, server) = connect(new, old, 1 << 16).await;
    let error = client.unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    assert_eq!(
        server.err().map(|it| it.kind()),
        Some(io::ErrorKind::InvalidData)
    );
}

#[tokio::test]
async fn new_keys_of_the_client_are_taken() {
    let (mut client, mut server) = pair(1 << 16).await;
    let mut got = [0; 5];
    for _ in 0..3 {
        client.get_mut().1.refresh_traffic_keys().unwrap();
        client.write_all(b"after").await.unwrap();
        client.flush().await.unwrap();
        server.read_exact(&mut got).await.unwrap();
        server.write_all(&got).await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"after");
    }
}

#[tokio::test]
async fn client_that_takes_nothing_stops_the_writer() {
    let (mut client, mut server) = pair(4096).await;
    let block = pattern(16_384);
    let mut taken = 0;
    loop {
        let written = poll_fn(|cx| {
            Poll::Ready(match Pin::new(&mut server).poll_write(cx, &block) {
                Poll::Ready(written) => Some(written.unwrap()),
                Poll::Pending => None,
            })
        });
        match written.await {
            Some(written) => taken += written,
            None => break,
        }
    }
    assert!(
        (OUTPUT_LIMIT_BYTES..OUTPUT_LIMIT_BYTES + 8192).contains(&taken),
        "{taken}"
    );
    let reading = async {
        let mut got = vec![0; taken];
        client.read_exact(&mut got).await.unwrap();
        got.chunks(block.len())
            .all(|chunk| block.starts_with(chunk))
    };
    let (flushed, is_same) = tokio::join!(server.flush(), reading);
    flushed.unwrap();
    assert!(is_same);
    assert_eq!(server.output.capacity(), 0);
}

#[tokio::test]
async fn link_passes_a_whole_round_in_one_write() {
    let (client, mut server) = pair(4096).await;
    server.set_output_limit(OUTER_TLS_BUFFER_BYTES);
    let round = pattern(128 * 1024);
    assert_eq!(server.write(&round).await.unwrap(), round.len());
    assert!(server.output.len() < OUTER_TLS_BUFFER_BYTES + OUTPUT_OVERHEAD_BYTES);
    drop(client);
    server.flush().await.unwrap_err();
}

#[tokio::test]
async fn small_pieces_share_a_record() {
    let mut config = ServerConfig::clone(&hub_outer());
    config.send_tls13_tickets = 0;
    let (client, server) = connect(agent_outer(&OURS), Arc::new(config), 1 << 16).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let (head, body) = (pattern(100), pattern(1000));
    let pieces = [IoSlice::new(&head), IoSlice::new(&body)];
    let written = poll_fn(|cx| Pin::new(&mut server).poll_write_vectored(cx, &pieces)).await;
    assert_eq!(written.unwrap(), 1100);
    let mut record = vec![0; 4096];
    let size = client.get_mut().0.read(&mut record).await.unwrap();
    assert_eq!((record[0], size), (23, 1100 + RECORD_OVERHEAD));
}

/// rustls' own form of a connection, for its size.
#[test]
fn connection_is_not_larger_than_that_of_rustls() {
    let own = size_of::<ServerTls<()>>();
    let theirs = size_of::<ServerConnection>();
    assert!(own <= theirs + 200, "{own} and {theirs}");
}

/// A stranger's connection is read in pieces of 4 KiB.
#[tokio::test]
async fn record_of_a_stranger_keeps_its_own_size_only() {
    let (mut client, mut server) = pair(4096).await;
    let sending = async {
        client.write_all(&pattern(16_384)).await.unwrap();
        client.flush().await.unwrap();
    };
    let mut got = [0; 100];
    let (read, ()) = tokio::join!(server.read(&mut got), sending);
    assert_eq!(read.unwrap(), 100);
    assert_eq!(buffered(&server), [0, 16_284, 0]);
}

#[tokio::test]
async fn write_after_the_own_end_fails_and_reads_go_on() {
    let (mut client, mut server) = pair(1 << 16).await;
    server.shutdown().await.unwrap();
    let error = server.write_all(b"more").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "a clean end");
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"late");
}

#[tokio::test]
async fn session_is_resumed() {
    for version in [&TLS12, &TLS13] {
        let (client, server) = only(version);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (client, server) = connect(client.clone(), server.clone(), 1 << 16).await;
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            server.write_all(b"!").await.unwrap();
            client.read_u8().await.unwrap();
            kinds.push(client.get_ref().1.handshake_kind().unwrap());
        }
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
    }
}
