//! A panic while a request is answered is a bug of ours: it is logged and answered with `FL-5101`, and the connection
//! with everybody else's requests on it lives on.

use std::{any::Any, future::Future, panic::AssertUnwindSafe};

use fairlead_api::{Code, Failure};
use fairlead_dialer::Body;
use futures_util::FutureExt;
use http::Response;
use tracing::error;

use crate::front::record::Record;

/// The step around all that may fail.
pub(crate) async fn catch_panic<F>(record: Record, inner: F) -> Result<Response<Body>, Failure>
where
    F: Future<Output = Result<Response<Body>, Failure>>,
{
    AssertUnwindSafe(inner)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(told(record.id(), panic.as_ref())))
}

pub(crate) fn told(request: &str, panic: &(dyn Any + Send)) -> Failure {
    error!(request, panic = message(panic), "a request panicked");
    Failure::new(Code::Internal)
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
