use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::{Limits, ws};

type Ws = WebSocketStream<DuplexStream>;

async fn sockets(pipe: usize) -> (Ws, Ws) {
    let (agent, hub) = duplex(pipe);
    tokio::join!(
        ws::over(agent, Bytes::new(), Role::Client),
        ws::over(hub, Bytes::new(), Role::Server)
    )
}

async fn versions(
    agent: (u8, u8),
    hub: (u8, u8),
) -> (
    Result<Link<DuplexStream>, LinkEnd>,
    Result<Link<DuplexStream>, LinkEnd>,
) {
    let (a, h) = sockets(4096).await;
    let limits = Limits::default();
    tokio::join!(offer(a, agent, &limits), choose(h, hub, &limits))
}

#[tokio::test]
async fn the_highest_common_version_is_chosen() {
    for (agent, hub, chosen) in [
        ((1, 1), (1, 1), Some(1)),
        ((1, 3), (2, 5), Some(3)),
        ((2, 5), (1, 3), Some(3)),
        ((1, 9), (4, 4), Some(4)),
        ((1, 1), (2, 3), None),
        ((3, 4), (1, 2), None),
        ((1, 1), (2, 2), None),
    ] {
        assert_eq!(common(agent, hub), chosen);
        let (a, h) = versions(agent, hub).await;
        assert_eq!((a.is_ok(), h.is_ok()), (chosen.is_some(), chosen.is_some()));
        if let (None, Err(a), Err(h)) = (chosen, a, h) {
            assert_eq!(a, LinkEnd::versions(agent, greeting(hub)));
            assert_eq!(h, LinkEnd::versions(hub, greeting(agent)));
        }
    }
}

fn greeting((lowest, highest): (u8, u8)) -> Hello {
    let mut hello = hello((lowest, highest), SessionId::default(), &Limits::default());
    hello.received = 0;
    hello
}

/// The hub's end by hand: a HELLO, then whatever the test sends.
async fn by_hand(pipe: usize, budget: usize) -> (Link<DuplexStream>, Ws) {
    let (a, mut h) = sockets(pipe).await;
    let limits = Limits {
        max_streams: 1,
        receive_budget: budget,
        ..Limits::default()
    };
    let at_hub = async {
        receive(&mut h).await.unwrap();
        send(&mut h, &Frame::Hello(greeting((1, 1)))).await.unwrap();
    };
    let (link, ()) = tokio::join!(offer(a, (1, 1), &limits), at_hub);
    (link.unwrap(), h)
}

async fn end_of(link: &mut Link<DuplexStream>) -> LinkEnd {
    let error = link.read(&mut [0; 64]).await.unwrap_err();
    LinkEnd::find(&error).unwrap().clone()
}

#[tokio::test]
async fn what_breaks_the_protocol_ends_the_link() {
    let second = Frame::Hello(greeting((1, 1))).encode();
    let early = Frame::Mark(7).encode();
    let unasked = Frame::MarkAck(0).encode();
    let unknown = Bytes::from_static(&[77, 1]);
    for wrong in [second, early, unasked, unknown] {
        let (mut link, mut hub) = by_hand(4096, 1 << 20).await;
        hub.send(Message::Binary(wrong)).await.unwrap();
        assert!(matches!(end_of(&mut link).await, LinkEnd::Protocol(_)));
    }
    let (mut link, mut hub) = by_hand(4096, 1 << 20).await;
    hub.send(Message::text("hello")).await.unwrap();
    assert!(matches!(end_of(&mut link).await, LinkEnd::Protocol(_)));
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_link_at_its_head() {
    let (mut link, mut hub) = by_hand(4096, 1 << 30).await;
    // Final, binary, of so many bytes, none of which ever come.
    let mut head = vec![0x82, 127];
    head.extend((MESSAGE_LIMIT as u64 + 1).to_be_bytes());
    hub.get_mut().write_all(&head).await.unwrap();
    let end = end_of(&mut link).await;
    assert!(matches!(end, LinkEnd::Protocol(_)), "{end}");
}

#[tokio::test]
async fn only_a_hello_begins_a_link() {
    for wrong in [
        Frame::Data(b"x").encode(),
        Frame::Mark(0).encode(),
        Bytes::new(),
    ] {
        let (a, mut h) = sockets(4096).await;
        let limits = Limits::default();
        let (link, _) = tokio::join!(offer(a, (1, 1), &limits), h.send(Message::Binary(wrong)));
        assert!(matches!(link.err(), Some(LinkEnd::Protocol(_))));
    }
}

#[tokio::test]
async fn a_mark_is_answered_though_nobody_reads() {
    let (mut link, mut hub) = by_hand(64 * 1024, 1 << 20).await;
    let answered = async {
        hub.send(Message::Binary(Frame::Data(&[0; 100]).encode()))
            .await
            .unwrap();
        hub.send(Message::Binary(Frame::Mark(100).encode()))
            .await
            .unwrap();
        loop {
            let message = hub.next().await.unwrap().unwrap().into_data();
            if let Ok(Frame::MarkAck(count)) = frame::decode(&message) {
                return count;
            }
        }
    };
    let tend = poll_fn(|cx| {
        link.pump(cx);
        let _ = Pin::new(&mut link).poll_flush(cx);
        Poll::<()>::Pending
    });
    tokio::select! {
        count = answered => assert_eq!(count, 100),
        () = tend => {}
    }
    assert_eq!(link.counts(), (100, 0));
}

/// Both pipes are full: a writer that only waited would wait for ever, because the peer waits likewise.
#[tokio::test]
async fn a_writer_that_waits_reads_up_to_the_budget_and_no_further() {
    const BUDGET: usize = 256 * 1024;
    let (mut link, hub) = by_hand(16 * 1024, BUDGET).await;
    let (mut sink, mut source) = hub.split();
    // Nobody reads at the hub: the link's writes block for good, and it reads on.
    let flood = async {
        for _ in 0..1024 {
            let data = Frame::Data(&[1; 8192]).encode();
            sink.send(Message::Binary(data)).await.unwrap();
        }
    };
    let write = async {
        loop {
            link.write_all(&[2; 8192]).await.unwrap();
        }
    };
    let both = async {
        tokio::select! {
            () = flood => panic!("read past the budget"),
            () = write => {}
        }
    };
    assert!(timeout(Duration::from_millis(500), both).await.is_err());
    let (received, _) = link.counts();
    assert!(received as usize >= BUDGET - 64 * 1024, "{received}");
    assert!(received as usize <= BUDGET + 2 * MESSAGE, "{received}");
    // And what it has read ahead is whole.
    let mut got = vec![0; received as usize];
    link.read_exact(&mut got).await.unwrap();
    assert!(got.iter().all(|&b| b == 1));
    assert!(source.next().await.is_some());
}

#[tokio::test]
async fn what_came_before_a_close_is_read_before_the_end() {
    let (mut link, mut hub) = by_hand(64 * 1024, 1 << 20).await;
    hub.send(Message::Binary(Frame::Data(b"last words").encode()))
        .await
        .unwrap();
    let close = Frame::Close(CloseReason::Deleted.code()).encode();
    hub.send(Message::Binary(close)).await.unwrap();
    // A write meanwhile does not hide it.
    poll_fn(|cx| {
        link.pump(cx);
        Poll::Ready(())
    })
    .await;
    link.write_all(b"x").await.unwrap();
    let mut got = [0; 10];
    link.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"last words");
    let end = end_of(&mut link).await;
    assert_eq!(end, LinkEnd::Closed(CloseReason::Deleted));
}

#[tokio::test(start_paused = true)]
async fn marks_are_five_seconds_apart_and_never_two_at_once() {
    let (mut link, mut hub) = by_hand(64 * 1024, 1 << 20).await;
    let tend = async {
        poll_fn(|cx| {
            link.pump(cx);
            link.poll_marks(cx).unwrap();
            let _ = Pin::new(&mut link).poll_flush(cx);
            Poll::<()>::Pending
        })
        .await;
    };
    let at_hub = async {
        let start = tokio::time::Instant::now();
        for n in 0..4 {
            let message = hub.next().await.unwrap().unwrap().into_data();
            assert_eq!(frame::decode(&message), Ok(Frame::Mark(0)));
            assert_eq!(start.elapsed().as_secs(), n * 5);
            // An answer that takes its time delays none.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let answer = Frame::MarkAck(0).encode();
            hub.send(Message::Binary(answer)).await.unwrap();
        }
    };
    tokio::select! {
        () = tend => {}
        () = at_hub => {}
    }
    assert_eq!(link.rtt().unwrap().as_secs(), 2);
}
