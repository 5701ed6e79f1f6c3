//! Tests of `pings`.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex},
    time::timeout,
};

use super::*;

fn pair() -> (WebSocketPings<DuplexStream>, DuplexStream) {
    let (server, client) = duplex(64);
    (WebSocketPings::new(server), client)
}

/// Reads until `client` completes, as a splice does.
async fn serve<T>(server: &mut WebSocketPings<DuplexStream>, client: impl Future<Output = T>) -> T {
    let mut nothing = [0; 16];
    let mut client = std::pin::pin!(client);
    loop {
        tokio::select! {
            done = &mut client => return done,
            read = server.read(&mut nothing) => assert!(read.unwrap() > 0),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_pinged_repeatedly() {
    let (mut server, mut client) = pair();
    let begin = Instant::now();
    let mut seen = [0; 6];
    let reading = client.read_exact(&mut seen);
    serve(&mut server, reading).await.unwrap();
    assert_eq!(seen, [0x89, 0, 0x89, 0, 0x89, 0]);
    assert_eq!(begin.elapsed().as_secs(), 45);
}

#[tokio::test(start_paused = true)]
async fn active_connection_is_not_pinged() {
    let (mut server, mut client) = pair();
    let speaking = async {
        for _ in 0..10 {
            sleep(Duration::from_secs(14)).await;
            client.write_all(b"x").await.unwrap();
        }
        let mut seen = [0; 2];
        client.read_exact(&mut seen).await.unwrap();
    };
    let begin = Instant::now();
    serve(&mut server, speaking).await;
    assert_eq!(begin.elapsed().as_secs(), 155);
}

#[tokio::test(start_paused = true)]
async fn pings_never_split_a_frame_or_follow_the_last() {
    let (mut server, mut client) = pair();
    server.write_all(b"\x81\x02h").await.unwrap();
    let waiting = serve(&mut server, sleep(Duration::from_secs(60)));
    waiting.await;
    server.write_all(b"i").await.unwrap();
    serve(&mut server, sleep(Duration::from_secs(16))).await;
    server.write_all(b"\x88\x00").await.unwrap();
    serve(&mut server, sleep(Duration::from_secs(60))).await;
    drop(server);
    let mut seen = Vec::new();
    client.read_to_end(&mut seen).await.unwrap();
    assert_eq!(seen, b"\x81\x02hi\x89\x00\x88\x00");
}

#[tokio::test(start_paused = true)]
async fn partial_ping_is_completed_before_other_data() {
    let (server, mut client) = duplex(1);
    let mut server = WebSocketPings::new(server);
    serve(&mut server, sleep(Duration::from_secs(20))).await;
    let reading = tokio::spawn(async move {
        let mut seen = Vec::new();
        client.read_to_end(&mut seen).await.unwrap();
        seen
    });
    server.write_all(b"\x81\x02hi").await.unwrap();
    drop(server);
    assert_eq!(reading.await.unwrap(), b"\x89\x00\x81\x02hi");
}

/// Passes bytes on until none has come for 20 s.
async fn middle_box(mut client: DuplexStream, mut hub: DuplexStream) {
    let (mut up, mut down) = ([0; 64], [0; 64]);
    let idle_limit = Duration::from_secs(20);
    loop {
        let passed = timeout(idle_limit, async {
            tokio::select! {
                read = client.read(&mut up) => pass(&mut hub, &up[..read?]).await,
                read = hub.read(&mut down) => pass(&mut client, &down[..read?]).await,
            }
        });
        if !matches!(passed.await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Fails at the end of the other side.
async fn pass(to: &mut DuplexStream, read: &[u8]) -> io::Result<()> {
    match read {
        [] => Err(io::ErrorKind::UnexpectedEof.into()),
        read => to.write_all(read).await,
    }
}

/// Frames that reach a client behind a middle box if its server sends one after a minute.
async fn received_after_a_minute(
    front: impl FnOnce(DuplexStream) -> Box<dyn ReadWrite>,
) -> Vec<u8> {
    let (mut client, outer) = duplex(64);
    let (inner, hub) = duplex(64);
    tokio::spawn(middle_box(outer, inner));
    let (mut server, mut agent) = duplex(64);
    let mut front = front(hub);
    tokio::spawn(async move { copy_bidirectional(&mut front, &mut agent).await });
    sleep(Duration::from_secs(60)).await;
    // Fails if the connection is gone.
    let _ = server.write_all(b"\x81\x02hi").await;
    let _ = server.shutdown().await;
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    received
}

trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<IO: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for IO {}

#[tokio::test(start_paused = true)]
async fn idle_websocket_outlives_a_middle_box_only_with_pings() {
    let with_pings = received_after_a_minute(|io| Box::new(WebSocketPings::new(io))).await;
    assert!(with_pings.ends_with(b"\x81\x02hi"), "{with_pings:x?}");
    let without_pings = received_after_a_minute(|io| Box::new(io)).await;
    assert!(without_pings.is_empty(), "{without_pings:x?}");
}
