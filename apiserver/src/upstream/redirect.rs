//! Redirects of the API server. Only those that stay at this API server go back to the hub, as a path.

use fairlead_exchange::{Body, redirect::replace_target};
use http::{HeaderValue, Response, Uri};
use url::{Position, Url};

use super::UpstreamError;
use crate::credentials::endpoint::Endpoint;

/// Replaces the target of an answer by its path below the API server's base path. An answer that is no redirect
/// loses a target elsewhere.
///
/// # Errors
///
/// [`UpstreamError::Redirect`] for a redirect to another place.
pub(super) fn localize(
    response: &mut Response<Body>,
    endpoint: &Endpoint,
    requested: &Uri,
) -> Result<(), UpstreamError> {
    let admit = |target: &HeaderValue| path_at(endpoint, requested, target);
    let status = response.status();
    let replaced = replace_target(status, response.headers_mut(), admit);
    replaced.map_err(|_| UpstreamError::Redirect)
}

/// Resolves a target against the requested URL (RFC 3986, section 5).
fn path_at(endpoint: &Endpoint, requested: &Uri, target: &HeaderValue) -> Option<HeaderValue> {
    let scheme = if endpoint.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let host = endpoint.host.to_str().ok()?;
    let base = Url::parse(&format!("{scheme}://{host}{requested}")).ok()?;
    let found = base.join(target.to_str().ok()?).ok()?;
    let same_server = found.origin() == base.origin() && !has_credentials(&found);
    let path = found[Position::BeforePath..].strip_prefix(&endpoint.base_path)?;
    let is_path = path.starts_with('/') && !path.starts_with("//");
    if same_server && is_path {
        HeaderValue::from_str(path).ok()
    } else {
        None
    }
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}
