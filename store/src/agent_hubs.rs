//! Addresses of the hubs for agents: the list that agents learn from their hub. Pure.

use std::{str::FromStr, sync::Arc};

use fairlead_api::{HubUrl, hub_list::HubList, join::JoinError};

/// Column value of a hub without an address for agents.
const NONE: &str = "-";

/// Address of one hub for agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AgentAddress {
    /// The hub's URL, unless another live hub has the same one: that of a load balancer.
    #[default]
    Url,
    /// No address.
    None,
    /// An address of this hub alone.
    Own(HubUrl),
}

impl FromStr for AgentAddress {
    type Err = JoinError;

    /// `none`, or an address.
    fn from_str(text: &str) -> Result<Self, JoinError> {
        match text {
            "none" => Ok(AgentAddress::None),
            url => url.parse().map(AgentAddress::Own),
        }
    }
}

impl AgentAddress {
    pub(crate) fn column(&self) -> String {
        match self {
            AgentAddress::Url => String::new(),
            AgentAddress::None => NONE.to_owned(),
            AgentAddress::Own(url) => url.to_string(),
        }
    }

    /// An invalid value of another version is no address.
    pub(crate) fn of_column(text: &str) -> Self {
        match text {
            "" => AgentAddress::Url,
            text => text.parse().map_or(AgentAddress::None, AgentAddress::Own),
        }
    }
}

/// The hubs as agents find them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentHubs {
    /// Address of this hub in the list.
    pub own: Option<HubUrl>,
    /// The list in its form for a header; `None` without any list, as for the only hub of a database.
    pub list: Option<Arc<str>>,
}

impl AgentHubs {
    /// Hubs of a database: this one, then the other live ones, each with its URL and its address. `has_others`: several
    /// hubs have worked on this database lately.
    pub(crate) fn of<'a>(
        own: (&'a HubUrl, &'a AgentAddress),
        others: impl Iterator<Item = (&'a HubUrl, &'a AgentAddress)>,
        has_others: bool,
    ) -> Self {
        let is_alone = !has_others && !matches!(own.1, AgentAddress::Own(_));
        if is_alone {
            return AgentHubs::default();
        }
        let all: Vec<_> = std::iter::once(own).chain(others).collect();
        let listed = |(url, address): (&HubUrl, &AgentAddress)| match address {
            AgentAddress::Own(own) => Some(own.clone()),
            AgentAddress::None => None,
            AgentAddress::Url => {
                let same = all.iter().filter(|(other, _)| *other == url);
                (same.count() == 1).then(|| url.clone())
            }
        };
        let mut urls: Vec<HubUrl> = all.iter().copied().filter_map(listed).collect();
        // The same order at each hub.
        urls.sort_by_key(ToString::to_string);
        let list: HubList = urls.into_iter().collect();
        AgentHubs {
            own: listed(own).filter(|own| list.urls().contains(own)),
            list: Some(list.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(name: &str) -> HubUrl {
        format!("https://{name}.example").parse().unwrap()
    }

    fn list(
        own: (&str, AgentAddress),
        others: &[(&str, AgentAddress)],
        has_others: bool,
    ) -> AgentHubs {
        let own = (url(own.0), own.1);
        let others: Vec<_> = others
            .iter()
            .map(|(name, it)| (url(name), it.clone()))
            .collect();
        AgentHubs::of(
            (&own.0, &own.1),
            others.iter().map(|(url, address)| (url, address)),
            has_others,
        )
    }

    fn text(hubs: &AgentHubs) -> Option<&str> {
        hubs.list.as_deref()
    }

    #[test]
    fn hubs_with_urls_of_their_own_are_listed_in_one_order() {
        let (one, two) = (("one", AgentAddress::Url), ("two", AgentAddress::Url));
        let at_one = list(one.clone(), std::slice::from_ref(&two), true);
        let at_two = list(two, &[one], true);
        assert_eq!(
            text(&at_one),
            Some("https://one.example,https://two.example")
        );
        assert_eq!(at_one.list, at_two.list);
        assert_eq!(
            (at_one.own, at_two.own),
            (Some(url("one")), Some(url("two")))
        );
    }

    #[test]
    fn url_of_a_load_balancer_is_no_address_of_a_hub() {
        let shared = || ("lb", AgentAddress::Url);
        let hubs = list(shared(), &[shared(), ("three", AgentAddress::Url)], true);
        assert_eq!(
            (text(&hubs), hubs.own.clone()),
            (Some("https://three.example"), None)
        );
        let own = ("lb", AgentAddress::Own(url("one")));
        let hubs = list(own, &[("lb", AgentAddress::Own(url("two")))], true);
        assert_eq!(text(&hubs), Some("https://one.example,https://two.example"));
        assert_eq!(hubs.own, Some(url("one")));
    }

    #[test]
    fn single_hub_lists_its_own_address_only_if_it_is_set() {
        let one = || ("one", AgentAddress::Url);
        assert_eq!(list(one(), &[], false), AgentHubs::default());
        assert_eq!(text(&list(one(), &[], true)), Some("https://one.example"));
        let set = ("one", AgentAddress::Own(url("direct")));
        assert_eq!(text(&list(set, &[], false)), Some("https://direct.example"));
    }

    #[test]
    fn hub_without_an_address_is_not_listed() {
        let hubs = list(
            ("one", AgentAddress::None),
            &[("two", AgentAddress::Url)],
            true,
        );
        assert_eq!(text(&hubs), Some("https://two.example"));
        assert_eq!(hubs.own, None);
        let columns = [
            AgentAddress::Url,
            AgentAddress::None,
            AgentAddress::Own(url("one")),
        ];
        for address in columns {
            assert_eq!(AgentAddress::of_column(&address.column()), address);
        }
        assert_eq!(AgentAddress::of_column("ftp://x"), AgentAddress::None);
    }
}
