//! Body of a request that is offered to one hub after the other, until one takes the first byte of it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::http::body;

/// Body of a request that no hub has taken yet.
pub(super) struct OfferedBody(Arc<Mutex<Offered>>);

struct Offered {
    body: Body,
    is_taken: bool,
}

impl OfferedBody {
    pub(super) fn new(body: Body) -> Self {
        OfferedBody(Arc::new(Mutex::new(Offered {
            body,
            is_taken: false,
        })))
    }

    /// True for a request without a body.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).body.is_end_stream()
    }

    /// True while another hub may get the whole body.
    pub(super) fn is_untouched(&self) -> bool {
        !lock(&self.0).is_taken
    }

    /// The body for one attempt; at most one attempt runs at a time.
    pub(super) fn offer(&self) -> Body {
        match self.is_empty() {
            true => body::empty(),
            false => TakenBody(Arc::clone(&self.0)).boxed_unsync(),
        }
    }
}

struct TakenBody(Arc<Mutex<Offered>>);

fn lock(offered: &Mutex<Offered>) -> MutexGuard<'_, Offered> {
    offered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpBody for TakenBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut offered = lock(&self.0);
        let polled = Pin::new(&mut offered.body).poll_frame(cx);
        offered.is_taken |= polled.is_ready();
        polled
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_can_be_offered_again_until_its_first_byte_was_taken() {
        let offered = OfferedBody::new(body::full("all of it"));
        drop(offered.offer());
        assert!(offered.is_untouched() && !offered.is_empty());
        let mut second = offered.offer();
        let frame = second.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "all of it");
        assert!(!offered.is_untouched());
        let empty = OfferedBody::new(body::empty());
        assert!(empty.is_empty() && empty.offer().frame().await.is_none());
        assert!(empty.is_untouched());
    }
}
