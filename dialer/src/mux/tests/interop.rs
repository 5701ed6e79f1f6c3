//! Our mux and the yamux crate over one pipe, either as client.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::compat::{FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};

use super::*;

/// A driver over a plain pipe, in the order of the session's: reads, yields, writes once.
async fn drive(mux: Arc<Mux>, mut io: DuplexStream) {
    let mut out = BytesMut::new();
    let mut wakes = Vec::new();
    let mut gave_way = false;
    std::future::poll_fn(|cx| {
        mux.register_driver(cx.waker(), None);
        if std::mem::take(&mut gave_way) {
            while out.len() < 64 * BYTES_PER_KIB && mux.has_output(true) {
                mux.fill(&mut out, true, &mut wakes);
            }
        }
        while !out.is_empty() {
            match Pin::new(&mut io).poll_write(cx, &out) {
                Poll::Ready(Ok(taken)) => drop(out.split_to(taken)),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        let mut read = false;
        if mux.accepts_input() {
            let mut room = vec![0; 16 * BYTES_PER_KIB];
            let mut room = ReadBuf::new(&mut room);
            match Pin::new(&mut io).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    let piece = Bytes::copy_from_slice(room.filled());
                    match mux.receive(piece, &mut wakes) {
                        Ok(()) => read = true,
                        Err(Stop::GoAway(_)) => return Poll::Ready(()),
                        Err(Stop::Violation(violation)) => panic!("{violation}"),
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        wakes.drain(..).for_each(Waker::wake);
        if read || (out.is_empty() && mux.has_output(true)) {
            gave_way = true;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    let error = SessionError::Peer(CloseReason::Done);
    mux.end(error, &mut wakes);
    wakes.drain(..).for_each(Waker::wake);
}

type Ask = oneshot::Sender<yamux::Stream>;

/// The crate's end: streams to open, and accepted streams.
struct Crate {
    asks: mpsc::Sender<Ask>,
    came: mpsc::Receiver<yamux::Stream>,
}

impl Crate {
    fn start(io: DuplexStream, mode: yamux::Mode) -> Self {
        let (asks, mut asked) = mpsc::channel::<Ask>(64);
        let (arrived, came) = mpsc::channel(512);
        let mut connection = yamux::Connection::new(io.compat(), yamux::Config::default(), mode);
        tokio::spawn(async move {
            let mut waiting: Option<Ask> = None;
            std::future::poll_fn(|cx| {
                loop {
                    if waiting.is_none()
                        && let Poll::Ready(Some(ask)) = asked.poll_recv(cx)
                    {
                        waiting = Some(ask);
                    }
                    let mut progress = false;
                    if waiting.is_some()
                        && let Poll::Ready(stream) = connection.poll_new_outbound(cx)
                    {
                        let _ = waiting.take().unwrap().send(stream.unwrap());
                        progress = true;
                    }
                    match connection.poll_next_inbound(cx) {
                        Poll::Ready(Some(Ok(stream))) => arrived.try_send(stream).unwrap(),
                        Poll::Ready(_) => return Poll::Ready(()),
                        Poll::Pending if !progress => return Poll::Pending,
                        Poll::Pending => {}
                    }
                }
            })
            .await;
        });
        Crate { asks, came }
    }

    async fn open(&self) -> yamux::Stream {
        let (tx, rx) = oneshot::channel();
        self.asks.send(tx).await.unwrap();
        rx.await.unwrap()
    }
}

fn joined(ours: Side) -> (Arc<Mux>, Crate) {
    let (here, there) = duplex(20_000);
    let mux = Mux::new(ours, &limits(512), 512);
    tokio::spawn(drive(mux.clone(), here));
    let mode = match ours {
        Side::Agent => yamux::Mode::Server,
        Side::Hub => yamux::Mode::Client,
    };
    (mux, Crate::start(there, mode))
}

async fn accepted(mux: &Arc<Mux>) -> Stream {
    std::future::poll_fn(|cx| mux.poll_accept(cx))
        .await
        .unwrap()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 256) as u8).collect()
}

async fn echo<S: AsyncRead + AsyncWrite>(stream: S) {
    let (mut read, mut write) = tokio::io::split(stream);
    tokio::io::copy(&mut read, &mut write).await.unwrap();
    write.shutdown().await.unwrap();
}

/// Sends everything, ends its direction, and reads the same back.
async fn ask<S: AsyncRead + AsyncWrite>(stream: S, sent: &[u8]) {
    let (mut read, mut write) = tokio::io::split(stream);
    let mut got = Vec::new();
    let (wrote, done) = tokio::join!(
        async {
            write.write_all(sent).await?;
            write.shutdown().await
        },
        read.read_to_end(&mut got)
    );
    wrote.and(done.map(drop)).unwrap();
    assert!(got == sent);
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), work)
        .await
        .expect("it stalls")
}

const BOTH: [Side; 2] = [Side::Agent, Side::Hub];

#[tokio::test(start_paused = true)]
async fn our_bulk_is_echoed_by_the_crate() {
    for side in BOTH {
        let (mux, mut theirs) = joined(side);
        tokio::spawn(async move {
            while let Some(stream) = theirs.came.recv().await {
                tokio::spawn(echo(stream.compat()));
            }
        });
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let stream = mux.open().unwrap();
            tasks.spawn(async move { ask(stream, &pattern(3_000_000)).await });
        }
        soon(tasks.join_all()).await;
        let counts = mux.counts();
        assert_eq!((counts.open, counts.total), (0, 4));
    }
}

#[tokio::test(start_paused = true)]
async fn bulk_of_the_crate_is_echoed_by_us() {
    for side in BOTH {
        let (mux, theirs) = joined(side);
        tokio::spawn(async move {
            loop {
                tokio::spawn(echo(accepted(&mux).await));
            }
        });
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let stream = theirs.open().await.compat();
            tasks.spawn(async move { ask(stream, &pattern(3_000_000)).await });
        }
        soon(tasks.join_all()).await;
    }
}

/// The crate blocks after 256 unacknowledged streams, and our streams begin before anything is
/// written.
#[tokio::test(start_paused = true)]
async fn four_hundred_streams_each_way_are_open_at_once() {
    for side in BOTH {
        let (mux, mut theirs) = joined(side);
        let mut here = Vec::new();
        let mut there = Vec::new();
        for n in 0..200_u32 {
            let mut stream = soon(theirs.open()).await.compat();
            stream.write_u32(n).await.unwrap();
            there.push(stream);
            here.push(soon(accepted(&mux)).await);
        }
        for (n, stream) in here.iter_mut().enumerate() {
            assert_eq!(soon(stream.read_u32()).await.unwrap() as usize, n);
        }
        let ours: Vec<_> = (0..200).map(|_| mux.open().unwrap()).collect();
        for (n, mut stream) in ours.into_iter().enumerate() {
            let mut other = soon(theirs.came.recv()).await.unwrap().compat();
            stream.write_all(&pattern(n)).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut got = Vec::new();
            soon(other.read_to_end(&mut got)).await.unwrap();
            assert!(got == pattern(n));
            there.push(other);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_a_stream_ends_and_the_other_goes_on() {
    for side in BOTH {
        let (mux, mut theirs) = joined(side);
        let mut here = mux.open().unwrap();
        let mut there = soon(theirs.came.recv()).await.unwrap().compat();
        here.write_all(b"question").await.unwrap();
        here.shutdown().await.unwrap();
        let mut got = Vec::new();
        soon(there.read_to_end(&mut got)).await.unwrap();
        assert_eq!(got, b"question");
        for _ in 0..5 {
            there.write_all(b"answer").await.unwrap();
            let mut part = [0; 6];
            soon(here.read_exact(&mut part)).await.unwrap();
            assert_eq!(&part, b"answer");
        }
        there.shutdown().await.unwrap();
        assert_eq!(soon(here.read(&mut [0; 9])).await.unwrap(), 0);
        assert_eq!(mux.counts().open, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn resets_cross_and_affect_no_other_stream() {
    for side in BOTH {
        let (mux, mut theirs) = joined(side);
        let mut other = mux.open().unwrap();
        let mut beside = soon(theirs.came.recv()).await.unwrap().compat();

        let mut here = mux.open().unwrap();
        let there = soon(theirs.came.recv()).await.unwrap();
        here.write_all(b"some").await.unwrap();
        drop(there);
        let failed = soon(here.read(&mut [0; 9])).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ConnectionReset);

        let here = mux.open().unwrap();
        let mut there = soon(theirs.came.recv()).await.unwrap().compat();
        drop(here);
        // The crate reads a reset as an end, and its writes fail.
        assert_eq!(soon(there.read(&mut [0; 9])).await.unwrap(), 0);
        assert!(there.write_all(b"x").await.is_err());

        other.write_all(b"ping").await.unwrap();
        let mut part = [0; 4];
        soon(beside.read_exact(&mut part)).await.unwrap();
        assert_eq!(mux.counts().open, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn stream_of_the_crate_above_our_cap_is_reset_alone() {
    let (here, there) = duplex(20_000);
    let mux = Mux::new(Side::Hub, &limits(2), 2);
    tokio::spawn(drive(mux.clone(), here));
    let theirs = Crate::start(there, yamux::Mode::Client);
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = theirs.open().await.compat();
        stream.write_all(b"hello").await.unwrap();
        streams.push(stream);
    }
    let refused = streams.last_mut().unwrap();
    assert_eq!(soon(refused.read(&mut [0; 9])).await.unwrap(), 0);
    for stream in &mut streams[..2] {
        let mut ours = soon(accepted(&mux)).await;
        ours.write_all(b"back").await.unwrap();
        let mut part = [0; 4];
        soon(stream.read_exact(&mut part)).await.unwrap();
        assert_eq!(&part, b"back");
        drop(ours);
    }
}
