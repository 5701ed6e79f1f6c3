//! Every failure becomes one `metav1.Status` in the encoding the client asked for, with its code and the id of the
//! request as headers, for scripts.

use std::convert::Infallible;

use fairlead_api::{
    Code, Failure,
    headers::{AGENT_CODE, REQUEST_ID},
    status::{self, Encoding},
};
use fairlead_dialer::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tower::{BoxError, Service, ServiceExt, service_fn};
use tracing::error;

use crate::front::{body, record::Inbound};

/// The layer: whatever fails inside is answered here.
pub(crate) fn respond<S>(
    inner: S,
) -> impl Service<Inbound, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send
where
    S: Service<Inbound, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send,
{
    service_fn(move |inbound: Inbound| {
        let inner = inner.clone();
        async move {
            let encoding = accepted(inbound.request.headers());
            let record = inbound.record.clone();
            let (mut response, code) = match inner.oneshot(inbound).await {
                Ok(response) => tell(response, encoding),
                Err(error) => {
                    let failure = failure_of(error, record.id());
                    (render(&failure, encoding), Some(failure.code))
                }
            };
            let Some(code) = code else {
                return Ok(response);
            };
            record.failed(code);
            if let Ok(id) = HeaderValue::from_str(record.id()) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            Ok(response)
        }
    })
}

fn failure_of(error: BoxError, request: &str) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => *failure,
        Err(error) => {
            error!(request, %error, "a request failed for a reason that has no code");
            Failure::new(Code::Internal)
        }
    }
}

/// Writes down a failure that a module left in the extensions, with the headers it has set (`Allow`, for one).
pub(crate) fn tell(
    mut response: Response<Body>,
    encoding: Encoding,
) -> (Response<Body>, Option<Code>) {
    let Some(failure) = response.extensions_mut().remove::<Failure>() else {
        return (response, None);
    };
    let mut told = render(&failure, encoding);
    for (name, value) in response.headers() {
        if !told.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            told.headers_mut().append(name, value.clone());
        }
    }
    (told, Some(failure.code))
}

/// What the client's `Accept` headers ask for.
pub(crate) fn accepted(headers: &HeaderMap) -> Encoding {
    let accepts: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    Encoding::accepted_by(&accepts.join(","))
}

pub(crate) fn render(failure: &Failure, encoding: Encoding) -> Response<Body> {
    let http_status = encoding.status(status::http_status(failure.code));
    let mut response = Response::new(body::full(encoding.encode(failure, http_status)));
    *response.status_mut() =
        StatusCode::from_u16(http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(encoding.content_type()),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(code) = HeaderValue::from_str(&failure.code.to_string()) {
        headers.insert(AGENT_CODE, code);
    }
    match http_status {
        401 => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // client-go waits and asks again only where it is told how long; a lost cluster is told at once instead.
        429 => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_failure_is_told_in_the_encoding_that_was_asked_for() {
        let failure = Failure::new(Code::AgentFull);
        let mut headers = HeaderMap::new();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json"),
        );
        let response = render(&failure, accepted(&headers));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[AGENT_CODE], "FL-1403");
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(b"k8s\0"));

        let response = render(&failure, accepted(&HeaderMap::new()));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
    }

    #[test]
    fn nothing_but_429_asks_the_client_to_come_back() {
        for &code in Code::ALL {
            let response = render(&Failure::new(code), Encoding::Json);
            let asks = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(asks, response.status() == 429, "{code}");
        }
    }
}
