//! Tells of each request once, when it has ended: the record goes along with the body of the answer. The line itself is
//! written by [`Record`](super::record::Record).

use std::convert::Infallible;

use fairlead_dialer::Body;
use http::{Method, Response, Version};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt, service_fn};

use crate::front::{body::Download, record::Inbound};

/// The layer.
pub(crate) fn audit<S>(
    inner: S,
) -> impl Service<Inbound, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send
where
    S: Service<Inbound, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send,
{
    service_fn(move |inbound: Inbound| {
        let inner = inner.clone();
        async move {
            let record = inbound.record.clone();
            // Only here is the end of the connection the end of the body.
            let until_close = inbound.request.version() == Version::HTTP_10;
            let cut = until_close.then(|| inbound.connection.cut.clone());
            let bodiless = inbound.request.method() == Method::HEAD;
            let response = inner.oneshot(inbound).await?;
            record.answered(response.status());
            Ok(response.map(|body| Download::new(body, record, cut, bodiless).boxed_unsync()))
        }
    })
}
