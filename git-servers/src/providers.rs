//! Providers, each by its public API, and helpers for the JSON of all.

pub(crate) mod gitea;
pub(crate) mod github;
pub(crate) mod gitlab;

use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    api_calls::{ApiCalls, ApiRequest, CallError},
    provider::MAX_PAGES,
};

/// Decodes a response.
///
/// # Errors
/// [`CallError::Unavailable`] for a response that the API's description does not allow.
pub(crate) fn decode<T: DeserializeOwned>(body: Value) -> Result<T, CallError> {
    let decoded = serde_json::from_value(body);
    decoded.map_err(|error| CallError::Unavailable(format!("unexpected response: {error}")))
}

/// `None` if the resource does not exist.
pub(crate) fn found<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(CallError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads all pages of a list. `is_last` decides by headers, entries of the page, and entries so far.
pub(crate) async fn pages(
    api: &ApiCalls,
    path: &[&str],
    query: &[(&str, &str)],
    is_last: impl Fn(&HeaderMap, usize, usize) -> bool,
) -> Result<Vec<Value>, CallError> {
    let mut all = Vec::new();
    for page in 1..=MAX_PAGES {
        let page = page.to_string();
        let query = [query, &[("page", &page)]].concat();
        let answer = api.call(ApiRequest::get(path).query(&query)).await?;
        let entries: Vec<Value> = decode(answer.body)?;
        let count = entries.len();
        all.extend(entries);
        if count == 0 || is_last(&answer.headers, count, all.len()) {
            return Ok(all);
        }
    }
    let cause = format!("the list has more than {MAX_PAGES} pages");
    Err(CallError::Refused(cause))
}

/// Number in a header.
pub(crate) fn count_header(headers: &HeaderMap, name: &str) -> Option<usize> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}
