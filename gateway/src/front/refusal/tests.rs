//! Tests of `refusal`.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::front::stranger_pools::StrangerPools;

const OF_HYPER: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
    content-length: 0\r\ndate: Thu, 26 Nov 2026 15:50:50 GMT\r\n\r\n";

fn connection(capacity: usize) -> (CodedRefusals<DuplexStream>, DuplexStream) {
    let pools = StrangerPools::default();
    let state = ConnectionState::new(&pools, "192.0.2.1:1".parse().unwrap());
    let (hub, client) = duplex(capacity);
    (CodedRefusals::new(hub, state), client)
}

/// Bytes that the client gets for an answer of hyper.
async fn passed(mut hub: CodedRefusals<DuplexStream>, mut client: DuplexStream) -> String {
    let write = async move {
        hub.write_all(OF_HYPER).await.unwrap();
        hub.shutdown().await.unwrap();
    };
    let mut received = String::new();
    let (_, ()) = tokio::join!(client.read_to_string(&mut received), write);
    received
}

#[tokio::test]
async fn answer_of_hyper_gets_a_code_through_any_small_writes() {
    for capacity in [1, 7, 4096] {
        let (hub, client) = connection(capacity);
        let received = passed(hub, client).await;
        assert_eq!(received.matches("fairlead-code: FL-1306\r\n").count(), 1);
        assert!(received.ends_with('}') && !received.contains("content-length: 0"));
    }
}

#[tokio::test]
async fn same_bytes_within_an_answer_pass_unchanged() {
    let (mut hub, client) = connection(4096);
    hub.state.request_begun();
    hub.flush().await.unwrap();
    assert_eq!(passed(hub, client).await.as_bytes(), OF_HYPER);

    // The last bytes of an answer that is not flushed yet.
    let (hub, client) = connection(4096);
    hub.state.request_begun();
    hub.state.request_ended();
    assert_eq!(passed(hub, client).await.as_bytes(), OF_HYPER);

    let (hub, client) = connection(4096);
    hub.state.set_upgraded();
    assert_eq!(passed(hub, client).await.as_bytes(), OF_HYPER);
}

#[tokio::test]
async fn next_head_after_a_flushed_answer_is_refused_with_a_code() {
    let (mut hub, client) = connection(4096);
    hub.state.request_begun();
    hub.state.request_ended();
    hub.flush().await.unwrap();
    assert!(passed(hub, client).await.contains("FL-1306"));
}

#[test]
fn other_answers_are_not_hypers() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\nmore",
        "HTTP/1.1 4",
    ] {
        assert_eq!(refused_by_hyper(head.as_bytes()), None, "{head:?}");
    }
}
