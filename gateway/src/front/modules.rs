//! Requests that modules answer.

use std::{future::Future, sync::Arc, time::Duration};

use axum::Router;
use fairlead_api::{Code, Failure};
use fairlead_dialer::{Body, BodyError};
use http::{Request, Response, Uri, uri::PathAndQuery};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{
    front::{authenticate::Unasked, record::Inbound},
    hub::Hub,
    seam::Asker,
};

/// How long a module may take to the head of its answer, the request's body included.
pub(crate) const MODULE_TIME: Duration = Duration::from_secs(30);

/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) async fn module(
    hub: &Arc<Hub>,
    inbound: Box<Inbound>,
) -> Result<Response<Body>, Failure> {
    let asker = Asker::unasked(Unasked::new(hub, &inbound));
    let mut request = inbound.request;
    if let Some(uri) = without_last_slash(request.uri()) {
        *request.uri_mut() = uri;
    }
    request.extensions_mut().insert(asker);
    ask(hub.modules.clone(), request).await
}

/// Clients of Lieutenant's API put one behind any path.
fn without_last_slash(uri: &Uri) -> Option<Uri> {
    let path = uri
        .path()
        .strip_suffix('/')
        .filter(|path| !path.is_empty())?;
    let path = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slash_at_the_end_of_a_path_says_nothing() {
        let without =
            |uri: &str| without_last_slash(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(without("/clusters/").as_deref(), Some("/clusters"));
        assert_eq!(without("/clusters/?a=/").as_deref(), Some("/clusters?a=/"));
        assert_eq!(
            without("https://hub.test/docs/").as_deref(),
            Some("https://hub.test/docs")
        );
        assert_eq!(without("/"), None);
        assert_eq!(without("/clusters?a=/"), None);
    }
}
