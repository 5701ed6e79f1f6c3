//! Query parameters of lists, and paging. A cursor is opaque to clients; the next page is in a
//! `Link` header (RFC 8288). Without a limit the whole list is returned.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::percent;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde::{Deserialize, Serialize};

use crate::{
    described,
    invalid::{InvalidValue, invalid},
    parameter::QueryParameter,
};

/// Maximum page size.
const MAX_PAGE_SIZE: usize = 1000;
const MAX_CURSOR_BYTES: usize = 1024;
/// Description of the parameter `cursor`.
const CURSOR: &str = "Cursor of the next page, from the `Link` header";

/// Decoded query of a request. In test builds, reading a parameter missing from `/openapi.json`
/// fails.
pub struct Query {
    given: Vec<(String, String)>,
    path: String,
}

impl Query {
    /// Decodes the query.
    ///
    /// # Errors
    /// `FL-4109` if it is malformed.
    pub fn of(uri: &Uri) -> Result<Self, InvalidValue> {
        let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let query = query.map_err(|_| invalid("the query is malformed"))?;
        // No stored text contains NUL, and PostgreSQL rejects it in parameters.
        if query.0.iter().any(|(_, value)| value.contains('\0')) {
            return Err(invalid("the query contains NUL"));
        }
        Ok(Query {
            given: query.0,
            path: uri.path().to_owned(),
        })
    }

    /// All values of a parameter, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        if cfg!(debug_assertions) {
            described::check(name);
        }
        let of = self.given.iter().filter(move |(known, _)| known == name);
        of.map(|(_, value)| value.as_str())
    }

    /// A parameter that may occur once.
    ///
    /// # Errors
    /// `FL-4109` if it is empty or repeated.
    pub fn one<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, InvalidValue> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(""), None) => Err(invalid(format_args!("{name}: the parameter is empty"))),
            (Some(value), None) => Ok(Some(value)),
            (Some(_), Some(_)) => Err(invalid(format_args!("{name}: the parameter is repeated"))),
        }
    }

    /// A boolean parameter.
    ///
    /// # Errors
    /// `FL-4109` if it is neither true nor false.
    pub fn boolean(&self, name: &str) -> Result<bool, InvalidValue> {
        match self.one(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(format_args!("{name}: expected true or false"))),
        }
    }

    /// Link to the next page (RFC 8288).
    fn link(&self, cursor: &str) -> HeaderMap {
        let kept = self.given.iter().filter(|(name, _)| name != "cursor");
        let kept = kept
            .map(|(name, value)| format!("{}={}&", percent::encode(name), percent::encode(value)));
        let query: String = kept.chain([format!("cursor={cursor}")]).collect();
        let link = HeaderValue::try_from(format!("<{}?{query}>; rel=\"next\"", self.path));
        HeaderMap::from_iter(link.ok().map(|link| (header::LINK, link)))
    }
}

/// Parameter of [`next_page`].
#[must_use]
pub fn cursor_parameter() -> QueryParameter {
    QueryParameter::text("cursor", CURSOR)
}

fn limit_parameter() -> QueryParameter {
    let max = MAX_PAGE_SIZE as u64;
    QueryParameter::integer("limit", "Maximum number of items", 1..=max)
}

/// Requested page of a list.
pub struct Page {
    query: Query,
    limit: Option<usize>,
    after: Option<ListPosition<'static>>,
}

/// Position in a list: sort key and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListPosition<'a>(pub Cow<'a, str>, pub Cow<'a, str>);

impl<'a> ListPosition<'a> {
    /// For a list ordered by id.
    pub fn of(id: &'a str) -> Self {
        ListPosition("".into(), id.into())
    }
}

/// Parameter `dryRun` of changes.
#[must_use]
pub fn dry_run_parameter() -> QueryParameter {
    QueryParameter::flag(
        "dryRun",
        "true: validate and return the result, without a change",
    )
}

impl Page {
    /// Parameters of a page.
    #[must_use]
    pub fn parameters() -> [QueryParameter; 2] {
        [limit_parameter(), cursor_parameter()]
    }

    /// Parameters of a page of a list with cursors of its own.
    #[must_use]
    pub fn parameters_with_cursor(pattern: &str) -> [QueryParameter; 2] {
        [
            limit_parameter(),
            QueryParameter::pattern("cursor", CURSOR, pattern),
        ]
    }

    /// Parses limit and cursor.
    ///
    /// # Errors
    /// `FL-4109`
    pub fn of(uri: &Uri) -> Result<Self, InvalidValue> {
        let query = Query::of(uri)?;
        let limit = match query.one("limit")? {
            None => None,
            Some(text) => {
                let limit = text
                    .parse()
                    .ok()
                    .filter(|it| (1..=MAX_PAGE_SIZE).contains(it));
                let error = || invalid(format_args!("limit: expected 1 to {MAX_PAGE_SIZE}"));
                Some(limit.ok_or_else(error)?)
            }
        };
        let after = match query.one("cursor")? {
            None => None,
            Some(cursor) => {
                Some(decode(cursor).ok_or_else(|| invalid("cursor: not a cursor of this hub"))?)
            }
        };
        Ok(Page {
            query,
            limit,
            after,
        })
    }

    /// The other parameters.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// All parameters except limit and cursor, for lists with free parameter names.
    pub fn words(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.query.given.iter();
        let given = given.filter(|(name, _)| name != "limit" && name != "cursor");
        given.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The requested page of a sorted list, and the link to the next one.
    pub fn cut<T>(&self, mut sorted: Vec<(ListPosition<'_>, T)>) -> (Vec<T>, HeaderMap) {
        if let Some(after) = &self.after {
            let start = sorted.partition_point(|(place, _)| place <= after);
            sorted.drain(..start);
        }
        let mut headers = HeaderMap::new();
        if let Some(limit) = self.limit.filter(|limit| sorted.len() > *limit) {
            sorted.truncate(limit);
            let last = sorted.last().map(|(place, _)| encode(place));
            if let Some(cursor) = last {
                headers.extend(self.query.link(&cursor));
            }
        }
        (sorted.into_iter().map(|(_, item)| item).collect(), headers)
    }
}

/// Link header to the next page; the cursor consists of URL-safe characters.
///
/// # Errors
/// `FL-4109`
pub fn next_page(uri: &Uri, cursor: &str) -> Result<HeaderMap, InvalidValue> {
    Ok(Query::of(uri)?.link(cursor))
}

fn encode(place: &ListPosition<'_>) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

fn decode(cursor: &str) -> Option<ListPosition<'static>> {
    if cursor.len() > MAX_CURSOR_BYTES {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

#[cfg(test)]
mod tests;
