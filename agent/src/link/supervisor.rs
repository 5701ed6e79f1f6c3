//! Holds one link with the hub for as long as the process lives: dials as the agent that it is, names itself, serves, renews,
//! and begins again whatever happens. It never ends for a cause outside of the process.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, hello::LinkIndex, moment::timestamp};
use fairlead_dialer::{CloseReason, Dialed, Exchanges, Session, SessionError};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::{
    dial::Dials,
    drain::drain,
    hello::Named,
    identity_manager::Keeper,
    parked::{Beside, Served},
    reconnect::{Mended, lost, mend, move_on},
    renewal,
    retry::{Again, code, is_refusal},
    serve,
};
use crate::{
    backoff::{Backoff, between, chance},
    context::{Connected, Site},
    identity::Identity,
    proxy::{Proxy, admit::Rules},
};

const FIRST: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(5);
/// For what only a person, or time, will change.
const SLOW: Duration = Duration::from_secs(60);
/// More agents of one cluster than it may have take turns this slowly.
const REPLACED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// A session that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(2);
/// How long a session that ends may take to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(crate) struct Hold {
    site: Arc<Site>,
    keeper: Arc<Keeper>,
    dials: Dials,
    link: LinkIndex,
    backoff: Backoff,
    slow: Backoff,
}

/// What comes after a session.
enum Next {
    Again(Again),
    /// Another one is there already.
    Session(Box<Dialed>, Arc<Identity>),
}

/// A session, from the moment at which the hub has let it serve.
struct Held {
    served: Served,
    since: Instant,
    /// Whether the hub has been told all that there is to tell.
    told: bool,
    /// Whether the hub is about to go.
    leaving: watch::Receiver<bool>,
}

impl Hold {
    pub(crate) fn new(site: Arc<Site>, keeper: Arc<Keeper>, dials: Dials, link: LinkIndex) -> Self {
        Hold {
            site,
            keeper,
            dials,
            link,
            backoff: Backoff::new(FIRST, CAP),
            slow: Backoff::new(CAP, SLOW),
        }
    }

    /// Returns when the process drains and what ran has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = match self.round().await {
                Again::Soon => self.backoff.next_hub(self.site.spread.get(), chance()),
                Again::Slowly => self.slow.next(chance()).max(FIRST),
                Again::After(wait) => wait,
                Again::Never => return,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
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
            let held = tokio::select! {
                held = self.begin(dialed, &identity) => held,
                () = process.draining() => return Again::Never,
            };
            let next = match held {
                Ok(held) => self.hold(held, identity).await,
                Err(next) => next,
            };
            match next {
                Next::Again(again) => return again,
                Next::Session(next, as_whom) => (dialed, identity) = (*next, as_whom),
            }
        }
    }

    async fn connect(&mut self) -> Result<(Dialed, Arc<Identity>), Again> {
        let identity = self.keeper.obtain(&mut self.dials).await?;
        match self.dials.as_agent(&identity).await {
            Ok(dialed) => Ok((dialed, identity)),
            Err(error) if is_refusal(error.code) => {
                Err(self.keeper.refused(&identity, &mut self.dials).await)
            }
            Err(_) => Err(Again::Soon),
        }
    }

    /// Names itself to the hub, which lets the session serve then, and serves.
    async fn begin(&mut self, dialed: Dialed, identity: &Arc<Identity>) -> Result<Held, Next> {
        let since = Instant::now();
        let session = dialed.session;
        let exchanges = Exchanges::new(session.clone());
        let (site, version) = (self.site.clone(), self.dials.version().to_owned());
        let named = Named {
            site: &site,
            link: self.link,
            version: &version,
        };
        let said = self.ask_first(&session, identity, || named.say(&exchanges));
        let told = match said.await? {
            Ok(told) => told,
            Err(Failure {
                code: Code::CertificateExpired,
                ..
            }) => return Err(self.lapsed(&exchanges, identity).await),
            Err(failure) => {
                let again = self.unheard(&session, identity, &failure).await;
                return Err(Next::Again(again));
            }
        };
        let rules = Rules::new(
            &identity.tenant,
            &self.site.allow_groups,
            &self.site.allow_as,
        );
        let proxy = Arc::new(Proxy::new(self.site.clone(), rules));
        let (leaving, requests) = (proxy.leaving(), proxy.requests());
        let serving = serve::streams(session.clone(), self.site.clone(), proxy);
        let served = Served {
            session,
            listed: Some(self.site.sessions.list(exchanges.clone())),
            exchanges,
            serving: AbortOnDropHandle::new(tokio::spawn(serving)),
            requests,
        };
        Ok(Held {
            served,
            since,
            told,
            leaving,
        })
    }

    /// Asks the hub for what must be settled before the session serves. Where the link is lost meanwhile, it is asked again over
    /// the next one: nobody waits for an answer that cannot come.
    ///
    /// # Errors
    /// What comes instead of this session, on which nothing runs.
    async fn ask_first<T, F>(
        &mut self,
        session: &Session,
        identity: &Arc<Identity>,
        ask: impl Fn() -> F,
    ) -> Result<Result<T, Failure>, Next>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        loop {
            let (here, up) = (self.dials.place(identity), Instant::now());
            tokio::select! {
                answer = ask() => return Ok(answer),
                () = lost(session) => {}
            }
            let spread = self.site.spread.get();
            let (dials, backoff) = (&mut self.dials, &mut self.backoff);
            match mend(dials, backoff, spread, (session, identity), (here, up)).await {
                Mended::Resumed => {}
                Mended::Anew(dialed) | Mended::Elsewhere(dialed) => {
                    return Err(Next::Session(dialed, identity.clone()));
                }
                Mended::Over => return Err(Next::Again(Again::Soon)),
                Mended::Refused => {
                    let again = self.keeper.refused(identity, &mut self.dials).await;
                    return Err(Next::Again(again));
                }
            }
        }
    }

    /// The identity has ended while there was no session; the hub may renew it all the same.
    async fn lapsed(&mut self, exchanges: &Exchanges, identity: &Arc<Identity>) -> Next {
        info!(
            not_after = timestamp(identity.not_after),
            "the identity has expired; asking the hub to renew it"
        );
        let session = exchanges.session().clone();
        let version = self.dials.version().to_owned();
        let renewing = self.ask_first(&session, identity, || {
            renewal::renew(identity, exchanges, &version)
        });
        Next::Again(match renewing.await {
            Ok(Ok(renewed)) => {
                info!(not_after = timestamp(renewed.not_after), "identity renewed");
                session.close(CloseReason::Done);
                self.keeper.renewed(renewed).await;
                self.backoff.reset();
                Again::Soon
            }
            Ok(Err(failure)) => self.unheard(&session, identity, &failure).await,
            Err(next) => return next,
        })
    }

    /// The hub did not take this agent's name.
    async fn unheard(
        &mut self,
        session: &Session,
        identity: &Arc<Identity>,
        failure: &Failure,
    ) -> Again {
        let Failure { code, cause, .. } = failure;
        warn!(%code, cause, next = failure.next_step(), "the hub does not let this session serve");
        if is_refusal(*code) {
            session.close(CloseReason::Done);
            return self.keeper.refused(identity, &mut self.dials).await;
        }
        // Where the session has ended meanwhile, that says more.
        if let Ok(error) = timeout(LAST_WORDS, session.closed()).await {
            let here = self.dials.place(identity);
            return self.ended(&error, identity, (here, Duration::ZERO)).await;
        }
        session.close(CloseReason::Done);
        Again::Soon
    }

    /// From a session's first moment of use to its last.
    async fn hold(&mut self, held: Held, mut identity: Arc<Identity>) -> Next {
        let Held {
            served,
            since,
            mut told,
            mut leaving,
        } = held;
        let (session, exchanges) = (served.session.clone(), served.exchanges.clone());
        let mut connected = Some(self.site.connected());
        let version = self.dials.version().to_owned();
        let site = self.site.clone();
        let named = Named {
            site: &site,
            link: self.link,
            version: &version,
        };
        let mut up = since;
        let mut here = self.dials.place(&identity);
        let (mut leaves_now, mut moves) = (false, false);
        let ended = loop {
            // Where the link is lost, any hub will do: its own, until another one has a session.
            let moves_now = moves && connected.is_some();
            tokio::select! {
                error = session.closed() => break error,
                () = site.process.draining() => {
                    drain(&site, &session).await;
                    return Next::Again(Again::Never);
                }
                () = lost(&session), if connected.is_some() => connected = None,
                () = leaves(&mut leaving), if !leaves_now => {
                    leaves_now = true;
                    moves = self.dials.has_several(&identity);
                    info!(moves, "the hub is about to go");
                }
                mended = async {
                    let spread = site.spread.get();
                    let (dials, backoff) = (&mut self.dials, &mut self.backoff);
                    if moves_now {
                        move_on(dials, backoff, here, &identity).await
                    } else {
                        mend(dials, backoff, spread, (&session, &identity), (here, up)).await
                    }
                }, if moves_now || connected.is_none() => match mended {
                    Mended::Resumed => {
                        connected = Some(site.connected());
                        up = Instant::now();
                        here = self.dials.place(&identity);
                    }
                    Mended::Anew(dialed) => {
                        warn!("the hub knows the session no more; what ran on it is over");
                        return Next::Session(dialed, identity);
                    }
                    Mended::Elsewhere(dialed) => {
                        let place = (here, leaves_now);
                        self.leave_behind((served, connected), place, identity.clone());
                        return Next::Session(dialed, identity);
                    }
                    Mended::Over => return Next::Again(Again::Soon),
                    Mended::Refused => {
                        return Next::Again(self.keeper.refused(&identity, &mut self.dials).await);
                    }
                },
                renewed = renewal::renewed(&identity, &exchanges, &version) => {
                    identity = self.keeper.renewed(renewed).await;
                }
                () = self.keeper.replaced(&identity) => return replaced(&session, &identity),
                said = named.say_later(&exchanges), if !told => {
                    told = true;
                    said.unwrap_or_else(|failure| unwelcome(&failure));
                }
            }
        };
        // Before what follows an end, which may take long: reading the store, enrolling again.
        drop(connected);
        if since.elapsed() >= GOOD {
            self.backoff.reset();
            self.slow.reset();
        }
        Next::Again(self.ended(&ended, &identity, (here, since.elapsed())).await)
    }

    /// Has a session stay with its hub, beside the one that another hub has given.
    fn leave_behind(
        &mut self,
        (mut served, connected): (Served, Option<Connected>),
        (home, leaves): (usize, bool),
        identity: Arc<Identity>,
    ) {
        let Some(hub) = self.dials.hub(&identity, home) else {
            return;
        };
        info!(%hub, up = connected.is_some(), "moved to another hub; what runs stays with the one before");
        if leaves {
            served.listed = None;
        }
        let beside = Beside {
            site: self.site.clone(),
            keeper: self.keeper.clone(),
            dials: self.dials.only(hub.clone()),
            backoff: self.backoff.clone(),
            served,
            connected,
            identity,
        };
        self.dials.leave_out(beside.stay(hub));
    }

    async fn ended(
        &mut self,
        error: &SessionError,
        identity: &Arc<Identity>,
        (place, lived): (usize, Duration),
    ) -> Again {
        let drained = matches!(error, SessionError::Peer(CloseReason::Draining));
        if drained && self.dials.place(identity) == place {
            // That hub will not take anybody for a while; another one may.
            self.dials.turn();
        }
        let Some(code) = code(error) else {
            info!(cause = %error, lived.seconds = lived.as_secs(), "session ended");
            self.backoff.reset();
            return Again::Soon;
        };
        warn!(%code, cause = %error, next = code.next_step(), lived.seconds = lived.as_secs(), "session ended");
        match code {
            // The next dial tells whether the hub renews it.
            Code::CertificateExpired => Again::Soon,
            Code::DialReplaced => Again::After(between(REPLACED.0, REPLACED.1, chance())),
            code if is_refusal(code) => self.keeper.refused(identity, &mut self.dials).await,
            _ => Again::Soon,
        }
    }
}

/// Another identity is in use by now.
fn replaced(session: &Session, identity: &Identity) -> Next {
    info!(cluster = %identity.cluster, "session closed; its identity was replaced");
    session.close(CloseReason::Done);
    Next::Again(Again::Soon)
}

fn unwelcome(failure: &Failure) {
    warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "the hub lets this session serve no more");
}

/// Completes when the hub has said that it is about to go.
async fn leaves(leaving: &mut watch::Receiver<bool>) {
    if leaving.wait_for(|leaving| *leaving).await.is_err() {
        std::future::pending::<()>().await;
    }
}
