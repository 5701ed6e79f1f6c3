//! The step that turns a panic into an answer: the connection and the other requests on it live on.

use std::{future::Future, panic::AssertUnwindSafe};

use fairlead_api::Failure;
use fairlead_exchange::Body;
use futures_util::FutureExt;
use http::Response;

use crate::{front::record::RequestRecord, http::panic};

/// Runs the inner steps, and answers a panic of theirs with `FL-5101`.
///
/// No `async fn`: its future would contain the inner one twice.
pub(crate) fn catch_panic<F>(
    record: RequestRecord,
    inner: F,
) -> impl Future<Output = Result<Response<Body>, Failure>>
where
    F: Future<Output = Result<Response<Body>, Failure>>,
{
    let caught = AssertUnwindSafe(inner).catch_unwind();
    caught.map(move |done| {
        done.unwrap_or_else(|panic| Err(panic::failure_of(record.id(), panic.as_ref())))
    })
}
