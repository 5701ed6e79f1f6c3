//! The two bodies of an exchange, as the client side wraps them: the upload, which tells when it is done and can wait for
//! `100 Continue`, and the download, which decides what becomes of the stream.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::{Body, BodyError, client::Lease};

/// How long an upload waits for `100 Continue` before it begins without (as curl does).
const CONTINUE: Duration = Duration::from_secs(1);

/// Whether an upload is done.
#[derive(Clone, Default)]
pub(super) struct Done(Arc<AtomicBool>);

impl Done {
    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Opens when the other side has said `100 Continue`.
#[derive(Default)]
pub(super) struct Gate {
    open: AtomicBool,
    waker: AtomicWaker,
}

impl Gate {
    pub(super) fn open(&self) {
        self.open.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A request's body on its way out.
pub(super) struct Upload {
    body: Body,
    done: Done,
    gate: Option<(Arc<Gate>, Pin<Box<Sleep>>)>,
}

impl Upload {
    pub(super) fn new(body: Body) -> Self {
        let done = Done(Arc::new(AtomicBool::new(body.is_end_stream())));
        Upload {
            body,
            done,
            gate: None,
        }
    }

    pub(super) fn done(&self) -> Done {
        self.done.clone()
    }

    /// Nothing of it is asked for before the gate opens, or a second has passed.
    pub(super) fn wait_for(&mut self, gate: Arc<Gate>) {
        self.gate = Some((gate, Box::pin(sleep(CONTINUE))));
    }

    fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((gate, timer)) = &mut self.gate {
            gate.waker.register(cx.waker());
            if !gate.open.load(Ordering::Acquire) {
                ready!(timer.as_mut().poll(cx));
            }
            self.gate = None;
        }
        Poll::Ready(())
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let upload = self.get_mut();
        ready!(upload.poll_gate(cx));
        let frame = ready!(Pin::new(&mut upload.body).poll_frame(cx));
        if frame.is_none() || upload.body.is_end_stream() {
            upload.done.0.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body on its way in. At its end the stream goes back to the pool; dropped before, the stream is reset.
pub(super) struct Download {
    body: Incoming,
    lease: Option<Lease>,
}

impl Download {
    pub(super) fn new(body: Incoming, lease: Lease) -> Self {
        let mut download = Download {
            body,
            lease: Some(lease),
        };
        if download.body.is_end_stream() {
            download.finish();
        }
        download
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let download = self.get_mut();
        match ready!(Pin::new(&mut download.body).poll_frame(cx)) {
            Some(Err(error)) => {
                download.lease = None;
                Poll::Ready(Some(Err(error.into())))
            }
            Some(Ok(frame)) => {
                // Whoever knows the length does not ask for the end.
                if download.body.is_end_stream() {
                    download.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                download.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
