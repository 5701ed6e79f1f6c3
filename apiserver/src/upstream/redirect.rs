//! Redirects of the API server. Only those that stay at this API server go back to the hub, as a path.
//!
//! Clients follow a redirect with their bearer token of the hub (CVE-2020-8559, CVE-2022-3172).

use fairlead_exchange::Body;
use http::{HeaderValue, Response, StatusCode, Uri, header::LOCATION};
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
    let status = response.status();
    let is_redirect = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    if !is_redirect && !response.headers().contains_key(LOCATION) {
        return Ok(());
    }
    let headers = response.headers_mut();
    let mut targets = headers.get_all(LOCATION).iter();
    let path = match (targets.next(), targets.next()) {
        (Some(target), None) => path_at(endpoint, requested, target),
        _ => None,
    };
    match path {
        Some(path) => {
            headers.insert(LOCATION, path);
            Ok(())
        }
        None if is_redirect => Err(UpstreamError::Redirect),
        None => {
            headers.remove(LOCATION);
            Ok(())
        }
    }
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
