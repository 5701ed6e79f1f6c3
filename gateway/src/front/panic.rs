//! A panic while a request is answered is a bug of ours: it is logged and answered with `FL-5101`, and the connection
//! with everybody else's requests on it lives on.

use std::{any::Any, panic::AssertUnwindSafe};

use fairlead_api::{Code, Failure};
use fairlead_dialer::Body;
use futures_util::FutureExt;
use http::Response;
use tower::{BoxError, Service, ServiceExt, service_fn};
use tracing::error;

use crate::front::record::Inbound;

/// The layer.
pub(crate) fn catch_panic<S>(
    inner: S,
) -> impl Service<Inbound, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send
where
    S: Service<Inbound, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send,
{
    service_fn(move |inbound: Inbound| {
        let inner = inner.clone();
        async move {
            let record = inbound.record.clone();
            AssertUnwindSafe(inner.oneshot(inbound))
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Err(told(record.id(), panic.as_ref()).into()))
        }
    })
}

pub(crate) fn told(request: &str, panic: &(dyn Any + Send)) -> Failure {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    error!(request, panic = message, "a request panicked");
    Failure::new(Code::Internal)
}
