use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::sleep,
};

use super::*;

/// Frames of a client, with a mask of zeros; `TEXT` is a whole message.
const PING: &[u8] = b"\x89\x82\0\0\0\0hi";
const PONG: &[u8] = b"\x8a\x02hi";
const TEXT: &[u8] = b"\x81\x83\0\0\0\0abc";
const SPDY_PING: &[u8] = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01";
const SPDY_DATA: &[u8] = b"\x00\x00\x00\x01\x00\x00\x00\x03abc";

fn pair(protocol: Protocol) -> (PingResponder<DuplexStream>, DuplexStream) {
    let (agent, server) = duplex(64 * 1024);
    (PingResponder::new(agent, protocol), server)
}

async fn some(io: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut got = vec![0; length];
    io.read_exact(&mut got).await.unwrap();
    got
}

/// Polls a read until `io` has nothing to return.
async fn idle(io: &mut PingResponder<DuplexStream>) {
    let mut nothing = [0; 16];
    tokio::select! {
        biased;
        read = io.read(&mut nothing) => panic!("{read:?}"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn ping_is_answered_while_the_server_sends() {
    for (protocol, message, ping, pong) in [
        (Protocol::WebSocket, TEXT, PING, PONG),
        (Protocol::Spdy, SPDY_DATA, SPDY_PING, SPDY_PING),
    ] {
        let (mut agent, mut server) = pair(protocol);
        let sent = message.repeat(2);
        server.write_all(&sent).await.unwrap();
        assert_eq!(some(&mut agent, 5).await, sent[..5]);
        // All sizes of pieces, with data around the ping.
        for size in 1..=2 * message.len() + ping.len() {
            let all = [message, ping, message].concat();
            for piece in all.chunks(size) {
                agent.write_all(piece).await.unwrap();
            }
            agent.flush().await.unwrap();
            let received = some(&mut server, 2 * message.len()).await;
            assert_eq!(
                received,
                message.repeat(2),
                "{protocol:?} in pieces of {size}"
            );
        }
        server.shutdown().await.unwrap();
        let mut rest = Vec::new();
        agent.read_to_end(&mut rest).await.unwrap();
        let pongs = pong.repeat(2 * message.len() + ping.len());
        let expected = [&message[5..], &pongs, message].concat();
        assert_eq!(rest, expected, "{protocol:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ping_after_the_servers_end_is_dropped() {
    let (mut agent, mut server) = pair(Protocol::WebSocket);
    server.write_all(b"\x88\x00").await.unwrap();
    server.shutdown().await.unwrap();
    let mut all = Vec::new();
    agent.read_to_end(&mut all).await.unwrap();
    sleep(10 * SERVER_SILENCE).await;
    agent.write_all(PING).await.unwrap();
    agent.write_all(TEXT).await.unwrap();
    assert_eq!(some(&mut server, TEXT.len()).await, TEXT);
}

#[tokio::test(start_paused = true)]
async fn ping_passes_while_the_server_is_silent() {
    let (mut agent, mut server) = pair(Protocol::WebSocket);
    agent.write_all(PING).await.unwrap();
    assert_eq!(some(&mut server, PING.len()).await, PING, "before a word");
    server.write_all(TEXT).await.unwrap();
    some(&mut agent, TEXT.len()).await;
    idle(&mut agent).await;
    sleep(SERVER_SILENCE).await;
    agent.write_all(PING).await.unwrap();
    assert_eq!(some(&mut server, PING.len()).await, PING);
}

#[tokio::test(start_paused = true)]
async fn waiting_reader_is_woken_for_an_answer() {
    let (agent, mut server) = pair(Protocol::WebSocket);
    let (mut read, mut write) = tokio::io::split(agent);
    server.write_all(TEXT).await.unwrap();
    some(&mut read, TEXT.len()).await;
    let reading = tokio::spawn(async move { some(&mut read, PONG.len()).await });
    tokio::task::yield_now().await;
    write.write_all(PING).await.unwrap();
    assert_eq!(reading.await.unwrap(), PONG);
}

#[tokio::test(start_paused = true)]
async fn start_of_a_ping_without_its_rest_passes_unchanged() {
    let settings = b"\x80\x03\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00";
    let cut = &SPDY_PING[..7];
    let (mut agent, mut server) = pair(Protocol::Spdy);
    server.write_all(SPDY_DATA).await.unwrap();
    some(&mut agent, 4).await;
    for byte in [settings, cut].concat() {
        agent.write_all(&[byte]).await.unwrap();
    }
    agent.shutdown().await.unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, [settings, cut].concat());
}

#[tokio::test(start_paused = true)]
async fn endless_pings_use_bounded_memory() {
    let (mut agent, mut server) = pair(Protocol::WebSocket);
    server.write_all(TEXT).await.unwrap();
    some(&mut agent, 4).await;
    for _ in 0..10 * MAX_QUEUED_PONG_BYTES {
        agent.write_all(PING).await.unwrap();
    }
    assert!(agent.pongs.len() <= MAX_QUEUED_PONG_BYTES);
    assert_eq!(some(&mut agent, TEXT.len() - 4).await, TEXT[4..]);
}
