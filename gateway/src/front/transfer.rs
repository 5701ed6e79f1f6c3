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
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::Failure;
use fairlead_exchange::{Body, BodyError};
use fairlead_protocols::StreamFormat;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::{
    front::{
        headers,
        record::{Ending, RequestRecord},
        socket::ResetOnDrop,
    },
    http::body,
    metrics::RequestEnd,
};

/// Time for the server to complete a message before the answer breaks within it.
const BOUNDARY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the server to flush the last message before the answer breaks.
const FLUSH_TIME: Duration = Duration::from_millis(300);

/// Number of frames of a request's body taken so far; `None` without a body.
pub(crate) struct UploadProgress(Option<Arc<AtomicU64>>);

impl UploadProgress {
    /// Progress that another body counts.
    pub(crate) fn of(frames: Arc<AtomicU64>) -> Self {
        UploadProgress(Some(frames))
    }

    pub(crate) fn frames(&self) -> u64 {
        let frames = self.0.as_ref();
        frames.map_or(0, |it| it.load(Ordering::Relaxed))
    }
}

/// The body of a request.
struct RecordedUpload {
    inner: Body,
    frames: Arc<AtomicU64>,
    record: RequestRecord,
}

/// Counts the body of a request on its way. Nearly all requests have none.
pub(crate) fn recorded_upload(inner: Body, record: &RequestRecord) -> (Body, UploadProgress) {
    if inner.is_end_stream() {
        return (inner, UploadProgress(None));
    }
    let frames = Arc::<AtomicU64>::default();
    let upload = RecordedUpload {
        inner,
        frames: Arc::clone(&frames),
        record: record.clone(),
    };
    (upload.boxed_unsync(), UploadProgress(Some(frames)))
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
            self.frames.fetch_add(1, Ordering::Relaxed);
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
    /// Bytes still to come, if known: the server takes no more than these.
    left: Option<u64>,
    over: bool,
    format: StreamFormat,
    /// The hub may end the answer: it is not the reason of an end already.
    may_end: bool,
    /// Time of the last message, once the hub has ended the answer.
    farewell: Option<Instant>,
}

impl RecordedDownload {
    /// `bodiless` if the server sends no body in any case, as to a HEAD.
    pub(crate) fn new(
        inner: Body,
        record: RequestRecord,
        reset: Option<ResetOnDrop>,
        bodiless: bool,
        format: StreamFormat,
    ) -> Self {
        if !bodiless && !inner.is_end_stream() {
            record.flow().block();
        }
        RecordedDownload {
            over: bodiless || inner.is_end_stream(),
            left: inner.size_hint().exact(),
            inner,
            may_end: !record.is_end_reported(),
            record,
            reset,
            format,
            farewell: None,
        }
    }

    /// Ends the answer with its last message, between two messages of the server.
    fn poll_farewell(
        &mut self,
        cx: &mut Context<'_>,
        ending: &Ending,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(sent) = self.farewell {
            return match self.format.breaks() {
                // The supervisor of running requests wakes this task again.
                true if sent.elapsed() < FLUSH_TIME => Poll::Pending,
                true => self.break_off(&ending.failure),
                false => {
                    self.over = true;
                    Poll::Ready(None)
                }
            };
        }
        if !self.format.is_at_boundary() && ending.since.elapsed() < BOUNDARY_TIMEOUT {
            let polled = self.poll_inner(cx);
            // An end of the server within its message is no clean end, and one behind its message is not the last one.
            self.over = false;
            if matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
                return polled;
            }
        }
        self.inner = body::empty();
        match self.format.last_message(&ending.failure) {
            Some(last) if self.format.is_at_boundary() => {
                self.farewell = Some(Instant::now());
                self.record.add_bytes(0, last.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(last))))
            }
            _ => self.break_off(&ending.failure),
        }
    }

    fn break_off(&mut self, failure: &Failure) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.over = true;
        if let Some(reset) = &self.reset {
            reset.arm();
        }
        Poll::Ready(Some(Err(failure.clone().into())))
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.may_end && !self.over && self.record.poll_ending(cx).is_some() {
            let record = self.record.clone();
            if let Some(ending) = record.ending() {
                return self.poll_farewell(cx, ending);
            }
        }
        let polled = self.poll_inner(cx);
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.over = true;
            self.record.set_outcome(RequestEnd::Aborted);
            if let Some(reset) = &self.reset {
                reset.arm();
            }
        }
        polled
    }

    fn poll_inner(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    let length = data.len() as u64;
                    self.record.add_bytes(0, length);
                    self.format.follow(data);
                    self.left = self.left.map(|left| left.saturating_sub(length));
                }
                self.over = self.left == Some(0) || self.inner.is_end_stream();
            }
            Poll::Ready(None) => self.over = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }
}

impl HttpBody for RecordedDownload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.record.flow().unblock();
        let polled = self.poll_answer(cx);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.record.flow().block();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self.may_end && self.record.is_ending() {
            true => self.over,
            false => self.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.may_end && self.record.is_ending() {
            true => SizeHint::default(),
            false => self.inner.size_hint(),
        }
    }
}

impl Drop for RecordedDownload {
    fn drop(&mut self) {
        if !self.over {
            self.record.set_outcome(RequestEnd::Left);
        }
    }
}
