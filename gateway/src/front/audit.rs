//! Tells of each request once, when it has ended: the record goes along with the body of the answer. The line itself is
//! written by [`Record`](super::record::Record).

use std::future::Future;

use fairlead_dialer::Body;
use http::{Method, Response, Version};
use http_body_util::BodyExt;

use crate::front::{record::Inbound, transfer::Download};

/// The step around all others.
pub(crate) async fn audit<F>(
    inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Response<Body>>,
{
    let record = inbound.record.clone();
    // Only here is the end of the connection the end of the body.
    let until_close = inbound.request.version() == Version::HTTP_10;
    let cut = until_close.then(|| inbound.connection.cut.clone());
    let bodiless = inbound.request.method() == Method::HEAD;
    let response = inner(inbound).await;
    record.answered(response.status());
    response.map(|body| Download::new(body, record, cut, bodiless).boxed_unsync())
}
