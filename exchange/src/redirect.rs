//! Targets of redirects. A client follows a redirect with its bearer token, so each process on the path admits only targets
//! that it has checked (CVE-2020-8559, CVE-2022-3172).

use http::{HeaderMap, HeaderValue, StatusCode, header::LOCATION};

/// A redirect without exactly one admitted target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a redirect to another place")]
pub struct RefusedRedirect;

/// Replaces the target of an answer by that which `admit` makes of it. An answer that is no redirect loses a target that is not
/// admitted.
///
/// # Errors
/// [`RefusedRedirect`]
pub fn replace_target(
    status: StatusCode,
    headers: &mut HeaderMap,
    admit: impl FnOnce(&HeaderValue) -> Option<HeaderValue>,
) -> Result<(), RefusedRedirect> {
    let is_redirect = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    if !is_redirect && !headers.contains_key(LOCATION) {
        return Ok(());
    }
    let mut targets = headers.get_all(LOCATION).iter();
    let target = match (targets.next(), targets.next()) {
        (Some(target), None) => admit(target),
        _ => None,
    };
    match target {
        Some(target) => drop(headers.insert(LOCATION, target)),
        None if is_redirect => return Err(RefusedRedirect),
        None => drop(headers.remove(LOCATION)),
    }
    Ok(())
}
