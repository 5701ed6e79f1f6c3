//! Query strings for the hub's API.

use fairlead_api::percent;

/// Query string of the parameters that have a value.
pub fn query_of<'a>(given: impl IntoIterator<Item = (&'a str, Option<impl AsRef<str>>)>) -> String {
    let given = given.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", percent::encode(value.as_ref())))
    });
    given.collect::<Vec<_>>().join("&")
}
