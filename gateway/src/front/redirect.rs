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
mod tests {
    use super::*;

    fn rebased(status: u16, targets: &[&str], form: AddressForm) -> Result<Option<String>, Code> {
        let mut headers = HeaderMap::new();
        for target in targets {
            headers.append(
                LOCATION,
                HeaderValue::from_bytes(target.as_bytes()).unwrap(),
            );
        }
        let cluster = "c-a".parse().unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        rebase(status, &mut headers, &cluster, form).map_err(|failure| failure.code)?;
        let location = headers.get(LOCATION);
        Ok(location.map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn path_of_the_cluster_stays_below_its_address() {
        for status in [300, 301, 302, 303, 307, 308, 201] {
            for target in ["/", "/api/v1?watch=1", "/a/b%20c/?x=//e#y", "/clusters/c-b"] {
                let below = format!("/k8s/clusters/c-a{target}");
                let by_path = rebased(status, &[target], AddressForm::Path);
                assert_eq!(by_path, Ok(Some(below)), "{status} {target}");
                let by_name = rebased(status, &[target], AddressForm::Name);
                assert_eq!(by_name, Ok(Some(target.to_owned())), "{status} {target}");
            }
        }
    }

    #[test]
    fn redirect_elsewhere_is_refused() {
        for form in [AddressForm::Name, AddressForm::Path] {
            for target in [
                "http://evil.test/",
                "https://hub.test/clusters",
                "//evil.test/x",
                "/\\evil.test",
                "\\\\evil.test",
                "/../../clusters",
                "/../c-b/api",
                "/%2e%2e/c-b/api",
                "/a/..%2f..",
                "relative",
                "../up",
                "?query",
                "#fragment",
                "",
                " /api",
                "/api?a b",
                "/api\t",
                "/\u{e4}",
                "javascript:alert(1)",
            ] {
                for status in [300, 301, 302, 303, 305, 307, 308, 399] {
                    let refused = Err(Code::RedirectRefused);
                    assert_eq!(
                        rebased(status, &[target], form),
                        refused,
                        "{status} {target}"
                    );
                }
                assert_eq!(rebased(201, &[target], form), Ok(None), "{target}");
                assert_eq!(rebased(304, &[target], form), Ok(None), "{target}");
            }
            let refused = Err(Code::RedirectRefused);
            assert_eq!(rebased(307, &[], form), refused);
            assert_eq!(rebased(307, &["/a", "/a"], form), refused);
            assert_eq!(rebased(304, &[], form), Ok(None));
        }
    }
}
