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
    dial::HubDialer,
    drain::drain,
    hello::HelloSender,
    identity_manager::IdentityManager,
    parked::{Beside, Served},
    reconnect::{Reconnected, lost, mend, move_on},
    renewal,
    retry::{Retry, failure_code, is_refusal},
    serve,
};
use crate::{
    backoff::{Backoff, between, chance},
    context::{AgentContext, LinkGuard},
    identity::Identity,
    proxy::{RequestProxy, admit::ImpersonationRules},
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

pub(crate) struct LinkSupervisor {
    context: Arc<AgentContext>,
    identities: Arc<IdentityManager>,
    dialer: HubDialer,
    link: LinkIndex,
    backoff: Backoff,
    slow: Backoff,
}

/// What comes after a session.
enum Next {
    Retry(Retry),
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

impl LinkSupervisor {
    pub(crate) fn new(
        context: Arc<AgentContext>,
        identities: Arc<IdentityManager>,
        dialer: HubDialer,
        link: LinkIndex,
    ) -> Self {
        LinkSupervisor {
            context,
            identities,
            dialer,
            link,
            backoff: Backoff::new(FIRST, CAP),
            slow: Backoff::new(CAP, SLOW),
        }
    }

    /// Returns when the process drains and what ran has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = match self.round().await {
                Retry::Soon => self
                    .backoff
                    .next_for_hub(self.context.reconnect_spread.get(), chance()),
                Retry::Slowly => self.slow.next(chance()).max(FIRST),
                Retry::After(wait) => wait,
                Retry::Never => return,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.context.process.draining() => return,
            }
        }
    }

    /// Once from having nothing, or an identity, to having no session again.
    async fn round(&mut self) -> Retry {
        let process = self.context.process.clone();
        let dialled = tokio::select! {
            dialled = self.connect() => dialled,
            () = process.draining() => return Retry::Never,
        };
        let (mut dialed, mut identity) = match dialled {
            Ok(dialled) => dialled,
            Err(again) => return again,
        };
        loop {
            let held = tokio::select! {
                held = self.begin(dialed, &identity) => held,
                () = process.draining() => return Retry::Never,
            };
            let next = match held {
                Ok(held) => self.hold(held, identity).await,
                Err(next) => next,
            };
            match next {
                Next::Retry(again) => return again,
                Next::Session(next, as_whom) => (dialed, identity) = (*next, as_whom),
            }
        }
    }

    async fn connect(&mut self) -> Result<(Dialed, Arc<Identity>), Retry> {
        let identity = self.identities.obtain(&mut self.dialer).await?;
        match self.dialer.dial_new(&identity).await {
            Ok(dialed) => Ok((dialed, identity)),
            Err(error) if is_refusal(error.code) => Err(self
                .identities
                .replace_refused(&identity, &mut self.dialer)
                .await),
            Err(_) => Err(Retry::Soon),
        }
    }

    /// Names itself to the hub, which lets the session serve then, and serves.
    async fn begin(&mut self, dialed: Dialed, identity: &Arc<Identity>) -> Result<Held, Next> {
        let since = Instant::now();
        let session = dialed.session;
        let exchanges = Exchanges::new(session.clone());
        let (context, version) = (self.context.clone(), self.dialer.version().to_owned());
        let named = HelloSender {
            context: &context,
            link: self.link,
            version: &version,
        };
        let said = self.ask_first(&session, identity, || named.send(&exchanges));
        let told = match said.await? {
            Ok(told) => told,
            Err(Failure {
                code: Code::CertificateExpired,
                ..
            }) => return Err(self.lapsed(&exchanges, identity).await),
            Err(failure) => {
                let again = self.unheard(&session, identity, &failure).await;
                return Err(Next::Retry(again));
            }
        };
        let rules = ImpersonationRules::new(
            &identity.tenant,
            &self.context.allow_groups,
            &self.context.allow_as,
        );
        let proxy = Arc::new(RequestProxy::new(self.context.clone(), rules));
        let (leaving, requests) = (proxy.hub_draining(), proxy.requests());
        let serving = serve::streams(session.clone(), self.context.clone(), proxy);
        let served = Served {
            session,
            listed: Some(self.context.sessions.register(exchanges.clone())),
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
            let (here, up) = (self.dialer.hub_index(identity), Instant::now());
            tokio::select! {
                answer = ask() => return Ok(answer),
                () = lost(session) => {}
            }
            let spread = self.context.reconnect_spread.get();
            let (dialer, backoff) = (&mut self.dialer, &mut self.backoff);
            match mend(dialer, backoff, spread, (session, identity), (here, up)).await {
                Reconnected::Resumed => {}
                Reconnected::Anew(dialed) | Reconnected::Elsewhere(dialed) => {
                    return Err(Next::Session(dialed, identity.clone()));
                }
                Reconnected::Over => return Err(Next::Retry(Retry::Soon)),
                Reconnected::Refused => {
                    let again = self
                        .identities
                        .replace_refused(identity, &mut self.dialer)
                        .await;
                    return Err(Next::Retry(again));
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
        let version = self.dialer.version().to_owned();
        let renewing = self.ask_first(&session, identity, || {
            renewal::renew(identity, exchanges, &version)
        });
        Next::Retry(match renewing.await {
            Ok(Ok(renewed)) => {
                info!(not_after = timestamp(renewed.not_after), "identity renewed");
                session.close(CloseReason::Done);
                self.identities.store_renewed(renewed).await;
                self.backoff.reset();
                Retry::Soon
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
    ) -> Retry {
        let Failure { code, cause, .. } = failure;
        warn!(%code, cause, next = failure.next_step(), "the hub does not let this session serve");
        if is_refusal(*code) {
            session.close(CloseReason::Done);
            return self
                .identities
                .replace_refused(identity, &mut self.dialer)
                .await;
        }
        // Where the session has ended meanwhile, that says more.
        if let Ok(error) = timeout(LAST_WORDS, session.closed()).await {
            let here = self.dialer.hub_index(identity);
            return self.ended(&error, identity, (here, Duration::ZERO)).await;
        }
        session.close(CloseReason::Done);
        Retry::Soon
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
        let mut connected = Some(self.context.count_link());
        let version = self.dialer.version().to_owned();
        let context = self.context.clone();
        let named = HelloSender {
            context: &context,
            link: self.link,
            version: &version,
        };
        let mut up = since;
        let mut here = self.dialer.hub_index(&identity);
        let (mut leaves_now, mut moves) = (false, false);
        let ended = loop {
            // Where the link is lost, any hub will do: its own, until another one has a session.
            let moves_now = moves && connected.is_some();
            tokio::select! {
                error = session.closed() => break error,
                () = context.process.draining() => {
                    drain(&context, &session).await;
                    return Next::Retry(Retry::Never);
                }
                () = lost(&session), if connected.is_some() => connected = None,
                () = leaves(&mut leaving), if !leaves_now => {
                    leaves_now = true;
                    moves = self.dialer.has_several_hubs(&identity);
                    info!(moves, "the hub is about to go");
                }
                mended = async {
                    let spread = context.reconnect_spread.get();
                    let (dialer, backoff) = (&mut self.dialer, &mut self.backoff);
                    if moves_now {
                        move_on(dialer, backoff, here, &identity).await
                    } else {
                        mend(dialer, backoff, spread, (&session, &identity), (here, up)).await
                    }
                }, if moves_now || connected.is_none() => match mended {
                    Reconnected::Resumed => {
                        connected = Some(context.count_link());
                        up = Instant::now();
                        here = self.dialer.hub_index(&identity);
                    }
                    Reconnected::Anew(dialed) => {
                        warn!("the hub knows the session no more; what ran on it is over");
                        return Next::Session(dialed, identity);
                    }
                    Reconnected::Elsewhere(dialed) => {
                        let place = (here, leaves_now);
                        self.leave_behind((served, connected), place, identity.clone());
                        return Next::Session(dialed, identity);
                    }
                    Reconnected::Over => return Next::Retry(Retry::Soon),
                    Reconnected::Refused => {
                        return Next::Retry(self.identities.replace_refused(&identity, &mut self.dialer).await);
                    }
                },
                renewed = renewal::renew_when_due(&identity, &exchanges, &version) => {
                    identity = self.identities.store_renewed(renewed).await;
                }
                () = self.identities.wait_until_replaced(&identity) => return replaced(&session, &identity),
                said = named.send_when_known(&exchanges), if !told => {
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
        Next::Retry(self.ended(&ended, &identity, (here, since.elapsed())).await)
    }

    /// Has a session stay with its hub, beside the one that another hub has given.
    fn leave_behind(
        &mut self,
        (mut served, connected): (Served, Option<LinkGuard>),
        (home, leaves): (usize, bool),
        identity: Arc<Identity>,
    ) {
        let Some(hub) = self.dialer.hub(&identity, home) else {
            return;
        };
        info!(%hub, up = connected.is_some(), "moved to another hub; what runs stays with the one before");
        if leaves {
            served.listed = None;
        }
        let beside = Beside {
            context: self.context.clone(),
            identities: self.identities.clone(),
            dialer: self.dialer.only_to(hub.clone()),
            backoff: self.backoff.clone(),
            served,
            connected,
            identity,
        };
        self.dialer.avoid(beside.stay(hub));
    }

    async fn ended(
        &mut self,
        error: &SessionError,
        identity: &Arc<Identity>,
        (place, lived): (usize, Duration),
    ) -> Retry {
        let drained = matches!(error, SessionError::Peer(CloseReason::Draining));
        if drained && self.dialer.hub_index(identity) == place {
            // That hub will not take anybody for a while; another one may.
            self.dialer.advance();
        }
        let Some(code) = failure_code(error) else {
            info!(cause = %error, lived.seconds = lived.as_secs(), "session ended");
            self.backoff.reset();
            return Retry::Soon;
        };
        warn!(%code, cause = %error, next = code.next_step(), lived.seconds = lived.as_secs(), "session ended");
        match code {
            // The next dial tells whether the hub renews it.
            Code::CertificateExpired => Retry::Soon,
            Code::DialReplaced => Retry::After(between(REPLACED.0, REPLACED.1, chance())),
            code if is_refusal(code) => {
                self.identities
                    .replace_refused(identity, &mut self.dialer)
                    .await
            }
            _ => Retry::Soon,
        }
    }
}

/// Another identity is in use by now.
fn replaced(session: &Session, identity: &Identity) -> Next {
    info!(cluster = %identity.cluster, "session closed; its identity was replaced");
    session.close(CloseReason::Done);
    Next::Retry(Retry::Soon)
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
