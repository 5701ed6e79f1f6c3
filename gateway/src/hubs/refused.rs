//! Hubs that have refused one request, because they have no session of its cluster.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

/// Time after which a hub with a session by the list may be asked again.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Hubs that have refused one request, with the time of the last refusal.
#[derive(Debug, Default)]
pub(crate) struct RefusedHubs(Vec<(Arc<str>, Instant)>);

impl RefusedHubs {
    pub(crate) fn add(&mut self, hub: &Arc<str>) {
        self.0.retain(|(id, _)| id != hub);
        self.0.push((Arc::clone(hub), Instant::now()));
    }

    pub(crate) fn contains(&self, hub: &str) -> bool {
        self.0.iter().any(|(id, _)| **id == *hub)
    }

    fn contains_recent(&self, hub: &str, now: Instant) -> bool {
        let mut recent = self.0.iter().filter(|(_, at)| now - *at < REFUSAL_TIME);
        recent.any(|(id, _)| **id == *hub)
    }

    /// Hubs to try, in this order: those with a session by the list, then the others, once each.
    ///
    /// The list lags behind by a second, and so may lack the hub that an agent has just connected to.
    pub(crate) fn candidates<'a>(
        &'a self,
        listed: &'a [Arc<str>],
        live: &'a [Arc<str>],
        now: Instant,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let usable = listed.iter().filter(move |id| live.contains(id));
        let usable = usable.filter(move |id| !self.contains_recent(id, now));
        let others = live.iter().filter(|id| !listed.contains(id));
        usable.chain(others.filter(|id| !self.contains(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn chosen(refused: &RefusedHubs, listed: &[&str], live: &[&str]) -> Vec<String> {
        let (listed, live) = (names(listed), names(live));
        let found = refused.candidates(&listed, &live, Instant::now());
        found.map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn hubs_with_a_session_come_first_and_no_hub_is_tried_twice_at_once() {
        let mut refused = RefusedHubs::default();
        let live = ["a", "b", "c"];
        assert_eq!(chosen(&refused, &["c", "dead"], &live), ["c", "a", "b"]);
        refused.add(&"c".into());
        refused.add(&"a".into());
        assert_eq!(chosen(&refused, &["c"], &live), ["b"]);
        // The list may be right by now; the others were asked only because it could lag behind.
        tokio::time::advance(REFUSAL_TIME).await;
        assert_eq!(chosen(&refused, &["c"], &live), ["c", "b"]);
        refused.add(&"c".into());
        assert_eq!(chosen(&refused, &["c"], &live), ["b"]);
        assert!(chosen(&RefusedHubs::default(), &["dead"], &[]).is_empty());
    }
}
