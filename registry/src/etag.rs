//! ETags of the form `"<version>-<hash of the response>"`. `If-None-Match` compares the hash,
//! `If-Match` the version: a changed connection status must not invalidate a pending edit.

use aws_lc_rs::digest;
use axum::response::{IntoResponse, Response};
use fairlead_api::hex;
use fairlead_store::View;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::error::RegistryError;

/// Header of lists: the revision shown, from which changes can be watched.
const REVISION_HEADER: &str = "fairlead-revision";

/// A JSON response with its ETag, or 304. Marked private: the content depends on the caller.
///
/// # Errors
/// `FL-5101`
pub fn answer<T: Serialize + ?Sized>(
    headers: &HeaderMap,
    status: StatusCode,
    version: Option<u64>,
    body: &T,
) -> Result<Response, RegistryError> {
    let body = serde_json::to_vec(body)?;
    serialized_answer(headers, status, version, body)
}

/// Like [`answer`], for serialised JSON.
///
/// # Errors
/// `FL-5101`
pub(super) fn serialized_answer(
    request: &HeaderMap,
    status: StatusCode,
    version: Option<u64>,
    body: Vec<u8>,
) -> Result<Response, RegistryError> {
    let tag = tag(version, &body);
    let mut headers = HeaderMap::new();
    let tag_value = HeaderValue::try_from(&tag);
    headers.insert(header::ETAG, tag_value.map_err(RegistryError::internal)?);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("Authorization"));
    if status == StatusCode::OK && matches(request, header::IF_NONE_MATCH, |known| known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok((status, headers, body).into_response())
}

fn tag(version: Option<u64>, body: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, body);
    let hash = hex::encode(hash.as_ref().get(..8).unwrap_or_default());
    match version {
        Some(version) => format!("\"{version}-{hash}\""),
        None => format!("\"{hash}\""),
    }
}

/// A list of resources in `view`, with a link to the next page.
///
/// # Errors
/// `FL-5101`
pub fn listed<T: Serialize>(
    headers: &HeaderMap,
    view: &View,
    list: &T,
    link: HeaderMap,
) -> Result<Response, RegistryError> {
    let listed = answer(headers, StatusCode::OK, None, list)?;
    Ok(of_view(listed, view, link))
}

/// Adds the next page's link and the revision to a list.
pub(super) fn of_view(mut listed: Response, view: &View, link: HeaderMap) -> Response {
    listed.headers_mut().extend(link);
    let revision = HeaderValue::from(view.revision().0);
    listed.headers_mut().insert(REVISION_HEADER, revision);
    listed
}

/// Checks `If-Match` against the content of a resource without versions.
///
/// # Errors
/// `FL-4114`
pub fn check_unchanged<T: Serialize + ?Sized>(
    headers: &HeaderMap,
    current: &T,
) -> Result<(), RegistryError> {
    let body = serde_json::to_vec(current)?;
    check_tag(headers, &tag(None, &body))
}

/// Checks `If-Match` against a tag.
///
/// # Errors
/// `FL-4114`
pub fn check_tag(headers: &HeaderMap, current: &str) -> Result<(), RegistryError> {
    let mut is_conditional = false;
    let same = matches(headers, header::IF_MATCH, |known| {
        is_conditional = true;
        known == "*" || known == current
    });
    match is_conditional && !same {
        true => Err(RegistryError::Outdated),
        false => Ok(()),
    }
}

/// Precondition of a change.
#[derive(Debug, Clone, Default)]
pub struct Precondition {
    /// Any of these versions; `None` requires existence only.
    versions: Option<Vec<Option<u64>>>,
    /// `If-None-Match: *`
    must_be_new: bool,
}

impl Precondition {
    /// Reads the headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let mut versions = Vec::new();
        let mut named = false;
        matches(headers, header::IF_MATCH, |tag| {
            named = true;
            versions.push(version(tag));
            false
        });
        Precondition {
            versions: named.then_some(versions),
            must_be_new: matches(headers, header::IF_NONE_MATCH, |tag| tag == "*"),
        }
    }

    /// Checks the precondition against the current version.
    ///
    /// # Errors
    /// `FL-4114`
    pub fn check(&self, current: Option<u64>) -> Result<(), RegistryError> {
        let holds = match (&self.versions, current) {
            (None, Some(_)) => !self.must_be_new,
            (None, None) => true,
            (Some(_), None) => false,
            (Some(any), Some(current)) => {
                any.iter().any(|one| one.is_none_or(|one| one == current))
            }
        };
        if holds {
            Ok(())
        } else {
            Err(RegistryError::Outdated)
        }
    }
}

/// Version in a tag. Foreign tags yield 0, which no resource has; `*` yields `None`.
fn version(tag: &str) -> Option<u64> {
    if tag == "*" {
        return None;
    }
    let inside = tag.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let version = inside.and_then(|it| it.split('-').next()?.parse().ok());
    Some(version.unwrap_or(0))
}

/// RFC 9110, section 13.1: any tag of the list, compared weakly.
fn matches(
    headers: &HeaderMap,
    name: http::HeaderName,
    mut test: impl FnMut(&str) -> bool,
) -> bool {
    let lines = headers.get_all(name).iter();
    let tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim);
    let mut any = false;
    for tag in tags {
        any |= test(tag.strip_prefix("W/").unwrap_or(tag));
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn precondition(name: http::HeaderName, value: &str, current: Option<u64>) -> bool {
        let value = HeaderValue::from_str(value).unwrap();
        let headers = HeaderMap::from_iter([(name, value)]);
        Precondition::of(&headers).check(current).is_ok()
    }

    #[test]
    fn preconditions_compare_versions() {
        for (value, current, holds) in [
            ("\"3-aa\"", Some(3), true),
            ("\"3\"", Some(3), true),
            ("W/\"3-bb\"", Some(3), true),
            ("\"2-aa\", \"3-aa\"", Some(3), true),
            ("*", Some(3), true),
            ("\"2-aa\"", Some(3), false),
            ("nonsense", Some(3), false),
            ("", Some(3), false),
            ("*", None, false),
            ("\"3-aa\"", None, false),
        ] {
            assert_eq!(
                precondition(header::IF_MATCH, value, current),
                holds,
                "{value:?} {current:?}"
            );
        }
        assert!(!precondition(header::IF_NONE_MATCH, "*", Some(1)));
        assert!(precondition(header::IF_NONE_MATCH, "*", None));
        assert!(Precondition::default().check(None).is_ok());
    }
}
