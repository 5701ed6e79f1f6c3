//! The step that answers failures.
//!
//! Clients of a cluster get a `metav1.Status` in the encoding that they accept, clients of the hub itself a `Reason`.
//! The id of the request is a header too, for scripts.

use std::{future::Future, sync::Arc};

use fairlead_api::{Code, Failure, headers::REQUEST_ID};
use fairlead_exchange::Body;
use fairlead_seam::EmergencyNote;
use http::{HeaderName, HeaderValue, Response, StatusCode, Version, header, uri::Authority};
use http_body::Body as _;
use smallvec::SmallVec;

use crate::{
    front::record::Inbound,
    http::{
        failure::{Shape, encoding, render, render_embedded},
        lookup::{all, first},
    },
    hub::Hub,
};

/// Header of answers to nginx, which removes it.
const NGINX_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Runs the inner steps, and answers their failure.
pub(crate) async fn respond<F>(
    hub: &Hub,
    inbound: Box<Inbound>,
    inner: impl FnOnce(Box<Inbound>) -> F,
) -> Response<Body>
where
    F: Future<Output = Result<Response<Body>, Failure>>,
{
    let record = inbound.record.clone();
    let context = FailureContext::of(&inbound);
    let (mut response, code) = match inner(inbound).await {
        Ok(response) => {
            if let Some(note) = response.extensions().get::<EmergencyNote>() {
                record.set_emergency(note);
            }
            let failed = response.extensions().get::<Failure>().is_some();
            match failed {
                true => render_embedded(response, context.shape(hub, record.path())),
                false => (unbuffered(response), None),
            }
        }
        Err(failure) => {
            let shape = context.shape(hub, record.path());
            (render(&failure, shape), Some(failure.code))
        }
    };
    let Some(code) = code else {
        return response;
    };
    record.set_code(code);
    if code == Code::Draining && context.version <= Version::HTTP_11 {
        // The client's next connection may reach another hub at this address.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    if context.offers_basic && response.status() == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"fairlead\"");
        response
            .headers_mut()
            .append(header::WWW_AUTHENTICATE, basic);
    }
    if let Ok(id) = HeaderValue::from_str(record.id()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Lets nginx pass on each piece of an answer of unknown length, such as a watch or a log. By default it would keep them
/// until a buffer is full.
fn unbuffered(mut response: Response<Body>) -> Response<Body> {
    if response.body().size_hint().exact().is_none() {
        let no = HeaderValue::from_static("no");
        response.headers_mut().insert(NGINX_BUFFERING, no);
    }
    response
}

/// Parts of the request that decide the format of a failure.
struct FailureContext {
    sni: Option<Arc<str>>,
    host: Option<HeaderValue>,
    authority: Option<Authority>,
    version: Version,
    accept: SmallVec<[HeaderValue; 1]>,
    /// A browser sends the token as a password to a named service.
    offers_basic: bool,
}

impl FailureContext {
    fn of(inbound: &Inbound) -> Self {
        let headers = inbound.request.headers();
        FailureContext {
            sni: inbound.connection.sni.clone(),
            host: first(headers, &header::HOST).cloned(),
            authority: inbound.request.uri().authority().cloned(),
            version: inbound.request.version(),
            accept: all(headers, &header::ACCEPT).cloned().collect(),
            offers_basic: inbound.connection.service.is_some(),
        }
    }

    /// `path`: that of the request.
    fn shape(&self, hub: &Hub, path: &str) -> Shape {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok());
        let host = host.or_else(|| self.authority.as_ref().map(Authority::as_str));
        let sni = self.sni.as_deref();
        if hub.names.is_for_a_cluster(sni, host, path) || is_kubernetes_path(path) {
            Shape::Status(encoding(&self.accept))
        } else {
            Shape::Reason
        }
    }
}

/// Whether the client takes the hub for an API server, as when a proxy has dropped the path prefix of a cluster.
fn is_kubernetes_path(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    let (first, second) = (segments.next(), segments.next());
    match first {
        Some("api" | "apis" | "version") => true,
        Some("openapi") => matches!(second, Some("v2" | "v3")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_paths_get_kubernetes_failures() {
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
            assert_eq!(is_kubernetes_path(path), its, "{path}");
        }
    }
}
