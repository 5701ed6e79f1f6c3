//! Requests and responses of the modules' routes: bodies are bounded in size and time. Every
//! failure is a [`fairlead_api::Reason`] with its code, including a wrong method.

use axum::{
    Json, Router,
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fairlead_api::{Code, Failure};
use fairlead_seam::{AgentPeer, AuthenticateError, Caller, Principal};
use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use serde::de::DeserializeOwned;

use crate::{body, rejected::as_lieutenant};
pub use crate::{
    body_stream::{BodyStream, check_content_type},
    form::FormBody,
    rejected::{Answer, Rejected},
};

/// Limit for bodies of people's routes except the catalog's, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// JSON with a secret, which no cache on the way may store.
pub struct Secret<T>(pub T);

impl<T: serde::Serialize> IntoResponse for Secret<T> {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        (headers, Json(self.0)).into_response()
    }
}

/// The caller, set by the gateway. Requests without one are rejected.
pub struct Authenticated(pub Caller);

impl<S: Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Rejected;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        match parts.extensions.get::<Principal>().cloned() {
            Some(principal) => Ok(Authenticated(principal.caller().await?)),
            None => Err(Code::NoToken.into()),
        }
    }
}

/// The caller, resolved after the request was validated.
pub struct Requester(Option<Principal>);

impl Requester {
    /// Resolves the caller. A missing token is a malformed request, as Lieutenant's clients expect.
    pub async fn caller(&self) -> Answer<Caller> {
        let caller = match &self.0 {
            Some(principal) => principal.caller().await,
            None => Err(AuthenticateError::NoToken),
        };
        caller.map_err(as_lieutenant)
    }

    /// The unresolved caller.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.0.as_ref()
    }
}

impl<S: Sync> FromRequestParts<S> for Requester {
    type Rejection = Rejected;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Ok(Requester(parts.extensions.get::<Principal>().cloned()))
    }
}

/// Path parameters; an unreadable one fails like every other failure.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Rejected;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Path(path.0))
            .map_err(|rejection| Rejected::because(Code::BadRequest, rejection.body_text()))
    }
}

/// Checks that a body may be read as JSON. A missing type counts as JSON: some clients of
/// Lieutenant's API send none.
///
/// # Errors
/// `FL-1309`
fn check_type(request: &Request) -> Result<(), Failure> {
    let mut types = request.headers().get_all(header::CONTENT_TYPE).iter();
    let Some(sent) = types.next() else {
        return Ok(());
    };
    let text = sent.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is = |known: &str| essence.eq_ignore_ascii_case(known);
    let merges = request.method() == Method::PATCH && is("application/merge-patch+json");
    if types.next().is_none() && (is("application/json") || merges) {
        return Ok(());
    }
    let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
    Err(Failure::because(
        Code::WrongContentType,
        format_args!("{shown:?}"),
    ))
}

/// A JSON document of any shape.
pub struct DocumentBody(pub serde_json::Value);

/// Limit of such a document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

impl<S: Sync> FromRequest<S> for DocumentBody {
    type Rejection = Rejected;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let read = OptionalDocument::from_request(request, &()).await?;
        let missing = || Failure::with_cause(Code::Invalid, "value is required but missing");
        Ok(DocumentBody(read.0.ok_or_else(missing)?))
    }
}

/// A JSON document of any shape, or nothing.
pub struct OptionalDocument(pub Option<serde_json::Value>);

impl<S: Sync> FromRequest<S> for OptionalDocument {
    type Rejection = Rejected;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        check_type(&request)?;
        let bytes = body::read(request, MAX_DOCUMENT_BYTES).await?;
        if bytes.trim_ascii().is_empty() {
            return Ok(OptionalDocument(None));
        }
        let read = serde_json::from_slice(&bytes);
        let invalid =
            |error| Failure::with_cause(Code::Invalid, format!("invalid character: {error}"));
        Ok(OptionalDocument(Some(read.map_err(invalid)?)))
    }
}

/// A body of bytes, at most `MAX_BYTES` long.
pub struct RawBody<const MAX_BYTES: usize>(pub Bytes);

impl<S: Sync, const MAX_BYTES: usize> FromRequest<S> for RawBody<MAX_BYTES> {
    type Rejection = Rejected;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        Ok(RawBody(body::read(request, MAX_BYTES).await?))
    }
}

/// A body of bytes of an open route. A sender without a credential may send `MAX_BYTES`, too; its memory is limited as ever.
pub struct StrangerBody<const MAX_BYTES: usize>(pub Bytes);

impl<S: Sync, const MAX_BYTES: usize> FromRequest<S> for StrangerBody<MAX_BYTES> {
    type Rejection = Rejected;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        Ok(StrangerBody(body::read_open(request, MAX_BYTES).await?))
    }
}

/// The calling agent, set by the gateway. Requests without one are rejected.
pub struct Peer(pub AgentPeer);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Rejected;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let peer = parts.extensions.get::<AgentPeer>();
        Ok(Peer(peer.cloned().unwrap_or(AgentPeer::Anonymous)))
    }
}

/// A JSON body of at most `MAX_BYTES` bytes.
pub struct JsonBody<T, const MAX_BYTES: usize = MAX_BODY_BYTES>(pub T);

impl<T: DeserializeOwned, S: Sync, const MAX_BYTES: usize> FromRequest<S>
    for JsonBody<T, MAX_BYTES>
{
    type Rejection = Rejected;
    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        check_type(&request)?;
        let bytes = body::read(request, MAX_BYTES).await?;
        let sent = serde_json::from_slice(&bytes)
            .map(JsonBody)
            .map_err(|error| {
                use serde_json::error::Category;
                let code = match error.classify() {
                    Category::Data => Code::Invalid,
                    Category::Syntax | Category::Eof | Category::Io => Code::BadRequest,
                };
                Rejected::because(code, error)
            })?;
        // serde would also accept a list with the values in field order.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Rejected::because(Code::Invalid, "expected an object"));
        }
        Ok(sent)
    }
}

/// Applies the common fallbacks to the routes of a module.
pub fn finish(router: Router) -> Router {
    router.method_not_allowed_fallback(async || Rejected::from(Code::MethodNotAllowed))
}
