//! Bodies on their way through: counted, watched for progress, and keeping the record of their request until they end.
//!
//! Only trailers of a request are changed, because no check has covered them.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    front::{headers, record::RequestRecord, socket::ResetOnDrop},
    metrics::RequestEnd,
};

/// Number of frames of a request's body taken so far; clones share it.
#[derive(Clone, Default)]
pub(crate) struct UploadProgress(Arc<AtomicU64>);

impl UploadProgress {
    pub(crate) fn frames(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body of a request.
pub(crate) struct RecordedUpload {
    pub(crate) inner: Body,
    pub(crate) progress: UploadProgress,
    pub(crate) record: RequestRecord,
}

impl HttpBody for RecordedUpload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            self.progress.0.fetch_add(1, Ordering::Relaxed);
            if let Some(data) = frame.data_ref() {
                self.record.add_bytes(data.len() as u64, 0);
            } else if let Some(trailers) = frame.trailers_mut() {
                headers::strip_trailers(trailers);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer. An early drop means that the client left; an error means that the answer broke.
pub(crate) struct RecordedDownload {
    inner: Body,
    record: RequestRecord,
    /// Armed when the body breaks, if only the end of the connection ends the body.
    reset: Option<ResetOnDrop>,
    /// Bytes still to come, if known: hyper takes no more than these.
    left: Option<u64>,
    over: bool,
}

impl RecordedDownload {
    /// `bodiless` if hyper sends no body in any case, as to a HEAD.
    pub(crate) fn new(
        inner: Body,
        record: RequestRecord,
        reset: Option<ResetOnDrop>,
        bodiless: bool,
    ) -> Self {
        RecordedDownload {
            over: bodiless || inner.is_end_stream(),
            left: inner.size_hint().exact(),
            inner,
            record,
            reset,
        }
    }
}

impl HttpBody for RecordedDownload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    let length = data.len() as u64;
                    self.record.add_bytes(0, length);
                    self.left = self.left.map(|left| left.saturating_sub(length));
                }
                self.over = self.left == Some(0) || self.inner.is_end_stream();
            }
            Poll::Ready(Some(Err(_))) => {
                self.over = true;
                self.record.set_outcome(RequestEnd::Aborted);
                if let Some(reset) = &self.reset {
                    reset.arm();
                }
            }
            Poll::Ready(None) => self.over = true,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for RecordedDownload {
    fn drop(&mut self) {
        if !self.over {
            self.record.set_outcome(RequestEnd::Left);
        }
    }
}
