//! Providers, each by its public API, and helpers for the JSON of all.

pub(crate) mod gitea;
pub(crate) mod github;
pub(crate) mod gitlab;
mod pull_request;

use fairlead_api::resources::DeployKey;
use http::HeaderMap;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    api_calls::{ApiCalls, ApiRequest, CallError},
    provider::{FoundKey, MAX_PAGES, SetVariable},
};

/// A deploy key in the API of GitHub, whose form Gitea has taken over.
#[derive(Deserialize)]
struct GitHubKey {
    id: i64,
    title: String,
    key: String,
    #[serde(default)]
    read_only: bool,
}

/// Deploy keys of a list in GitHub's form.
///
/// # Errors
/// [`CallError::Unavailable`]
fn github_keys(entries: Vec<Value>) -> Result<Vec<FoundKey>, CallError> {
    let keys = entries.into_iter().map(|entry| {
        let key: GitHubKey = decode(entry)?;
        Ok(FoundKey {
            id: key.id.to_string(),
            title: key.title,
            key: key.key,
            write_access: !key.read_only,
        })
    });
    keys.collect()
}

/// Body that adds a deploy key in GitHub's form.
fn github_key(title: &str, key: &DeployKey) -> Value {
    json!({
        "title": title,
        "key": key.key.trim_end(),
        "read_only": !key.write_access,
    })
}

/// A variable for Actions of GitHub and Gitea, which expand nothing and protect nothing.
fn without_gitlabs_flags(variable: SetVariable) -> Result<SetVariable, &'static str> {
    match variable.protected {
        true => Err("protected is unsupported on this server, which gives it to all branches"),
        false => Ok(SetVariable {
            raw: false,
            ..variable
        }),
    }
}

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
