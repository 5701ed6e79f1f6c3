//! Opening of a session: identity, dial and hello. The session serves once the hub has accepted the hello. A session
//! with an expired certificate renews it and does nothing else.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, HubUrl, moment::timestamp};
use fairlead_dialer::{CloseReason, Session};
use fairlead_exchange::Exchanges;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::{
    hello::{Greeted, HelloSender},
    reconnect::{Reconnected, redial, wait_for_lost_link},
    renewal,
    retry::{AfterEnd, Retry, is_refusal},
    serve,
    session::{HubUse, NewSession, ServingSession},
    supervisor::{LinkEvent, LinkSupervisor},
};
use crate::{
    context::hubs::SessionHub,
    identity::Identity,
    proxy::{RequestProxy, admit::ImpersonationRules, watch_api},
};

/// Time for an ending session to receive its reason.
const CLOSE_REASON_DEADLINE: Duration = Duration::from_secs(2);

/// Failed dials in a row after which a link slows down while another one has a session.
const FAILED_DIALS_OF_A_SPARE_LINK: u32 = 8;

impl LinkSupervisor {
    /// Obtains an identity and dials a hub.
    pub(super) async fn connect(&mut self) -> LinkEvent {
        let identity = match self.identities.obtain(&mut self.dialer).await {
            Ok(identity) => identity,
            Err(retry) => return LinkEvent::Failed(retry),
        };
        match self.dialer.dial_new(&identity).await {
            Ok(dialed) => {
                self.failed_dials = 0;
                match self.dialer.dialed_hub() {
                    Some(hub) => LinkEvent::Dialed(NewSession::new(dialed, hub, &identity)),
                    None => LinkEvent::Failed(Retry::Soon),
                }
            }
            Err(error) if is_refusal(error.code) => {
                LinkEvent::Failed(self.replace_identity(&identity).await)
            }
            Err(_) => {
                self.failed_dials = self.failed_dials.saturating_add(1);
                LinkEvent::Failed(self.after_failed_dial())
            }
        }
    }

    /// A hub that cannot be reached is dialled seldom while another link serves.
    fn after_failed_dial(&self) -> Retry {
        let has_another = self.context.hubs.another_has_session(self.link);
        match has_another && self.failed_dials >= FAILED_DIALS_OF_A_SPARE_LINK {
            true => Retry::Slowly,
            false => Retry::Soon,
        }
    }

    /// Sends the hello. Once the hub has accepted it, the session serves.
    pub(super) async fn greet(&mut self, new: &NewSession) -> LinkEvent {
        let since = Instant::now();
        let (identity, home) = (&new.identity, &new.hub);
        let session = new.dialed.session.clone();
        let exchanges = Exchanges::new(session.clone());
        let (context, version) = (self.context.clone(), self.dialer.version().to_owned());
        let hello = HelloSender {
            context: &context,
            link: self.link,
            version: &version,
        };
        let sent = self
            .request_first((&session, home), identity, || hello.send(&exchanges))
            .await;
        match sent {
            Ok(Ok(greeted)) => {
                LinkEvent::HelloAccepted(Box::new(self.serve(new, exchanges, (since, greeted))))
            }
            Ok(Err(failure)) if failure.code == Code::CertificateExpired => {
                self.renew_expired((&exchanges, home), identity).await
            }
            Ok(Err(failure)) => {
                let ended = (&session, home);
                LinkEvent::Failed(self.hello_rejected(ended, identity, &failure).await)
            }
            Err(event) => event,
        }
    }

    /// Starts serving the streams of a session.
    fn serve(
        &self,
        new: &NewSession,
        exchanges: Exchanges,
        (since, greeted): (Instant, Greeted),
    ) -> ServingSession {
        let home = new.hub.clone();
        let hub = SessionHub {
            dialed: home.clone(),
            named: greeted.hub,
        };
        let session = new.dialed.session.clone();
        let rules = ImpersonationRules::new(
            &new.identity.tenant,
            &self.context.allow_groups,
            &self.context.allow_as,
        );
        let proxy = Arc::new(RequestProxy::new(self.context.clone(), rules));
        let (hub_draining, requests) = (proxy.hub_draining(), proxy.requests());
        let watching = watch_api::run(self.context.clone(), exchanges.clone(), proxy.watch());
        let serving = serve::streams(session.clone(), self.context.clone(), proxy);
        ServingSession {
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
            _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
            requests,
            registration: Some(self.context.sessions.register(exchanges.clone())),
            identity: new.identity.clone(),
            renewed: None,
            link: Some(self.context.count_link()),
            home,
            hub: Some(HubUse::new(&self.context.hubs, self.link, hub)),
            since,
            up_since: since,
            uid_sent: greeted.uid_sent,
            hub_draining,
            is_hub_draining: false,
            session,
            exchanges,
        }
    }

    /// Sends a request that precedes serving. If the link breaks meanwhile, the request is sent again over the
    /// next link, without waiting for a lost answer.
    ///
    /// # Errors
    ///
    /// Event that ends this session, on which nothing runs.
    async fn request_first<T, F>(
        &mut self,
        (session, home): (&Session, &HubUrl),
        identity: &Arc<Identity>,
        request: impl Fn() -> F,
    ) -> Result<Result<T, Failure>, LinkEvent>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        loop {
            let up_since = Instant::now();
            tokio::select! {
                answer = request() => return Ok(answer),
                () = wait_for_lost_link(session) => {}
            }
            let spread = self.context.reconnect_spread.get();
            let lost = (home, up_since.elapsed());
            let (dialer, backoff) = (&mut self.dialer, &mut self.backoff);
            match redial(dialer, backoff, spread, (session, identity), lost).await {
                Reconnected::Resumed => {}
                Reconnected::Superseded(dialed) | Reconnected::Moved(dialed) => {
                    let hub = self.dialer.dialed_hub().unwrap_or_else(|| home.clone());
                    return Err(LinkEvent::Dialed(NewSession::new(*dialed, hub, identity)));
                }
                Reconnected::Lost => return Err(LinkEvent::Failed(Retry::Soon)),
                Reconnected::Rejected => {
                    return Err(LinkEvent::Failed(self.replace_identity(identity).await));
                }
            }
        }
    }

    /// Renews an identity that expired without a session, if the hub still permits it.
    async fn renew_expired(
        &mut self,
        (exchanges, home): (&Exchanges, &HubUrl),
        identity: &Arc<Identity>,
    ) -> LinkEvent {
        info!(
            not_after = timestamp(identity.not_after),
            "identity has expired; requesting its renewal"
        );
        let session = exchanges.session().clone();
        let version = self.dialer.version().to_owned();
        let renewed = self
            .request_first((&session, home), identity, || {
                renewal::renew(identity, exchanges, &version)
            })
            .await;
        LinkEvent::Failed(match renewed {
            Ok(Ok(renewed)) => {
                info!(not_after = timestamp(renewed.not_after), "identity renewed");
                session.close(CloseReason::Done);
                self.identities.store_renewed(renewed).await;
                self.backoff.reset();
                Retry::Soon
            }
            Ok(Err(failure)) => {
                let ended = (&session, home);
                self.hello_rejected(ended, identity, &failure).await
            }
            Err(event) => return event,
        })
    }

    /// Retry decision after the hub rejected the hello.
    async fn hello_rejected(
        &mut self,
        (session, home): (&Session, &HubUrl),
        identity: &Arc<Identity>,
        failure: &Failure,
    ) -> Retry {
        let Failure { code, cause, .. } = failure;
        warn!(%code, cause, next = failure.next_step(), "hub rejected the hello");
        self.dialer.report_refusal(failure);
        if is_refusal(*code) {
            session.close(CloseReason::Done);
            return self.replace_identity(identity).await;
        }
        // The reason of a session's end is more precise.
        if let Ok(error) = timeout(CLOSE_REASON_DEADLINE, session.closed()).await {
            return match self.record_end(&error, identity, (home, Duration::ZERO)) {
                AfterEnd::Retry(retry) => retry,
                AfterEnd::ReplaceIdentity => self.replace_identity(identity).await,
            };
        }
        session.close(CloseReason::Done);
        Retry::Soon
    }
}
