//! Hubs of the agent: the list that it has learned from its hub, the hubs that its links use, and the number of links
//! that follows from both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::{
    HubUrl,
    hello::{Instance, LinkCount, LinkIndex},
    hub_list::{HubList, MAX_LISTED_HUBS},
};
use tokio::{sync::watch, time::Instant};

/// Time after which an address that no hub lists any more is forgotten. Hubs notice each other's start and end at
/// different times, so their lists differ for some seconds.
const UNLISTED_RETENTION: Duration = Duration::from_secs(60);

/// Largest number of learned addresses, those that are not listed any more included.
const MAX_LEARNED_HUBS: usize = 2 * MAX_LISTED_HUBS;

/// Hubs that the agent knows and uses.
pub(crate) struct KnownHubs {
    /// Number of links by the configuration.
    links: Option<LinkCount>,
    /// Number of hubs by the configuration.
    configured: usize,
    /// Whether the site operator lets the agent learn.
    learns: bool,
    /// First hub of this agent in the list, so that the agents of all sites use all hubs.
    offset: usize,
    learned: watch::Sender<Arc<[HubUrl]>>,
    inner: Mutex<Inner>,
    /// Wakes links after a change of `inner`.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    /// Time of the last list with an address.
    listed: BTreeMap<String, Instant>,
    /// Hubs of each link: that of its session, and the one that it dials.
    links: BTreeMap<LinkIndex, LinkHubs>,
    /// Links with a supervisor.
    running: BTreeSet<LinkIndex>,
}

#[derive(Default)]
struct LinkHubs {
    session: Option<SessionHub>,
    dialling: Option<HubUrl>,
}

/// Hub of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionHub {
    /// Dialled address.
    pub(crate) dialed: HubUrl,
    /// Address by which the hub lists itself.
    pub(crate) named: Option<HubUrl>,
}

impl SessionHub {
    fn has(&self, url: &HubUrl) -> bool {
        self.dialed == *url || self.named.as_ref() == Some(url)
    }
}

impl LinkHubs {
    fn has(&self, url: &HubUrl) -> bool {
        self.dialling.as_ref() == Some(url) || self.session.as_ref().is_some_and(|it| it.has(url))
    }
}

impl KnownHubs {
    /// `configured`: number of hubs in the configuration. `learns`: whether lists of the hub count.
    pub(crate) fn new(
        links: Option<LinkCount>,
        (configured, learns): (usize, bool),
        instance: Instance,
    ) -> Self {
        let [first, ..] = instance.to_bytes();
        KnownHubs {
            links,
            configured,
            learns,
            offset: first.into(),
            learned: watch::Sender::new(Arc::default()),
            inner: Mutex::default(),
            changed: watch::Sender::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learned addresses, the preferred one of this agent first.
    pub(crate) fn learned(&self) -> Arc<[HubUrl]> {
        self.learned.borrow().clone()
    }

    pub(crate) fn learned_changes(&self) -> watch::Receiver<Arc<[HubUrl]>> {
        self.learned.subscribe()
    }

    /// Replaces the learned addresses by stored ones, or by none with another identity.
    pub(crate) fn set_learned(&self, urls: &[HubUrl]) {
        if self.learns {
            self.inner().listed.clear();
            self.learn(urls.to_vec());
        }
    }

    /// Takes the list of a hub. An address stays for some time after the last list with it.
    pub(crate) fn report(&self, list: &HubList, now: Instant) {
        if !self.learns {
            return;
        }
        let mut known: Vec<HubUrl> = list.urls().to_vec();
        {
            let mut inner = self.inner();
            for url in list.urls() {
                inner.listed.insert(url.to_string(), now);
            }
            for url in self.learned.borrow().iter() {
                // The first list after a start confirms a stored address or begins its time.
                let last = *inner.listed.entry(url.to_string()).or_insert(now);
                if now - last < UNLISTED_RETENTION && !known.contains(url) {
                    known.push(url.clone());
                }
            }
            known.truncate(MAX_LEARNED_HUBS);
            let kept: BTreeSet<String> = known.iter().map(ToString::to_string).collect();
            inner.listed.retain(|url, _| kept.contains(url));
        }
        self.learn(known);
    }

    fn learn(&self, mut urls: Vec<HubUrl>) {
        urls.sort_by_key(ToString::to_string);
        let first = self.offset.checked_rem(urls.len()).unwrap_or_default();
        urls.rotate_left(first);
        self.learned.send_if_modified(|learned| {
            let is_new = **learned != *urls;
            if is_new {
                *learned = urls.into();
            }
            is_new
        });
        self.changed.send_replace(());
    }

    /// Desired number of links.
    pub(crate) fn desired_links(&self) -> usize {
        let several = self.learned.borrow().len() > 1 || self.configured > 1;
        let default = if several {
            LinkCount::TWO
        } else {
            LinkCount::ONE
        };
        self.links.unwrap_or(default).all().count()
    }

    /// Links without a supervisor, which start one now.
    pub(crate) fn start_missing(&self) -> Vec<LinkIndex> {
        let mut inner = self.inner();
        let missing = self.desired_links().saturating_sub(inner.running.len());
        let all = LinkCount::all_possible();
        let free = all.filter(|link| !inner.running.contains(link));
        let started: Vec<LinkIndex> = free.take(missing).collect();
        inner.running.extend(&started);
        started
    }

    /// Completes when there are more links than desired; this one has ended then.
    pub(crate) async fn until_superfluous(&self, link: LinkIndex) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let desired = self.desired_links();
            {
                let mut inner = self.inner();
                if inner.running.len() > desired {
                    inner.running.remove(&link);
                    inner.links.remove(&link);
                    return;
                }
            }
            // The sender is in `self`.
            let _ = changed.changed().await;
        }
    }

    /// Notes the hub that a link dials.
    pub(crate) fn dials(&self, link: LinkIndex, hub: Option<HubUrl>) {
        self.inner().links.entry(link).or_default().dialling = hub;
    }

    /// Notes the hub of a link's session.
    pub(crate) fn set_session(&self, link: LinkIndex, hub: Option<SessionHub>) {
        let links = &mut self.inner().links;
        let link = links.entry(link).or_default();
        link.session = hub;
        link.dialling = None;
        self.changed.send_replace(());
    }

    /// Notes the end of a link's session, unless the link has another one by now.
    pub(crate) fn end_session(&self, link: LinkIndex, hub: &SessionHub) {
        if let Some(link) = self.inner().links.get_mut(&link) {
            link.session.take_if(|session| *session == *hub);
        }
        self.changed.send_replace(());
    }

    /// Whether another link uses this hub, or dials it.
    pub(crate) fn is_used_by_another(&self, link: LinkIndex, url: &HubUrl) -> bool {
        let inner = self.inner();
        let mut others = inner.links.iter().filter(|(other, _)| **other != link);
        others.any(|(_, hubs)| hubs.has(url))
    }

    /// Whether another link has a session.
    pub(crate) fn another_has_session(&self, link: LinkIndex) -> bool {
        let inner = self.inner();
        let mut others = inner.links.iter().filter(|(other, _)| **other != link);
        others.any(|(_, hubs)| hubs.session.is_some())
    }

    /// Completes when the session of a link belongs elsewhere: its hub has left the list, or a link with a lower index
    /// uses the same hub. In both cases another hub must be free.
    pub(crate) async fn until_misplaced(&self, link: LinkIndex) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if self.is_misplaced(link) {
                return;
            }
            // The sender is in `self`.
            let _ = changed.changed().await;
        }
    }

    pub(crate) fn is_misplaced(&self, link: LinkIndex) -> bool {
        let learned = self.learned();
        let inner = self.inner();
        let session = inner.links.get(&link).and_then(|it| it.session.as_ref());
        let Some(named) = session.and_then(|it| it.named.as_ref()) else {
            // A hub outside of the list may be one that does not list itself.
            return false;
        };
        let mut free = learned
            .iter()
            .filter(|url| !inner.links.values().any(|it| it.has(url)));
        if free.next().is_none() {
            return false;
        }
        let mut lower = inner.links.range(..link);
        !learned.contains(named)
            || lower.any(|(_, it)| it.session.as_ref().is_some_and(|it| it.has(named)))
    }
}

#[cfg(test)]
mod tests;
