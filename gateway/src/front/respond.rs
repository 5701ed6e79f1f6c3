//! Every failure becomes one answer: for a cluster a `metav1.Status` in the encoding the client asked for, for the hub
//! itself a [`Reason`]. Its code and the id of the request are headers too, for scripts.

use std::{future::Future, sync::Arc};

use fairlead_api::{
    Code, Failure, Reason,
    headers::{AGENT_CODE, REQUEST_ID},
    status::{self, Encoding},
};
use fairlead_dialer::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, Version, header};

use crate::{
    front::{body, record::Inbound},
    hub::Hub,
};

/// What failures look like to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Status(Encoding),
    Reason,
}

/// The step that answers whatever fails inside.
pub(crate) async fn respond<F>(
    hub: &Hub,
    inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Result<Response<Body>, Failure>>,
{
    let record = inbound.record.clone();
    let asker = Asker::of(&inbound);
    let (mut response, code) = match inner(inbound).await {
        Ok(response) => {
            let failed = response.extensions().get::<Failure>().is_some();
            match failed {
                true => tell(response, asker.shape(hub)),
                false => (response, None),
            }
        }
        Err(failure) => (render(&failure, asker.shape(hub)), Some(failure.code)),
    };
    let Some(code) = code else {
        return response;
    };
    record.failed(code);
    if code == Code::Draining && asker.version <= Version::HTTP_11 {
        // Whoever comes again may find another hub at this address.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    if let Ok(id) = HeaderValue::from_str(record.id()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// What decides about the shape of a failure, kept in case there is one.
struct Asker {
    sni: Option<Arc<str>>,
    host: Option<HeaderValue>,
    uri: Uri,
    version: Version,
    accept: Vec<HeaderValue>,
}

impl Asker {
    fn of(inbound: &Inbound) -> Self {
        let headers = inbound.request.headers();
        Asker {
            sni: inbound.connection.sni.clone(),
            host: headers.get(header::HOST).cloned(),
            uri: inbound.request.uri().clone(),
            version: inbound.request.version(),
            accept: headers.get_all(header::ACCEPT).iter().cloned().collect(),
        }
    }

    fn shape(&self, hub: &Hub) -> Shape {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok());
        let host = host.or_else(|| self.uri.authority().map(http::uri::Authority::as_str));
        let sni = self.sni.as_deref();
        let path = self.uri.path();
        if hub.names.is_for_a_cluster(sni, host, path) || is_of_kubernetes(path) {
            Shape::Status(encoding(&self.accept))
        } else {
            Shape::Reason
        }
    }
}

/// Whether whoever asks for this path takes the hub for an API server: a proxy has dropped the path of a cluster, say.
fn is_of_kubernetes(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    let (first, second) = (segments.next(), segments.next());
    match first {
        Some("api" | "apis" | "version") => true,
        Some("openapi") => matches!(second, Some("v2" | "v3")),
        _ => false,
    }
}

/// Writes down a failure that a module left in the extensions, with the headers it has set (`Allow`, for one).
pub(crate) fn tell(mut response: Response<Body>, shape: Shape) -> (Response<Body>, Option<Code>) {
    let Some(failure) = response.extensions_mut().remove::<Failure>() else {
        return (response, None);
    };
    if shape == Shape::Reason {
        // As the module has written it.
        mark(&mut response, failure.code);
        return (response, Some(failure.code));
    }
    let mut told = render(&failure, shape);
    for (name, value) in response.headers() {
        if !told.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            told.headers_mut().append(name, value.clone());
        }
    }
    (told, Some(failure.code))
}

/// What the client's `Accept` headers ask for.
pub(crate) fn accepted(headers: &HeaderMap) -> Encoding {
    encoding(headers.get_all(header::ACCEPT))
}

fn encoding<'a>(accepts: impl IntoIterator<Item = &'a HeaderValue>) -> Encoding {
    let accepts: Vec<&str> = accepts
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    Encoding::accepted_by(&accepts.join(","))
}

pub(crate) fn render(failure: &Failure, shape: Shape) -> Response<Body> {
    let http_status = status::http_status(failure.code);
    let (http_status, content_type, body) = match shape {
        Shape::Status(encoding) => {
            let http_status = encoding.status(http_status);
            let body = encoding.encode(failure, http_status);
            (http_status, encoding.content_type(), body)
        }
        Shape::Reason => {
            let body = Reason::from(failure).to_json();
            (http_status, Encoding::Json.content_type(), body)
        }
    };
    let mut response = Response::new(body::full(body));
    *response.status_mut() =
        StatusCode::from_u16(http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    mark(&mut response, failure.code);
    response
}

/// The headers of an answer that tells a failure.
fn mark(response: &mut Response<Body>, code: Code) {
    let http_status = response.status().as_u16();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(text) = HeaderValue::from_str(&code.to_string()) {
        headers.insert(AGENT_CODE, text);
    }
    if http_status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    // With this header client-go waits and asks again before it shows anything. That serves who asks too much, and where the
    // database is away: it comes back by itself, and what was refused has not happened. Of a lost cluster a person hears at
    // once, and a program finds the seconds in the `Status`.
    let asks_again = http_status == 429 || code == Code::StoreAway;
    if let Some(seconds) = status::retry_after(code).filter(|_| asks_again) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
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
        let response = render(&failure, Shape::Status(accepted(&headers)));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[AGENT_CODE], "FL-1403");
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(b"k8s\0"));

        let response = render(&failure, Shape::Status(accepted(&HeaderMap::new())));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
    }

    #[test]
    fn who_takes_the_hub_for_an_api_server_is_answered_as_by_one() {
        for (path, its) in [
            ("/api", true),
            ("/api/v1/nodes", true),
            ("/apis/apps/v1", true),
            ("/openapi/v3", true),
            ("/version", true),
            ("/openapi.json", false),
            ("/clusters/c-api", false),
            ("/v1/whoami", false),
            ("/", false),
        ] {
            assert_eq!(is_of_kubernetes(path), its, "{path}");
        }
    }

    #[test]
    fn nothing_but_429_and_an_absent_database_ask_the_client_to_come_back() {
        for &code in Code::ALL {
            let response = render(&Failure::new(code), Shape::Reason);
            let asks = response.headers().contains_key(header::RETRY_AFTER);
            let should = response.status() == 429 || code == Code::StoreAway;
            assert_eq!(asks, should, "{code}");
        }
    }
}
