//! How the modules' routes take requests and answer: bodies are bounded in size and time, and every failure is a
//! [`fairlead_api::Reason`] with its code, a wrong method included.

use std::time::Duration;

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use fairlead_api::{Code, Failure};
use fairlead_gateway::{AgentPeer, Asker, Caller, seam::refuse};
use http::{HeaderMap, HeaderValue, header, request::Parts};
use serde::de::DeserializeOwned;

/// The largest body of a route for people but the catalog's, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// A failure on its way to whoever asked.
#[derive(Debug)]
pub(crate) struct Refused(Failure);

pub(crate) type Answer<T> = Result<T, Refused>;

impl<F: Into<Failure>> From<F> for Refused {
    fn from(failure: F) -> Self {
        Refused(failure.into())
    }
}

impl Refused {
    pub(crate) fn because(code: Code, detail: impl std::fmt::Display) -> Self {
        Refused(Failure::because(code, detail))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refuse(self.0)
    }
}

/// JSON that nobody on the way may keep: it holds a secret.
pub(crate) struct Secret<T>(pub(crate) T);

impl<T: serde::Serialize> IntoResponse for Secret<T> {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        (headers, Json(self.0)).into_response()
    }
}

/// Who asks; put there by the gateway. Without it nobody is let in.
pub(crate) struct Who(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Refused;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        match parts.extensions.get::<Asker>().cloned() {
            Some(asker) => Ok(Who(asker.caller().await?)),
            None => Err(Code::NoToken.into()),
        }
    }
}

/// Which agent asks; put there by the gateway. Without it, it is nobody.
pub(crate) struct Peer(pub(crate) AgentPeer);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Refused;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let peer = parts.extensions.get::<AgentPeer>();
        Ok(Peer(peer.cloned().unwrap_or(AgentPeer::Anonymous)))
    }
}

/// A body of JSON of `MAX` bytes at most.
pub(crate) struct Sent<T, const MAX: usize = MAX_BODY>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync, const MAX: usize> FromRequest<S> for Sent<T, MAX> {
    type Rejection = Refused;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let read = to_bytes(request.into_body(), MAX);
        let bytes = tokio::time::timeout(BODY_DEADLINE, read)
            .await
            .map_err(|_| Refused::because(Code::BadRequest, "the body did not arrive in time"))?
            .map_err(|_| {
                let detail = format!("the body was cut off, or is longer than {MAX} bytes");
                Refused::because(Code::BadRequest, detail)
            })?;
        let sent = serde_json::from_slice(&bytes).map(Sent).map_err(|error| {
            use serde_json::error::Category;
            let code = match error.classify() {
                Category::Data => Code::Invalid,
                Category::Syntax | Category::Eof | Category::Io => Code::BadRequest,
            };
            Refused::because(code, error)
        })?;
        // serde would take a list of values in the order of the fields for the object as well.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Refused::because(Code::Invalid, "expected an object"));
        }
        Ok(sent)
    }
}

/// The last touch for the routes of a module.
pub(crate) fn finish(router: Router) -> Router {
    router.method_not_allowed_fallback(async || Refused::from(Code::MethodNotAllowed))
}
