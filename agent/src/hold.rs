//! Holds the session with the hub for as long as the process lives: comes to an identity, dials, serves, renews, and
//! begins again whatever happens. It never ends for a cause outside of the process.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_dialer::{CloseReason, Dialed, Session, SessionError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::{
    backoff::{Backoff, between, chance},
    dial::Dials,
    enrol,
    identity::{Identity, Store, Stored},
    mend::{Mended, lost, mend},
    proxy::{Proxy, admit::Rules},
    renew, serve,
    site::Site,
};

const FIRST: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(5);
/// For what only a person, or time, will change.
const SLOW: Duration = Duration::from_secs(60);
/// Two agents of one identity take turns this slowly.
const REPLACED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// A session that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(2);
/// An identity that could not be stored is stored again this often.
const KEEP: Duration = Duration::from_secs(30);
/// How long the hub may take to take note of the end.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) struct Hold {
    pub(crate) site: Arc<Site>,
    pub(crate) store: Store,
    pub(crate) dials: Dials,
    state: Mine,
    backoff: Backoff,
    slow: Backoff,
}

/// What the agent has to prove itself with.
#[derive(Default)]
struct Mine {
    identity: Option<Arc<Identity>>,
    /// The store does not have it yet.
    unsaved: bool,
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

/// How soon to try again.
enum Again {
    Soon,
    Slowly,
    After(Duration),
    /// The process drains.
    Never,
}

/// What comes after a session.
enum Next {
    Again(Again),
    /// Another one is there already.
    Session(Box<Dialed>, Arc<Identity>),
}

impl Hold {
    pub(crate) fn new(site: Arc<Site>, store: Store, dials: Dials) -> Self {
        Hold {
            site,
            store,
            dials,
            state: Mine::default(),
            backoff: Backoff::new(FIRST, CAP),
            slow: Backoff::new(CAP, SLOW),
        }
    }

    /// Returns when the process drains and what ran has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = match self.round().await {
                Again::Soon => self.backoff.next_over(self.site.spread.get(), chance()),
                Again::Slowly => self.slow.next(chance()).max(FIRST),
                Again::After(wait) => wait,
                Again::Never => return,
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.site.process.draining() => return,
            }
        }
    }

    /// Once from having nothing, or an identity, to having no session again.
    async fn round(&mut self) -> Again {
        let process = self.site.process.clone();
        let dialled = tokio::select! {
            dialled = self.connect() => dialled,
            () = process.draining() => return Again::Never,
        };
        let (mut dialed, mut identity) = match dialled {
            Ok(dialled) => dialled,
            Err(again) => return again,
        };
        loop {
            match self.hold(dialed, identity).await {
                Next::Again(again) => return again,
                Next::Session(next, as_whom) => (dialed, identity) = (*next, as_whom),
            }
        }
    }

    async fn connect(&mut self) -> Result<(Dialed, Arc<Identity>), Again> {
        let identity = match &self.state.identity {
            Some(identity) => identity.clone(),
            None => self.obtain().await.map_err(|missing| missing.again())?,
        };
        match self.dials.as_agent(&identity).await {
            Ok(dialed) => Ok((dialed, identity)),
            Err(error) => {
                let refused = is_refusal(error.code);
                if refused {
                    Err(self.refused(&identity).await)
                } else {
                    Err(Again::Soon)
                }
            }
        }
    }

    /// The stored identity, or a new one.
    async fn obtain(&mut self) -> Result<Arc<Identity>, Missing> {
        let mut stored = self.store.load().await.map_err(Failure::from)?;
        let identity = match stored.identity.take() {
            Some(identity) => {
                info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = %identity.not_after,
                    "identity found");
                self.state.unsaved = false;
                Arc::new(identity)
            }
            None => self.enrol(stored).await?,
        };
        self.site.metrics.expires(identity.not_after);
        self.state.identity = Some(identity.clone());
        Ok(identity)
    }

    async fn enrol(&mut self, mut stored: Stored) -> Result<Arc<Identity>, Missing> {
        let Some(join) = self.dials.join().cloned() else {
            return Err(Failure::new(Code::NotEnrolled).into());
        };
        let key = enrol::key(&self.store, &mut stored).await?;
        if let Some(identity) = stored.identity.take() {
            return Ok(Arc::new(identity));
        }
        let dialed = self
            .dials
            .anonymously(&join)
            .await
            .map_err(|error| Missing::Dial(error.code))?;
        let issued = enrol::ask(dialed.session, &join, &key, self.dials.version()).await?;
        let key = Arc::try_unwrap(key).map_err(|_| Failure::new(Code::Internal))?;
        let identity = Identity::new(key, issued, join.hubs.clone())?;
        info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = %identity.not_after, "enrolled");
        self.state.unsaved = !enrol::keep(&self.store, &identity).await;
        Ok(Arc::new(identity))
    }

    /// The hub takes this identity for good no more: perhaps another agent of this cluster has stored a newer one, or
    /// the join string is a new one.
    async fn refused(&mut self, identity: &Arc<Identity>) -> Again {
        let Ok(stored) = self.store.load().await else {
            return Again::Slowly;
        };
        match &stored.identity {
            Some(other) if !other.same_certificate(identity) && !self.state.unsaved => {
                info!("another identity has been stored meanwhile");
                self.state.identity = None;
                return Again::Soon;
            }
            _ if self.dials.join().is_none() => return Again::Slowly,
            _ => {}
        }
        let before = Stored {
            identity: None,
            pending: stored.pending,
        };
        match self.enrol(before).await {
            Ok(new) => {
                self.site.metrics.expires(new.not_after);
                self.state.identity = Some(new);
                Again::Soon
            }
            Err(missing) => {
                missing.again();
                Again::Slowly
            }
        }
    }

    /// From a session's first moment to its last.
    async fn hold(&mut self, dialed: Dialed, mut identity: Arc<Identity>) -> Next {
        let session = dialed.session;
        let since = Instant::now();
        let rules = Rules::new(&identity.tenant, &self.site.allow_groups);
        let proxy = Arc::new(Proxy::new(self.site.clone(), rules));
        let _serving = AbortOnDropHandle::new(tokio::spawn(serve::streams(
            session.clone(),
            self.site.clone(),
            proxy,
        )));
        let exchanges = fairlead_dialer::Exchanges::new(session.clone());
        let mut connected = Some(self.site.metrics.hold_connected());
        self.site.process.set_ready(true);
        let version = self.dials.version().to_owned();
        let mut up = since;
        let ended = loop {
            tokio::select! {
                error = session.closed() => break error,
                () = self.site.process.draining() => {
                    self.drain(&session).await;
                    return Next::Again(Again::Never);
                }
                () = lost(&session), if connected.is_some() => {
                    connected = None;
                    self.site.process.set_ready(false);
                }
                mended = mend(
                    &mut self.dials,
                    &mut self.backoff,
                    self.site.spread.get(),
                    (&session, &identity),
                    up,
                ), if connected.is_none() => match mended {
                    Mended::Resumed => {
                        connected = Some(self.site.metrics.hold_connected());
                        self.site.process.set_ready(true);
                        up = Instant::now();
                    }
                    Mended::Anew(dialed) => {
                        warn!("the hub knows the session no more; what ran on it is over");
                        return Next::Session(dialed, identity);
                    }
                    Mended::Refused => return Next::Again(self.refused(&identity).await),
                },
                renewed = renew::renewed(&identity, &exchanges, &version) => {
                    self.site.metrics.expires(renewed.not_after);
                    self.state.unsaved = !enrol::keep(&self.store, &renewed).await;
                    identity = Arc::new(renewed);
                    self.state.identity = Some(identity.clone());
                }
                () = sleep(KEEP), if self.state.unsaved => {
                    self.state.unsaved = !enrol::keep(&self.store, &identity).await;
                }
            }
        };
        // Before what follows an end, which may take long: reading the store, enrolling again.
        drop(connected);
        self.site.process.set_ready(false);
        if since.elapsed() >= GOOD {
            self.backoff.reset();
            self.slow.reset();
        }
        Next::Again(self.ended(&ended, &identity, since.elapsed()).await)
    }

    async fn ended(
        &mut self,
        error: &SessionError,
        identity: &Arc<Identity>,
        lived: Duration,
    ) -> Again {
        let Some(code) = code(error) else {
            info!(cause = %error, ?lived, "session ended");
            self.backoff.reset();
            return Again::Soon;
        };
        warn!(%code, cause = %error, next = code.next_step(), ?lived, "session ended");
        match code {
            Code::DialReplaced => Again::After(between(REPLACED.0, REPLACED.1, chance())),
            code if is_refusal(code) => self.refused(identity).await,
            _ => Again::Soon,
        }
    }

    /// Lets what runs come to its end, then takes leave. The process bounds how long that may take.
    async fn drain(&self, session: &Session) {
        self.site.requests.close();
        tokio::select! {
            () = self.site.requests.wait() => {}
            _ = session.closed() => {}
        }
        session.close(CloseReason::Done);
        let _ = timeout(FAREWELL, session.closed()).await;
        info!("session closed");
    }
}

impl Missing {
    /// Says why in the log, unless the dial has.
    fn again(&self) -> Again {
        let code = match self {
            Missing::Dial(code) => *code,
            Missing::Failed(Failure { code, cause }) => {
                warn!(%code, cause, next = code.next_step(), "no identity");
                *code
            }
        };
        if enrol::is_final(code) {
            Again::Slowly
        } else {
            Again::Soon
        }
    }
}

/// What it means for this agent that a session ended this way; None: nothing is wrong.
const fn code(ended: &SessionError) -> Option<Code> {
    Some(match ended {
        SessionError::Peer(reason) => match reason {
            CloseReason::Draining | CloseReason::Done => return None,
            CloseReason::Replaced => Code::DialReplaced,
            CloseReason::Deleted => Code::ClusterDeleted,
            CloseReason::Expired => Code::CertificateExpired,
            CloseReason::Protocol => Code::DialProtocol,
            CloseReason::Cloned => Code::IdentityCloned,
        },
        _ => Code::SessionBroke,
    })
}

/// Whether a dial failed because the hub does not take this identity, which no other try will change.
pub(crate) const fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::DialIdentity
            | Code::CertificateExpired
            | Code::ClusterDeleted
            | Code::ForeignCertificate
            | Code::ForeignCluster
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_a_session_ended_says_what_to_do_next() {
        for (reason, expected) in [
            (CloseReason::Draining, None),
            (CloseReason::Done, None),
            (CloseReason::Replaced, Some(Code::DialReplaced)),
            (CloseReason::Deleted, Some(Code::ClusterDeleted)),
            (CloseReason::Expired, Some(Code::CertificateExpired)),
            (CloseReason::Protocol, Some(Code::DialProtocol)),
        ] {
            assert_eq!(code(&SessionError::Peer(reason)), expected);
        }
        let broken = SessionError::Broken("reset".to_owned());
        assert_eq!(code(&broken), Some(Code::SessionBroke));
    }

    #[test]
    fn only_a_hub_that_takes_the_identity_no_more_makes_it_enrol_again() {
        let refusals = Code::ALL.iter().filter(|&&code| is_refusal(code));
        let numbers: Vec<u16> = refusals.map(|code| code.number()).collect();
        assert_eq!(numbers, [2107, 2108, 2109, 2110, 3109]);
    }

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
