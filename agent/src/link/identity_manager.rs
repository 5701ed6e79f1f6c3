//! The agent's identity, one for all of its links: found, asked for, kept, and replaced when the hub takes it no more, or when
//! the join string is another one than it came from: the old one serves until the new one is there. Other agents of the cluster may share the store: whatever is newest there, nobody puts something older in its place.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, moment::timestamp};
use tokio::{
    sync::{Mutex, Notify, watch},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{
    dial::Dials,
    enrolment::{self, Keyed, Replaces},
    retry::Again,
};
use crate::{
    context::Site,
    identity::{
        Identity, Origin,
        store::{News, Store, Stored},
    },
};

/// An identity that could not be stored is stored again this often.
const KEEP: Duration = Duration::from_secs(30);
/// Between two tries of a new join string, while the identity from the one before it serves.
const JOIN_RETRY: Duration = Duration::from_secs(5);

pub(crate) struct Keeper {
    site: Arc<Site>,
    store: Store,
    /// Held while the store, or the hub, is asked: one link does it, the others wait for what comes of it.
    mine: Mutex<Mine>,
    unsaved: Notify,
    /// A new join string is to be tried again.
    untried: Notify,
    /// Where the identity in use came from.
    origin: watch::Sender<Option<Origin>>,
}

/// What the agent has to prove itself with.
#[derive(Default)]
struct Mine {
    identity: Option<Arc<Identity>>,
    /// The store does not have it yet.
    unsaved: Option<News>,
    join: Join,
}

/// How it stands with a join string that the identity did not come from.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Join {
    #[default]
    Untried,
    FailedAt(Instant),
    /// No other try will change that.
    Refused,
}

/// Why there is no identity yet.
enum Missing {
    /// The dial's own line in the log says it.
    Dial(Code),
    Failed(Failure),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        Missing::Failed(failure)
    }
}

impl Missing {
    /// Says why in the log, unless the dial has.
    fn again(&self) -> Again {
        let code = match self {
            Missing::Dial(code) => *code,
            Missing::Failed(failure) => {
                warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "no identity");
                failure.code
            }
        };
        if enrolment::is_final(code) {
            Again::Slowly
        } else {
            Again::Soon
        }
    }
}

impl Keeper {
    pub(crate) fn new(site: Arc<Site>, store: Store) -> Self {
        Keeper {
            site,
            store,
            mine: Mutex::default(),
            unsaved: Notify::new(),
            untried: Notify::new(),
            origin: watch::Sender::default(),
        }
    }

    /// The identity: the one in use, else the stored one, else a new one.
    ///
    /// # Errors
    /// How soon to try again, if there is none yet; why, the log says.
    pub(crate) async fn obtain(&self, dials: &mut Dials) -> Result<Arc<Identity>, Again> {
        let mut mine = self.mine.lock().await;
        if let Some(identity) = mine.identity.clone() {
            return Ok(self.superseded(&mut mine, dials, identity).await);
        }
        let obtained = self.look_or_enrol(&mut mine, dials).await;
        obtained.map_err(|missing| missing.again())
    }

    async fn look_or_enrol(
        &self,
        mine: &mut Mine,
        dials: &mut Dials,
    ) -> Result<Arc<Identity>, Missing> {
        let mut stored = self.store.load().await.map_err(Failure::from)?;
        let Some(identity) = stored.identity.take() else {
            return self.enrol(mine, dials, stored, Replaces::Nothing).await;
        };
        let identity = self.found(mine, identity);
        Ok(self.superseded(mine, dials, identity).await)
    }

    /// The identity of the join string, if that is another one than `identity` came from; as long as there is none,
    /// `identity`.
    async fn superseded(
        &self,
        mine: &mut Mine,
        dials: &mut Dials,
        identity: Arc<Identity>,
    ) -> Arc<Identity> {
        let due = match mine.join {
            Join::Untried => true,
            Join::FailedAt(at) => at.elapsed() >= JOIN_RETRY,
            Join::Refused => false,
        };
        let Some(join) = dials.join().filter(|_| due) else {
            return identity;
        };
        let origin = Origin::of(join);
        if identity.origin == origin {
            return identity;
        }
        info!(cluster = %identity.cluster, "the join string is another one than the stored identity came from; enrolling with it");
        let replaces = Replaces::Superseded(&origin);
        let enrolled = match self.store.load().await.map_err(Failure::from) {
            Ok(stored) => self.enrol(mine, dials, stored, replaces).await,
            Err(failure) => Err(failure.into()),
        };
        match enrolled {
            Ok(enrolled) => {
                info!(old.cluster = %identity.cluster, old.pin = %identity.pin, cluster = %enrolled.cluster, pin = %enrolled.pin,
                    "identity replaced");
                enrolled
            }
            Err(missing) => {
                mine.join = match missing.again() {
                    Again::Slowly => Join::Refused,
                    _ => Join::FailedAt(Instant::now()),
                };
                self.untried.notify_one();
                warn!(cluster = %identity.cluster, tries_again = mine.join != Join::Refused,
                    "the join string cannot be used; going on with the stored identity");
                identity
            }
        }
    }

    /// Completes when an identity of another origin is in use.
    pub(crate) async fn replaced(&self, identity: &Identity) {
        let mut origin = self.origin.subscribe();
        let other = |now: &Option<Origin>| now.as_ref().is_some_and(|now| *now != identity.origin);
        // The sender is our own.
        let _ = origin.wait_for(other).await;
    }

    fn found(&self, mine: &mut Mine, identity: Identity) -> Arc<Identity> {
        info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = timestamp(identity.not_after),
            "identity found");
        mine.unsaved = None;
        self.adopt(mine, identity)
    }

    fn adopt(&self, mine: &mut Mine, identity: Identity) -> Arc<Identity> {
        self.site.metrics.expires(identity.not_after);
        let identity = Arc::new(identity);
        mine.identity = Some(identity.clone());
        self.origin.send_replace(Some(identity.origin.clone()));
        identity
    }

    async fn enrol(
        &self,
        mine: &mut Mine,
        dials: &mut Dials,
        stored: Stored,
        replaces: Replaces<'_>,
    ) -> Result<Arc<Identity>, Missing> {
        let Some(join) = dials.join().cloned() else {
            return Err(Failure::new(Code::NotEnrolled).into());
        };
        let key = match enrolment::key(&self.store, stored, replaces).await? {
            Keyed::Key(key) => key,
            Keyed::Enrolled(identity) => return Ok(self.found(mine, *identity)),
        };
        let uid = self.site.uid().await;
        let dialed = dials
            .anonymously(&join)
            .await
            .map_err(|error| Missing::Dial(error.code))?;
        let issued = enrolment::ask(dialed.session, &join, &key, dials.version(), uid).await?;
        let identity = Identity::new(key, issued, join.hubs.clone(), Origin::of(&join))?;
        info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = timestamp(identity.not_after), "enrolled");
        self.save(mine, &identity, News::Enrolled).await;
        Ok(self.adopt(mine, identity))
    }

    /// The hub takes this identity for good no more: perhaps another agent of this cluster has stored a newer one, or
    /// the join string is a new one.
    pub(crate) async fn refused(&self, identity: &Arc<Identity>, dials: &mut Dials) -> Again {
        let mut mine = self.mine.lock().await;
        let in_use = mine.identity.as_ref();
        if in_use.is_some_and(|in_use| !in_use.same_certificate(identity)) {
            // Another link was told the same, and has done something about it.
            return Again::Soon;
        }
        let Ok(stored) = self.store.load().await else {
            return Again::Slowly;
        };
        match &stored.identity {
            Some(other) if !other.same_certificate(identity) && mine.unsaved.is_none() => {
                info!("another identity has been stored meanwhile");
                mine.identity = None;
                return Again::Soon;
            }
            _ if dials.join().is_none() => return Again::Slowly,
            _ => {}
        }
        let replaces = Replaces::Refused(identity);
        match self.enrol(&mut mine, dials, stored, replaces).await {
            Ok(_) => Again::Soon,
            Err(missing) => {
                missing.again();
                Again::Slowly
            }
        }
    }

    /// The hub has renewed the identity over a session. The next dial uses it.
    pub(crate) async fn renewed(&self, renewed: Identity) -> Arc<Identity> {
        let mut mine = self.mine.lock().await;
        let newer = mine.identity.as_ref().is_none_or(|in_use| {
            in_use.origin == renewed.origin && in_use.not_after < renewed.not_after
        });
        if !newer {
            // By another link, later than by this one; or another identity is in use by now.
            return Arc::new(renewed);
        }
        self.save(&mut mine, &renewed, News::Renewed).await;
        self.adopt(&mut mine, renewed)
    }

    /// Keeps an identity. One that cannot be kept is used all the same: the token is spent.
    async fn save(&self, mine: &mut Mine, identity: &Identity, news: News) {
        let news = match mine.unsaved {
            Some(News::Enrolled) => News::Enrolled,
            _ => news,
        };
        let saved = self.store.save(identity, news).await;
        mine.unsaved = saved.is_err().then_some(news);
        if let Err(error) = saved {
            let failure = Failure::from(error);
            warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(),
                "the identity cannot be stored; trying again");
            self.unsaved.notify_one();
        }
    }

    /// Stores again what could not be stored, and tries a join string again that could not be used, until the process drains.
    pub(crate) async fn run(self: Arc<Self>, mut dials: Dials) {
        let process = self.site.process.clone();
        let trying = async {
            loop {
                self.unsaved.notified().await;
                sleep(KEEP).await;
                let mut mine = self.mine.lock().await;
                if let (Some(identity), Some(news)) = (mine.identity.clone(), mine.unsaved) {
                    self.save(&mut mine, &identity, news).await;
                }
            }
        };
        let joining = async {
            loop {
                self.untried.notified().await;
                sleep(JOIN_RETRY).await;
                let mut mine = self.mine.lock().await;
                if let Some(identity) = mine.identity.clone() {
                    self.superseded(&mut mine, &mut dials, identity).await;
                }
            }
        };
        tokio::select! {
            () = trying => {}
            () = joining => {}
            () = process.draining() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_refused_for_good_is_tried_slowly() {
        for (code, slowly) in [
            (Code::BootstrapSpent, true),
            (Code::BootstrapExpired, true),
            (Code::NotEnrolled, true),
            (Code::Store, false),
            (Code::DialTcp, false),
        ] {
            assert_eq!(matches!(Missing::Dial(code).again(), Again::Slowly), slowly);
        }
    }
}
