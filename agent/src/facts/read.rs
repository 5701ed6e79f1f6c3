//! Reads the agent's own API server for facts: single objects, and lists page by page, with deadlines and
//! bounds. If metadata is enough, the request asks for metadata only: no Secret's content is ever read.

use fairlead_api::{error_chain, percent};
use std::time::Duration;

use fairlead_exchange::{Answer, Body, body};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{
    items::{ItemSplitter, ListPage},
    source::{CollectorSource, Selection},
};
use fairlead_apiserver::Upstream;

/// Deadline for an object or a page of a list, from the request to the last byte.
const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum size of an object, or of the answer to a rejected request, in bytes.
const MAX_OBJECT_BYTES: usize = 2 * 1024 * 1024;
/// Maximum size of a page of a list, in bytes. A page is never kept in memory.
const MAX_PAGE_BYTES: usize = 256 * 1024 * 1024;
/// Objects per page.
const PAGE_LIMIT: usize = 500;
/// Maximum number of pages of a list, for an API server that never ends one.
const MAX_PAGES: usize = 400;

const JSON: &str = "application/json";
/// Keys of service accounts have a media type of their own, and the API server insists on it.
const JSON_OBJECT: &str = "application/json, application/jwk-set+json";
const METADATA_OF_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Reason for an unread source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The cluster has no such object.
    Absent,
    /// The agent lacks the right to read it.
    Forbidden,
    /// The API server gave no usable answer this time.
    Failed(String),
}

impl ReadError {
    fn failed(why: impl ToString) -> Self {
        ReadError::Failed(why.to_string())
    }
}

/// Passes each object of `source` to `take`. Returns the number of skipped objects that exceed the size limit.
///
/// # Errors
///
/// [`ReadError`]. Objects of earlier pages have already been passed then.
pub(super) async fn for_each(
    upstream: &Upstream,
    source: &CollectorSource,
    take: &mut (impl FnMut(&[u8]) + Send),
) -> Result<usize, ReadError> {
    match source.selection {
        Selection::Object => {
            let body = open_body(upstream, &source.path, JSON_OBJECT).await?;
            let whole = timeout(READ_DEADLINE, body::read(body, MAX_OBJECT_BYTES)).await;
            let whole = whole.map_err(|_| timed_out())?.map_err(ReadError::failed)?;
            take(&whole);
            Ok(0)
        }
        Selection::List { selector, metadata } => {
            let accept = if metadata { METADATA_OF_LIST } else { JSON };
            list(upstream, (&source.path, selector, accept), take).await
        }
    }
}

async fn list(
    upstream: &Upstream,
    (path, selector, accept): (&str, &str, &'static str),
    take: &mut (impl FnMut(&[u8]) + Send),
) -> Result<usize, ReadError> {
    let mut next = None::<String>;
    let mut left_out = 0;
    for _ in 0..MAX_PAGES {
        let mut url = format!("{path}?limit={PAGE_LIMIT}");
        for (name, value) in [
            ("labelSelector", selector),
            ("continue", next.as_deref().unwrap_or("")),
        ] {
            if !value.is_empty() {
                url.push_str(&format!("&{name}={}", percent::encode(value)));
            }
        }
        let page = timeout(READ_DEADLINE, page(upstream, &url, accept, take)).await;
        let page = page.map_err(|_| timed_out())??;
        left_out += page.left_out;
        match page.next {
            Some(more) => next = Some(more),
            None => return Ok(left_out),
        }
    }
    Err(ReadError::failed(format_args!(
        "more than {MAX_PAGES} pages"
    )))
}

async fn page(
    upstream: &Upstream,
    path: &str,
    accept: &'static str,
    take: &mut (impl FnMut(&[u8]) + Send),
) -> Result<ListPage, ReadError> {
    let mut body = open_body(upstream, path, accept).await?;
    let mut items = ItemSplitter::default();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ReadError::failed)?.into_data() else {
            continue;
        };
        length += data.len();
        if length > MAX_PAGE_BYTES {
            return Err(ReadError::failed("a page exceeds the size limit"));
        }
        items.feed(&data, take).map_err(ReadError::failed)?;
    }
    items.finish().map_err(ReadError::failed)
}

/// Body of a 200.
async fn open_body(
    upstream: &Upstream,
    path: &str,
    accept: &'static str,
) -> Result<Body, ReadError> {
    let mut request = Request::new(body::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse().map_err(ReadError::failed)?;
    let accept = HeaderValue::from_static(accept);
    request.headers_mut().insert(header::ACCEPT, accept);
    let sent = upstream.send(request, Some(READ_DEADLINE)).await;
    let Answer::Response(response) =
        sent.map_err(|error| ReadError::Failed(error_chain(&error)))?
    else {
        return Err(ReadError::failed("the API server upgraded a GET"));
    };
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response.into_body());
    }
    // Reads to the end, so that the connection can be used again.
    let _ = timeout(
        READ_DEADLINE,
        body::read(response.into_body(), MAX_OBJECT_BYTES),
    )
    .await;
    match status {
        StatusCode::NOT_FOUND => Err(ReadError::Absent),
        StatusCode::FORBIDDEN => Err(ReadError::Forbidden),
        status => Err(ReadError::failed(format_args!(
            "the API server answered {}",
            status.as_u16()
        ))),
    }
}

fn timed_out() -> ReadError {
    ReadError::failed(format_args!(
        "no answer within {} s",
        READ_DEADLINE.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_is_escaped_in_a_query() {
        assert_eq!(
            percent::encode("owner=helm,status!=superseded&x"),
            "owner%3Dhelm%2Cstatus%21%3Dsuperseded%26x"
        );
    }
}
