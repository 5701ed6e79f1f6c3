//! Holds one link with the hub for as long as the process lives: dials as the agent that it is, names itself, serves, renews,
//! and begins again whatever happens. It never ends for a cause outside of the process.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure,
    hello::{Link, PROTOCOL},
};
use fairlead_dialer::{CloseReason, Dialed, Exchanges, Session, SessionError};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::{
    backoff::{Backoff, between, chance},
    beside::{Beside, Served},
    dial::Dials,
    hello::Named,
    identity::Identity,
    keeper::Keeper,
    leave::{Left, drain},
    mend::{Mended, lost, mend, move_on},
    proxy::{Proxy, admit::Rules},
    renew, serve,
    site::Site,
    verdict::{Again, code, is_refusal},
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
    link: Link,
    backoff: Backoff,
    slow: Backoff,
    /// Sessions with hubs that are about to go.
    left: Left,
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
    pub(crate) fn new(site: Arc<Site>, keeper: Arc<Keeper>, dials: Dials, link: Link) -> Self {
        Hold {
            left: Left::new(site.clone()),
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
                Err(again) => return again,
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
    async fn begin(&mut self, dialed: Dialed, identity: &Arc<Identity>) -> Result<Held, Again> {
        let since = Instant::now();
        let names_itself = dialed.protocol.as_deref() == Some(PROTOCOL);
        let session = dialed.session;
        let exchanges = Exchanges::new(session.clone());
        let mut told = true;
        if names_itself {
            told = match self.named().say(&exchanges).await {
                Ok(told) => told,
                Err(Failure {
                    code: Code::CertificateExpired,
                    ..
                }) => {
                    return Err(self.lapsed(&exchanges, identity).await);
                }
                Err(failure) => return Err(self.unheard(&session, identity, &failure).await),
            };
        }
        let rules = Rules::new(&identity.tenant, &self.site.allow_groups);
        let proxy = Arc::new(Proxy::new(self.site.clone(), rules));
        let (leaving, requests) = (proxy.leaving(), proxy.requests());
        let serving = serve::streams(session.clone(), self.site.clone(), proxy);
        let served = Served {
            session,
            listed: self.site.sessions.list(exchanges.clone()),
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

    fn named(&self) -> Named<'_> {
        Named {
            site: &self.site,
            link: self.link,
            version: self.dials.version(),
        }
    }

    /// The identity has ended while there was no session; the hub may renew it all the same.
    async fn lapsed(&mut self, exchanges: &Exchanges, identity: &Arc<Identity>) -> Again {
        info!(not_after = %identity.not_after, "the identity has expired; asking the hub to renew it");
        let session = exchanges.session().clone();
        match renew::renew(identity, exchanges, self.dials.version()).await {
            Ok(renewed) => {
                info!(not_after = %renewed.not_after, "identity renewed");
                session.close(CloseReason::Done);
                self.keeper.renewed(renewed).await;
                self.backoff.reset();
                Again::Soon
            }
            Err(failure) => self.unheard(&session, identity, &failure).await,
        }
    }

    /// The hub did not take this agent's name.
    async fn unheard(
        &mut self,
        session: &Session,
        identity: &Arc<Identity>,
        failure: &Failure,
    ) -> Again {
        let Failure { code, cause } = failure;
        warn!(%code, cause, next = code.next_step(), "the hub does not let this session serve");
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
                    if moves {
                        move_on(dials, backoff, here, &identity).await
                    } else {
                        mend(dials, backoff, spread, (&session, &identity), (here, up)).await
                    }
                }, if moves || connected.is_none() => match mended {
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
                        self.wait(served, here, identity.clone());
                        return Next::Session(dialed, identity);
                    }
                    Mended::Moved(dialed) => {
                        self.left.finish(session, served.serving, connected);
                        return Next::Session(dialed, identity);
                    }
                    Mended::Refused => {
                        return Next::Again(self.keeper.refused(&identity, &mut self.dials).await);
                    }
                },
                renewed = renew::renewed(&identity, &exchanges, &version) => {
                    identity = self.keeper.renewed(renewed).await;
                }
                said = named.say_later(&exchanges), if !told => {
                    told = true;
                    if let Err(Failure { code, cause }) = said {
                        warn!(%code, cause, next = code.next_step(), "the hub lets this session serve no more");
                    }
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

    /// Has a session wait for its hub, beside the one that another hub has given.
    fn wait(&mut self, served: Served, home: usize, identity: Arc<Identity>) {
        let Some(hub) = self.dials.hub(&identity, home) else {
            return;
        };
        info!(%hub, "another hub serves from here on; what runs waits for this one");
        let beside = Beside {
            site: self.site.clone(),
            keeper: self.keeper.clone(),
            dials: self.dials.only(hub.clone()),
            backoff: self.backoff.clone(),
            served,
            identity,
        };
        self.dials.leave_out(beside.wait(hub));
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
            info!(cause = %error, ?lived, "session ended");
            self.backoff.reset();
            return Again::Soon;
        };
        warn!(%code, cause = %error, next = code.next_step(), ?lived, "session ended");
        match code {
            // The next dial tells whether the hub renews it.
            Code::CertificateExpired => Again::Soon,
            Code::DialReplaced => Again::After(between(REPLACED.0, REPLACED.1, chance())),
            code if is_refusal(code) => self.keeper.refused(identity, &mut self.dials).await,
            _ => Again::Soon,
        }
    }
}

/// Completes when the hub has said that it is about to go.
async fn leaves(leaving: &mut watch::Receiver<bool>) {
    if leaving.wait_for(|leaving| *leaving).await.is_err() {
        std::future::pending::<()>().await;
    }
}
