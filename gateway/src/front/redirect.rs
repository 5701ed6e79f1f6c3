//! Redirects of a cluster. Only those to a path of the same cluster reach the client, below the cluster's address.
//!
//! The agent has made a path of the API server's URL; the hub trusts no agent with the rest.

use fairlead_api::{ClusterId, Code, Failure};
use fairlead_exchange::redirect::replace_target;
use http::{HeaderMap, HeaderValue, StatusCode};

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
    let admit = |target: &HeaderValue| {
        let path = target.to_str().ok().filter(|target| is_path(target))?;
        HeaderValue::try_from(form.path(cluster, path)).ok()
    };
    replace_target(status, headers, admit).map_err(|_| {
        let status = status.as_u16();
        let detail = format_args!("status {status} without one path of this cluster");
        Failure::because(Code::RedirectRefused, detail)
    })
}

/// An unambiguous path, with an optional query and fragment in visible ASCII.
fn is_path(target: &str) -> bool {
    let end = target.find(['?', '#']).unwrap_or(target.len());
    let (path, rest) = target.split_at(end);
    path::check(path).is_ok() && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
