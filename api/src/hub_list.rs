//! List of the hubs' addresses for agents, as the hub sends it in the header [`crate::headers::HUBS`] of each probe. An empty
//! list replaces an earlier one; without the header, the agent keeps the list that it has.

use std::{fmt, str::FromStr};

use crate::HubUrl;

/// Largest number of addresses in a list.
pub const MAX_LISTED_HUBS: usize = 16;
const SEPARATOR: char = ',';

/// Addresses of a list, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubList(Vec<HubUrl>);

/// Error of parsing a [`HubList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HubListError {
    /// A part is not a [`HubUrl`].
    #[error("an address is not https://host[:port]")]
    Url,
    /// The list is too long.
    #[error("it has more than {MAX_LISTED_HUBS} addresses")]
    TooLong,
}

impl HubList {
    /// Addresses.
    #[must_use]
    pub fn urls(&self) -> &[HubUrl] {
        &self.0
    }
}

impl FromIterator<HubUrl> for HubList {
    /// Takes the first [`MAX_LISTED_HUBS`] different addresses.
    fn from_iter<T: IntoIterator<Item = HubUrl>>(urls: T) -> Self {
        let mut list = Vec::new();
        for url in urls {
            if list.len() < MAX_LISTED_HUBS && !list.contains(&url) {
                list.push(url);
            }
        }
        HubList(list)
    }
}

impl fmt::Display for HubList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, url) in self.0.iter().enumerate() {
            if at > 0 {
                write!(f, "{SEPARATOR}")?;
            }
            write!(f, "{url}")?;
        }
        Ok(())
    }
}

impl FromStr for HubList {
    type Err = HubListError;

    fn from_str(text: &str) -> Result<Self, HubListError> {
        if text.is_empty() {
            return Ok(HubList::default());
        }
        if text.split(SEPARATOR).count() > MAX_LISTED_HUBS {
            return Err(HubListError::TooLong);
        }
        let urls = text.split(SEPARATOR).map(str::parse::<HubUrl>);
        urls.collect::<Result<HubList, _>>()
            .map_err(|_| HubListError::Url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_survives_a_round_trip_without_duplicates() {
        let text = "https://one.example,https://two.example:8443,https://[2001:db8::1]:444";
        let list: HubList = text.parse().unwrap();
        assert_eq!(list.urls().len(), 3);
        assert_eq!(list.to_string(), text);
        let twice: HubList = format!("{text},{text}").parse().unwrap();
        assert_eq!(twice, list);
        assert_eq!("".parse(), Ok(HubList::default()));
    }

    #[test]
    fn invalid_list_is_refused_as_a_whole() {
        let long = ["https://one.example"; MAX_LISTED_HUBS + 1].join(",");
        assert_eq!(long.parse::<HubList>(), Err(HubListError::TooLong));
        for text in [
            "http://one.example",
            "https://one.example,",
            ",",
            "one.example",
            "https://a/b",
        ] {
            assert_eq!(text.parse::<HubList>(), Err(HubListError::Url), "{text}");
        }
    }
}
