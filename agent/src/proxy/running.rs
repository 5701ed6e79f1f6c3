//! Running requests, counted until their bodies have ended.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use fairlead_traces::{RequestSpan, RequestTrace, SpanRole};
use http::Request;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::headers;

/// Guard of a running request, upgraded ones included. Counted by site and session.
#[derive(Clone)]
pub(crate) struct RunningRequest {
    _of_site: TaskTrackerToken,
    _of_session: TaskTrackerToken,
    /// Span of the request; `None` while tracing is off.
    trace: Option<Arc<RequestTrace>>,
}

impl RunningRequest {
    pub(crate) fn new(
        context: &TaskTracker,
        session: &TaskTracker,
        trace: Option<Box<RequestTrace>>,
    ) -> Self {
        RunningRequest {
            _of_site: context.token(),
            _of_session: session.token(),
            trace: trace.map(Arc::from),
        }
    }

    /// Begins the span of the request, which ends with its last byte.
    pub(crate) fn begin_span<B>(&self, request: &Request<B>) -> Option<&RequestSpan> {
        let span = self.trace.as_ref()?.begin(SpanRole::Agent);
        span.text("http.request.method", request.method().as_str());
        span.text("url.path", request.uri().path());
        span.text(
            "fairlead.request.id",
            headers::request_id(request.headers()),
        );
        Some(span)
    }

    /// The span, if it has begun.
    pub(crate) fn span(&self) -> Option<&RequestSpan> {
        self.trace.as_ref()?.span()
    }
}

/// Body that keeps the guard until it ends or is dropped.
pub(crate) fn count_until_end(body: Body, running: RunningRequest) -> Body {
    CountedBody {
        body,
        _running: running,
    }
    .boxed_unsync()
}

struct CountedBody {
    body: Body,
    _running: RunningRequest,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
