//! Redirects of a cluster. Only those to a path of the same cluster reach the client, below the cluster's address.
//!
//! Clients follow a redirect with their bearer token, so any other target would get it (CVE-2020-8559, CVE-2022-3172).
//! The agent has made a path of the API server's URL; the hub trusts no agent with the rest.

use fairlead_api::{ClusterId, Code, Failure};
use http::{HeaderMap, HeaderValue, StatusCode, header::LOCATION};

use crate::{front::address::AddressForm, http::path};

/// Puts the target of an answer below the address that the client used. An answer that is no redirect loses an invalid
/// target.
///
/// # Errors
/// `FL-1507` for a redirect without exactly one path as its target.
pub(crate) fn rebase(
    status: StatusCode,
    headers: &mut HeaderMap,
    cluster: &ClusterId,
    form: AddressForm,
) -> Result<(), Failure> {
    let is_redirect = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    if !is_redirect && !headers.contains_key(LOCATION) {
        return Ok(());
    }
    let mut targets = headers.get_all(LOCATION).iter();
    let target = match (targets.next(), targets.next()) {
        (Some(target), None) => target.to_str().ok().filter(|target| is_path(target)),
        _ => None,
    };
    let target = target.and_then(|path| HeaderValue::try_from(form.path(cluster, path)).ok());
    match target {
        Some(target) => drop(headers.insert(LOCATION, target)),
        None if is_redirect => {
            let status = status.as_u16();
            let detail = format_args!("status {status} without one path of this cluster");
            return Err(Failure::because(Code::RedirectRefused, detail));
        }
        None => drop(headers.remove(LOCATION)),
    }
    Ok(())
}

/// An unambiguous path, with an optional query and fragment in visible ASCII.
fn is_path(target: &str) -> bool {
    let end = target.find(['?', '#']).unwrap_or(target.len());
    let (path, rest) = target.split_at(end);
    path::check(path).is_ok() && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
