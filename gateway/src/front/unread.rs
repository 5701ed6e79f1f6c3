//! What of a request's body is unread when the request is answered: a refusal seldom waits for it. hyper closes such a connection
//! as soon as the answer is written, of which the client knows nothing: its next request breaks, or even the answer is lost on its
//! way, where the kernel resets what has bytes that nobody read. So a rest of some size is read, and else the answer says that
//! the connection ends.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fairlead_dialer::{Body, BodyError};
use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::front::record::Inbound;

/// How much is read for nothing, in bytes, and for how long.
const MOST: u64 = 4 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// The step that leaves nothing unread, or says so. HTTP/2 has no need of it: there a request is a stream of its own.
pub(crate) async fn read_all<F>(
    mut inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Response<Body>>,
{
    let request = &inbound.request;
    let whole = request.body().is_end_stream() && !inbound.doubtful_length;
    if whole || request.version() > Version::HTTP_11 {
        return inner(inbound).await;
    }
    // What follows may be the rest of it to one server and a request to another (RFC 9112, 6.3).
    let doubtful = inbound.doubtful_length;
    // Who waits to be told to go on sends nothing after another answer, and would be told so by reading.
    let waits = request.headers().contains_key(header::EXPECT);
    let left = Left::default();
    inbound.request = inbound.request.map(|body| left.lend(body));
    let mut response = inner(inbound).await;
    let ends = match left.take() {
        _ if doubtful => true,
        None => false,
        Some(rest) => waits || !read(rest).await,
    };
    if ends && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Whether it has come to its end.
async fn read(mut body: Body) -> bool {
    if body.size_hint().lower() > MOST {
        return false;
    }
    let mut length = 0;
    let reading = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            length += frame.data_ref().map_or(0, |data| data.len() as u64);
            if length > MOST {
                return false;
            }
        }
        true
    };
    timeout(PATIENCE, reading).await.unwrap_or(false)
}

/// A body that somebody has dropped before its end.
#[derive(Default, Clone)]
struct Left(Arc<Mutex<Option<Body>>>);

impl Left {
    fn lend(&self, body: Body) -> Body {
        let lent = Lent {
            body: Some(body),
            left: self.clone(),
        };
        lent.boxed_unsync()
    }

    /// None as long as somebody has it, and where nothing is left.
    fn take(&self) -> Option<Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Lent {
    /// Until it has ended.
    body: Option<Body>,
    left: Left,
}

impl HttpBody for Lent {
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
        let left = self.body.as_ref().map(HttpBody::size_hint);
        left.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let left = self.left.0.lock();
            *left.unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
