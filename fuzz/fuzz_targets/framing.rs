//! The hub's second parser of HTTP/1 request framing, compared with hyper, which serves the requests.
//!
//! It must see every request that hyper serves, give the same result however the bytes are split, and accept
//! everything that our own, stricter codec accepts. The first byte selects where the rest is split.
#![no_main]

#[path = "../../gateway/src/front/framing.rs"]
#[allow(dead_code, reason = "the gateway uses the rest")]
mod framing;

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_dialer::{
    Upgraded,
    exchange::{Outgoing, Transport, serve_on},
};
use framing::{Followed, Framing};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, empty, join, sink};

const MAX_HEAD_BYTES: usize = 64 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let [step, sent @ ..] = bytes else { return };
    if sent.len() > MAX_HEAD_BYTES {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let whole = by_hyper(sent, MAX_HEAD_BYTES).await;
        let cut = by_hyper(sent, usize::from(*step).max(1)).await;
        assert_eq!(whole, cut);
        assert!(
            !whole.contains(&None),
            "it has not seen what hyper serves: {whole:?}"
        );
        let sure = by_us(sent).await;
        assert!(
            !whole.iter().take(sure).any(|doubt| *doubt == Some(true)),
            "{whole:?}, {sure} are sure"
        );
    });
});

/// A connection that delivers its input in pieces and accepts all output.
struct Pieces<'a> {
    left: &'a [u8],
    step: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.step.min(self.left.len()).min(buf.remaining());
        let (now, left) = self.left.split_at(size);
        buf.put_slice(now);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Result of the framing parser for each request that hyper serves.
async fn by_hyper(sent: &[u8], step: usize) -> Vec<Option<bool>> {
    let framing = Framing::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let io = Followed {
        io: Pieces { left: sent, step },
        framing: framing.clone(),
    };
    let notes = seen.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        notes.lock().expect("no panic").push(framing.next());
        async move {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let _ = http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(io), service)
        .await;
    let seen = seen.lock().expect("no panic");
    seen.clone()
}

/// The whole input, and a clean end.
struct Whole(Option<Bytes>);

impl Transport for Whole {
    fn poll_read(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.0.take()))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        out.advance(out.len());
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::new(join(empty(), sink()), read)
    }
}

/// Number of requests that our own codec accepts, with their bodies.
async fn by_us(sent: &[u8]) -> usize {
    let taken = Arc::new(Mutex::new(0));
    let notes = taken.clone();
    let wire = Whole(Some(Bytes::copy_from_slice(sent)));
    let _ = serve_on(wire, move |request| {
        let notes = notes.clone();
        async move {
            if request.into_body().collect().await.is_ok() {
                *notes.lock().expect("no panic") += 1;
            }
            Response::new(fairlead_dialer::Body::new(
                Empty::new().map_err(|never| match never {}),
            ))
        }
    })
    .await;
    let taken = taken.lock().expect("no panic");
    *taken
}
