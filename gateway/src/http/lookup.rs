//! Lookups in a head with few headers: a pass over their names costs less than the hash of one name.

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Names that are removed without an allocation.
const FEW_NAMES: usize = 4;

/// First value of a header, as [`HeaderMap::get`].
pub(crate) fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut all = headers.iter();
    all.find_map(|(its, value)| (its == name).then_some(value))
}

/// All values of a header, as [`HeaderMap::get_all`].
pub(crate) fn all<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = &'a HeaderValue> {
    let all = headers.iter();
    all.filter_map(move |(its, value)| (its == name).then_some(value))
}

/// Removes all headers with an unwanted name.
pub(crate) fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let names = headers.keys().filter(|name| unwanted(name));
    let names: SmallVec<[HeaderName; FEW_NAMES]> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    /// Heads with repeated names, known and unknown ones.
    fn heads() -> Vec<HeaderMap> {
        let names = ["accept", "host", "x-a", "te", "x-b", "cookie", "x-c"];
        (0..64_usize)
            .map(|seed| {
                let mut headers = HeaderMap::new();
                for at in 0..seed {
                    let name = names[(at * at + seed) % names.len()];
                    headers.append(name, HeaderValue::from(at));
                }
                headers
            })
            .collect()
    }

    #[test]
    fn values_are_those_of_the_map() {
        for headers in heads() {
            for name in [header::ACCEPT, header::TE, HeaderName::from_static("x-b")] {
                assert_eq!(first(&headers, &name), headers.get(&name));
                let values: Vec<_> = headers.get_all(&name).iter().collect();
                assert_eq!(all(&headers, &name).collect::<Vec<_>>(), values);
            }
        }
    }

    #[test]
    fn unwanted_names_and_no_others_are_removed() {
        for headers in heads() {
            let unwanted = |name: &HeaderName| name.as_str().starts_with('x') || *name == "host";
            let wanted = headers.iter().filter(|(name, _)| !unwanted(name));
            let mut expected = HeaderMap::new();
            for (name, value) in wanted {
                expected.append(name, value.clone());
            }
            let mut headers = headers.clone();
            remove(&mut headers, unwanted);
            assert_eq!(headers, expected);
        }
    }
}
