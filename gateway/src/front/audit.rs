//! The step that logs each request once, when its answer has ended: the record goes along with the body.
//!
//! [`RequestRecord`](super::record::RequestRecord) writes the log line.

use std::future::Future;

use fairlead_exchange::Body;
use fairlead_protocols::StreamFormat;
use http::{Method, Response, Version};

use crate::front::{record::Inbound, transfer::RecordedDownload};

/// Runs all other steps inside.
pub(crate) async fn audit<F>(
    inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<RecordedDownload>
where
    F: Future<Output = Response<Body>>,
{
    let record = inbound.record.clone();
    // Only in HTTP/1.0 the end of the connection ends the body.
    let until_close = inbound.request.version() == Version::HTTP_10;
    let reset = until_close.then(|| inbound.connection.reset.clone());
    let bodiless = inbound.request.method() == Method::HEAD;
    let response = inner(inbound).await;
    record.set_status(response.status());
    let format = StreamFormat::of(record.kind(), &response);
    response.map(|body| RecordedDownload::new(body, record, reset, bodiless, format))
}
