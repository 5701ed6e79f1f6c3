//! Requests that modules answer.

use std::{future::Future, sync::Arc, time::Duration};

use axum::Router;
use fairlead_api::{Code, Failure};
use fairlead_dialer::{Body, BodyError};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{
    front::{authenticate::Known, record::Inbound},
    hub::Hub,
};

/// How long a module may take to the head of its answer, the request's body included.
pub(crate) const MODULE_TIME: Duration = Duration::from_secs(30);

/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) async fn people(
    hub: Arc<Hub>,
    known: Known<Inbound>,
) -> Result<Response<Body>, Failure> {
    let mut request = known.asked.request;
    request.extensions_mut().insert(known.caller);
    ask(hub.people.clone(), request).await
}

/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) async fn open(hub: Arc<Hub>, inbound: Inbound) -> Result<Response<Body>, Failure> {
    ask(hub.open.clone(), inbound.request).await
}

/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) fn ask(
    router: Router,
    request: Request<Body>,
) -> impl Future<Output = Result<Response<Body>, Failure>> + Send {
    let answer = router.oneshot(request.map(axum::body::Body::new));
    async move {
        match timeout(MODULE_TIME, answer).await {
            Ok(Ok(response)) => Ok(response.map(unsync)),
            Ok(Err(never)) => match never {},
            Err(_) => Err(Failure::because(
                Code::HubTimeout,
                format_args!("nothing within {} s", MODULE_TIME.as_secs()),
            )),
        }
    }
}

fn unsync(body: axum::body::Body) -> Body {
    body.map_err(BodyError::from).boxed_unsync()
}
