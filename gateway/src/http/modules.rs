//! Calls of modules' routes, with a deadline.

use std::{future::Future, time::Duration};

use axum::Router;
use fairlead_api::{Code, Failure};
use fairlead_exchange::{Body, BodyError};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tower::ServiceExt;

/// Time for the head of a module's answer, the request's body included.
pub(crate) const MODULE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the request to the router of the modules.
///
/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) fn call(
    router: Router,
    request: Request<Body>,
) -> impl Future<Output = Result<Response<Body>, Failure>> + Send {
    let answer = router.oneshot(request.map(axum::body::Body::new));
    async move {
        match timeout(MODULE_TIMEOUT, answer).await {
            Ok(Ok(response)) => Ok(response.map(unsync)),
            Ok(Err(never)) => match never {},
            Err(_) => Err(Failure::because(
                Code::HubTimeout,
                format_args!("nothing within {} s", MODULE_TIMEOUT.as_secs()),
            )),
        }
    }
}

fn unsync(body: axum::body::Body) -> Body {
    body.map_err(BodyError::from).boxed_unsync()
}
