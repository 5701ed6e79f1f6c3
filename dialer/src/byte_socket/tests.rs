//! Tests of byte sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn pair(capacity: usize) -> (ByteSocket<DuplexStream>, ByteSocket<DuplexStream>) {
    let (client, hub) = duplex(capacity);
    (
        ByteSocket::new(client, SocketRole::Agent, &[]),
        ByteSocket::new(hub, SocketRole::Hub, &[]),
    )
}

#[tokio::test]
async fn bytes_and_half_closes_arrive_in_both_directions() {
    // Smaller than a message, so that writes are split.
    let (mut client, mut hub) = pair(100);
    let sent: Vec<u8> = (0..200_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let upload = async {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        client.closed().await.unwrap();
        answer
    };
    let serve = async {
        let mut received = Vec::new();
        hub.read_to_end(&mut received).await.unwrap();
        hub.write_all(b"done").await.unwrap();
        hub.shutdown().await.unwrap();
        hub.close(1000, "").await.unwrap();
        received
    };
    let (answer, received) = tokio::join!(upload, serve);
    assert_eq!(answer, "done");
    assert!(received == sent);
}

#[tokio::test]
async fn close_frame_is_a_failure_with_its_reason() {
    let (mut client, mut hub) = pair(1 << 20);
    client.write_all(b"lost").await.unwrap();
    hub.write_all(b"before").await.unwrap();
    hub.close(1008, "FL-1205: over\r\n").await.unwrap();
    let mut received = Vec::new();
    let error = client.read_to_end(&mut received).await.unwrap_err();
    assert_eq!(received, b"before");
    let reason = "FL-1205: over".to_owned();
    let expected = ByteSocketError::Closed {
        code: Some(1008),
        reason,
    };
    assert_eq!(ByteSocketError::of(&error), Some(&expected));
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn end_without_a_close_frame_is_a_failure() {
    let (mut client, hub) = pair(1024);
    drop(hub);
    let error = client.read_u8().await.unwrap_err();
    assert_eq!(ByteSocketError::of(&error), Some(&ByteSocketError::Cut));

    let (mut client, mut hub) = pair(1024);
    hub.shutdown().await.unwrap();
    drop(hub);
    assert_eq!(
        client.read(&mut [0]).await.unwrap(),
        0,
        "the half-close came first"
    );
    let error = client.closed().await.unwrap_err();
    assert_eq!(ByteSocketError::of(&error), Some(&ByteSocketError::Cut));
}

#[tokio::test]
async fn ping_is_answered_while_reading() {
    let (io, mut raw) = duplex(1024);
    let mut hub = ByteSocket::new(io, SocketRole::Hub, &[]);
    // Masked with a key of zeros: a ping with two bytes, then a message.
    raw.write_all(b"\x89\x82\0\0\0\0hi\x82\x81\0\0\0\0x")
        .await
        .unwrap();
    assert_eq!(hub.read_u8().await.unwrap(), b'x');
    let mut pong = [0; 4];
    raw.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\x8a\x02hi");
}

#[tokio::test]
async fn frames_that_the_protocol_does_not_allow_are_refused() {
    for (bytes, expected) in [
        (
            &b"\x81\x81\0\0\0\0x"[..],
            ByteSocketError::Invalid(WsError::Text),
        ),
        (b"\x82\x01x", ByteSocketError::Invalid(WsError::Mask)),
        (
            b"\xc2\x81\0\0\0\0x",
            ByteSocketError::Invalid(WsError::Reserved),
        ),
        (
            b"\x82\xff\0\0\0\0\xff\0\0\0",
            ByteSocketError::Invalid(WsError::TooLarge),
        ),
    ] {
        let mut hub = ByteSocket::new(duplex(8).0, SocketRole::Hub, bytes);
        let error = hub.read_u8().await.unwrap_err();
        assert_eq!(ByteSocketError::of(&error), Some(&expected));
    }
    let after_end = b"\x82\x80\0\0\0\0\x82\x81\0\0\0\0x";
    let mut hub = ByteSocket::new(duplex(8).0, SocketRole::Hub, after_end);
    assert_eq!(hub.read(&mut [0]).await.unwrap(), 0);
    let error = hub.closed().await.unwrap_err();
    assert_eq!(
        ByteSocketError::of(&error),
        Some(&ByteSocketError::AfterEnd)
    );
}

#[tokio::test]
async fn fragments_are_one_message() {
    let bytes = b"\x02\x81\0\0\0\0a\x00\x81\0\0\0\0b\x80\x81\0\0\0\0c\x82\x80\0\0\0\0";
    let mut hub = ByteSocket::new(duplex(8).0, SocketRole::Hub, bytes);
    let mut received = String::new();
    hub.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "abc");
}

#[tokio::test]
async fn control_frames_after_the_half_close_are_followed() {
    let (io, mut raw) = duplex(1024);
    let mut hub = ByteSocket::new(io, SocketRole::Hub, b"\x82\x80\0\0\0\0");
    assert_eq!(hub.read(&mut [0]).await.unwrap(), 0);
    // A pong, a ping, and the close of a client that leaves.
    raw.write_all(b"\x8a\x80\0\0\0\0\x89\x82\0\0\0\0hi\x88\x82\0\0\0\0\x03\xe9")
        .await
        .unwrap();
    let error = poll_fn(|cx| hub.poll_closed(cx)).await;
    let expected = ByteSocketError::Closed {
        code: Some(1001),
        reason: String::new(),
    };
    assert_eq!(ByteSocketError::of(&error), Some(&expected));
    let mut pong = [0; 4];
    raw.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\x8a\x02hi");
}
