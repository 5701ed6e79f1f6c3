//! Running requests, counted until their bodies have ended.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Guard of a running request, upgraded ones included. Counted by site and session.
#[derive(Clone)]
pub(crate) struct RunningRequest {
    _of_site: TaskTrackerToken,
    _of_session: TaskTrackerToken,
}

impl RunningRequest {
    pub(crate) fn new(context: &TaskTracker, session: &TaskTracker) -> Self {
        RunningRequest {
            _of_site: context.token(),
            _of_session: session.token(),
        }
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
