//! The step that drains the unread rest of a request's body after an early answer.
//!
//! The server of HTTP/1 ends such a connection after the answer, and the client's next request breaks. So a small rest is
//! read; for a large one the answer announces the end of the connection.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::front::record::Inbound;

/// Limit of bytes that are drained.
const MAX_DRAIN_BYTES: u64 = 4 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Memory of a connection while a stranger's body is drained. Beyond the strangers' budget the connection ends instead.
const DRAIN_MEMORY_BYTES: usize = 128 * 1024;

/// Runs the inner steps and drains the body after them. HTTP/2 needs none of this: there a request is a stream of its
/// own.
pub(crate) async fn drain_body<F>(
    mut inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Response<Body>>,
{
    let record = inbound.record.clone();
    let request = &inbound.request;
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return inner(inbound).await;
    }
    // A client with `Expect` sends no body after a final answer, and a read would send it `100 Continue`.
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let remainder = Remainder::default();
    inbound.request = inbound.request.map(|body| remainder.lend(body));
    let mut response = inner(inbound).await;
    let ends = match remainder.take() {
        None => false,
        Some(rest) => {
            let memory = match record.flow().is_known() {
                true => None,
                false => Some(record.strangers().memory.take(DRAIN_MEMORY_BYTES)),
            };
            expects_continue || matches!(memory, Some(None)) || !drain(rest).await
        }
    };
    if ends && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Drains a body; true if it has ended.
async fn drain(mut body: Body) -> bool {
    if body.size_hint().lower() > MAX_DRAIN_BYTES {
        return false;
    }
    let mut length = 0;
    let draining = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            length += frame.data_ref().map_or(0, |data| data.len() as u64);
            if length > MAX_DRAIN_BYTES {
                return false;
            }
        }
        true
    };
    timeout(DRAIN_TIMEOUT, draining).await.unwrap_or(false)
}

/// A body that was dropped before its end.
#[derive(Default, Clone)]
struct Remainder(Arc<Mutex<Option<Body>>>);

impl Remainder {
    fn lend(&self, body: Body) -> Body {
        let lent = LentBody {
            body: Some(body),
            remainder: self.clone(),
        };
        lent.boxed_unsync()
    }

    /// `None` while the body is in use, and after its end.
    fn take(&self) -> Option<Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct LentBody {
    /// `None` after the end.
    body: Option<Body>,
    remainder: Remainder,
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let remainder = self.body.as_ref().map(HttpBody::size_hint);
        remainder.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let remainder = self.remainder.0.lock();
            *remainder.unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
