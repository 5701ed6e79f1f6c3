//! The step that limits requests without an authenticated caller: while they wait, and until their answer is taken.
//!
//! A token that the hub checks by itself costs no slot, so strangers never delay it.

use std::{future::Future, pin::pin, task::Poll};

use fairlead_api::{Code, Failure};
use fairlead_exchange::Body;
use http::{Response, StatusCode, header};

use crate::{
    front::record::{Inbound, RequestRecord},
    http::{
        body,
        failure::{self, Shape},
    },
};

/// Runs the inner steps, with a slot of the strangers of this address where one is needed.
pub(crate) async fn limit_strangers<F>(
    inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Response<Body>>,
{
    let record = inbound.record.clone();
    let mut inner = pin!(inner(inbound));
    let mut slot = None;
    let answered = std::future::poll_fn(|cx| {
        let polled = inner.as_mut().poll(cx);
        if record.flow().is_known() {
            slot = None;
        } else if slot.is_none() {
            // The agents' door: its handshakes have a pool of their own.
            if let Poll::Ready(response) = &polled
                && response.status() == StatusCode::SWITCHING_PROTOCOLS
            {
                return polled.map(Some);
            }
            slot = record.strangers().requests.take(1);
            if slot.is_none() {
                return Poll::Ready(None);
            }
        }
        polled.map(Some)
    });
    match answered.await {
        Some(response) => {
            if let Some(slot) = slot {
                record.keep(slot);
            }
            response
        }
        None => too_many(&record),
    }
}

/// A refusal without a body: it waits for no window of the client, so it needs no slot.
fn too_many(record: &RequestRecord) -> Response<Body> {
    let failure = Failure::new(Code::TooManyRequests);
    record.set_code(failure.code);
    record.omit_from_audit();
    let mut response = failure::render(&failure, Shape::Reason).map(|_| body::empty());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response
}
