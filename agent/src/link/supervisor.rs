//! Supervisor of one link: keeps a session with a hub for as long as the process lives. It dials, sends the hello, serves,
//! renews the certificate and reconnects. It never ends for a cause outside the process.
//!
//! One loop waits for the next event of the present state; `state` decides on the next state.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Failure, HubUrl, hello::LinkIndex};
use fairlead_dialer::{CloseReason, SessionError};
use tokio::time::{Instant, sleep};
use tracing::{field::display, info, warn};

use super::{
    dial::HubDialer,
    hello::HelloSender,
    identity_manager::IdentityManager,
    reconnect::{Reconnected, RedialTarget, STABLE_AFTER, dial_for, wait_for_lost_link},
    renewal,
    retry::{AfterEnd, Retry, after_end, failure_code, is_refusal},
    session::{NewSession, ServingSession},
    state::{LinkPhase, PhaseEvent, Released, SupervisorRole},
};
use crate::{
    backoff::{Backoff, chance},
    context::AgentContext,
    identity::Identity,
};

/// Maximum delay of the first dial after a lost link. A hub with many agents asks for more.
const RECONNECT_BACKOFF_MIN: Duration = Duration::from_millis(50);
const RECONNECT_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Minimum and maximum delay after failures that only a person, or time, removes.
const SLOW_DELAY_MIN: Duration = Duration::from_millis(250);
const SLOW_BACKOFF_MAX: Duration = Duration::from_secs(60);

pub(super) type SupervisorState = LinkPhase<Box<NewSession>, Box<ServingSession>>;
pub(super) type LinkEvent = PhaseEvent<Box<NewSession>, Box<ServingSession>>;

pub(crate) struct LinkSupervisor {
    pub(super) context: Arc<AgentContext>,
    pub(super) identities: Arc<IdentityManager>,
    pub(super) dialer: HubDialer,
    pub(super) link: LinkIndex,
    pub(super) backoff: Backoff,
    slow_backoff: Backoff,
    /// Failed dials in a row.
    pub(super) failed_dials: u32,
    /// Hub of a parked session; None for the primary supervisor of a link.
    parked_hub: Option<Arc<HubUrl>>,
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
            backoff: Backoff::new(RECONNECT_BACKOFF_MIN, RECONNECT_BACKOFF_MAX),
            slow_backoff: Backoff::new(RECONNECT_BACKOFF_MAX, SLOW_BACKOFF_MAX),
            failed_dials: 0,
            parked_hub: None,
        }
    }

    /// Supervisor of a parked session. This one avoids its hub until it ends.
    pub(super) fn for_parked(&mut self, hub: Arc<HubUrl>) -> Self {
        let dialer = self.dialer.only_to(HubUrl::clone(&hub));
        self.dialer.avoid(Arc::downgrade(&hub));
        LinkSupervisor {
            context: self.context.clone(),
            identities: self.identities.clone(),
            dialer,
            link: self.link,
            backoff: self.backoff.clone(),
            slow_backoff: self.slow_backoff.clone(),
            failed_dials: 0,
            parked_hub: Some(hub),
        }
    }

    const fn role(&self) -> SupervisorRole {
        match self.parked_hub {
            None => SupervisorRole::Primary,
            Some(_) => SupervisorRole::Parked,
        }
    }

    /// Keeps the link until the process drains and running requests are complete, or until the link is superfluous.
    /// `delay`: time before the first dial.
    pub(crate) async fn run(self, delay: Duration) {
        let state = SupervisorState::Waiting(Retry::After(delay));
        self.run_from(state).await;
    }

    /// Runs the state machine until it stops.
    pub(super) async fn run_from(mut self, mut state: SupervisorState) {
        while !matches!(state, SupervisorState::Stopped) {
            let event = self.next_event(&mut state).await;
            let (next, released) = state.next(self.role(), event);
            match released {
                Some(Released::Park(session)) => self.park(session),
                Some(Released::Close(session)) => session.session.close(CloseReason::Done),
                None => {}
            }
            state = next;
        }
    }

    /// Waits for the next event of a state.
    async fn next_event(&mut self, state: &mut SupervisorState) -> LinkEvent {
        match state {
            SupervisorState::Connected(session) => self.session_event(session, None).await,
            SupervisorState::Moving(session) => {
                let target = Some(RedialTarget::OtherHubs);
                self.session_event(session, target).await
            }
            SupervisorState::Reconnecting { session, .. } => {
                let target = Some(RedialTarget::AnyHub);
                self.session_event(session, target).await
            }
            SupervisorState::Draining(session) => {
                session.drain(&self.context).await;
                LinkEvent::Drained
            }
            without_session => {
                let (process, hubs) = (self.context.process.clone(), self.context.hubs.clone());
                let (link, has_new) =
                    (self.link, matches!(without_session, LinkPhase::Greeting(_)));
                tokio::select! {
                    event = self.dial_event(without_session) => event,
                    () = process.draining() => LinkEvent::ProcessDraining,
                    () = hubs.until_superfluous(link), if !has_new => {
                        info!(%link, "link ended; fewer hubs are listed");
                        LinkEvent::Superfluous
                    }
                }
            }
        }
    }

    /// Next event on the way to a session that serves.
    async fn dial_event(&mut self, state: &SupervisorState) -> LinkEvent {
        match state {
            SupervisorState::Waiting(retry) => {
                sleep(self.delay(*retry)).await;
                LinkEvent::DelayElapsed
            }
            SupervisorState::Connecting => self.connect().await,
            SupervisorState::Greeting(new) => self.greet(new).await,
            SupervisorState::Replacing(session) => {
                LinkEvent::Failed(self.replace_identity(&session.identity).await)
            }
            _ => std::future::pending().await,
        }
    }

    fn delay(&mut self, retry: Retry) -> Duration {
        match retry {
            Retry::Soon => self
                .backoff
                .next_for_hub(self.context.reconnect_spread.get(), chance()),
            Retry::Slowly => self.slow_backoff.next(chance()).max(SLOW_DELAY_MIN),
            Retry::After(delay) => delay,
        }
    }

    /// Next event of a serving session. Renewals and repeated hellos leave the state as it is.
    async fn session_event(
        &mut self,
        session: &mut ServingSession,
        target: Option<RedialTarget>,
    ) -> LinkEvent {
        let context = self.context.clone();
        let version = self.dialer.version().to_owned();
        let hello = HelloSender {
            context: &context,
            link: self.link,
            version: &version,
        };
        let role = self.role();
        loop {
            let has_link = session.link.is_some();
            tokio::select! {
                error = session.session.closed() => return self.session_ended(session, &error),
                () = context.process.draining() => return LinkEvent::ProcessDraining,
                () = wait_for_lost_link(&session.session), if has_link => {
                    session.link = None;
                    return LinkEvent::LinkLost;
                }
                () = session.wait_for_hub_draining(), if !session.is_hub_draining => {
                    session.is_hub_draining = true;
                    let moves = self.dialer.has_several_hubs(&session.identity);
                    info!(moves, "hub is draining");
                    if moves && target != Some(RedialTarget::OtherHubs) {
                        return LinkEvent::HubDraining;
                    }
                }
                () = wait_until_misplaced(&context, self.link), if role == SupervisorRole::Primary && target.is_none() => {
                    info!(hub = %session.home, "hub has left the list, or another link uses it; moving");
                    return LinkEvent::HubDraining;
                }
                redialed = async {
                    let spread = context.reconnect_spread.get();
                    let (dialer, backoff) = (&mut self.dialer, &mut self.backoff);
                    match target {
                        Some(target) => dial_for(session, target, dialer, backoff, spread).await,
                        None => std::future::pending().await,
                    }
                } => return self.redialed(session, redialed),
                renewed = renewal::renew_when_due(&session.identity, session.renewed, &session.exchanges, &version) => {
                    session.renewed = Some(Instant::now());
                    session.identity = self.identities.store_renewed(renewed).await;
                }
                renewed = renewal::renew_for_ca(&session.identity, session.renewed, context.configuration.document(), &session.exchanges, &version) => {
                    session.renewed = Some(Instant::now());
                    session.identity = self.identities.store_renewed(renewed).await;
                }
                () = self.identities.wait_until_replaced(&session.identity), if role == SupervisorRole::Primary => {
                    info!(cluster = %session.identity.cluster, "session closed; its identity was replaced");
                    return LinkEvent::IdentityReplaced;
                }
                sent = hello.send_when_known(&session.exchanges), if !session.uid_sent => {
                    session.uid_sent = true;
                    sent.unwrap_or_else(|failure| warn_uid_rejected(&failure));
                }
                () = session.wait_until_unused(&context), if role == SupervisorRole::Parked && has_link => {
                    info!(hub = self.parked_hub.as_ref().map(display), "unused parked session closed");
                    return LinkEvent::Unused;
                }
            }
        }
    }

    /// Event for a result of dials, noted in the session.
    fn redialed(&self, session: &mut ServingSession, result: Reconnected) -> LinkEvent {
        let hub = self.parked_hub.as_ref().map(display);
        let dialed = |session: &ServingSession| {
            let dialed = self.dialer.dialed_hub();
            dialed.unwrap_or_else(|| session.home.clone())
        };
        match result {
            Reconnected::Resumed => {
                session.link = Some(self.context.count_link());
                session.up_since = Instant::now();
                let home = dialed(session);
                if let Some(used) = &mut session.hub {
                    used.set_dialed(home.clone());
                }
                session.home = home;
                LinkEvent::Resumed
            }
            Reconnected::Superseded(new) => {
                warn!(hub, "hub has lost the session; its requests have failed");
                LinkEvent::Superseded(NewSession::new(*new, dialed(session), &session.identity))
            }
            Reconnected::Moved(new) => {
                LinkEvent::Moved(NewSession::new(*new, dialed(session), &session.identity))
            }
            Reconnected::Lost => {
                warn!(hub, "hub has lost the session; its requests have failed");
                LinkEvent::SessionLost
            }
            Reconnected::Rejected => LinkEvent::IdentityRejected,
        }
    }

    /// Event for the end of a serving session. It releases the link, since the next steps may take long.
    fn session_ended(&mut self, session: &mut ServingSession, error: &SessionError) -> LinkEvent {
        session.link = None;
        if let Some(hub) = &self.parked_hub {
            info!(%hub, cause = %error, "parked session is over");
            return LinkEvent::Failed(Retry::Soon);
        }
        let lived = session.since.elapsed();
        if lived >= STABLE_AFTER {
            self.backoff.reset();
            self.slow_backoff.reset();
        }
        match self.record_end(error, &session.identity, (&session.home, lived)) {
            AfterEnd::Retry(retry) => LinkEvent::Failed(retry),
            AfterEnd::ReplaceIdentity => LinkEvent::IdentityRejected,
        }
    }

    /// Logs the end of a session, and notes a draining hub.
    pub(super) fn record_end(
        &mut self,
        error: &SessionError,
        identity: &Identity,
        (home, lived): (&HubUrl, Duration),
    ) -> AfterEnd {
        let drained = matches!(error, SessionError::Peer(CloseReason::Draining));
        if drained && self.dialer.next_hub(identity).as_ref() == Some(home) {
            // That hub accepts no sessions for a while; another one may.
            self.dialer.advance(identity);
        }
        let code = failure_code(error);
        match code {
            Some(code) => {
                warn!(%code, cause = %error, next = code.next_step(), lived.seconds = lived.as_secs(), "session ended");
                if is_refusal(code) {
                    self.dialer.report_refusal(&Failure::new(code));
                }
            }
            None => {
                info!(cause = %error, lived.seconds = lived.as_secs(), "session ended");
                self.backoff.reset();
            }
        }
        after_end(code, chance())
    }

    /// Replaces an identity that the hub rejected for good.
    pub(super) async fn replace_identity(&mut self, identity: &Arc<Identity>) -> Retry {
        self.identities
            .replace_refused(identity, &mut self.dialer)
            .await
    }
}

/// Completes when the session of a link belongs to another hub, after a part of the time over which the agents of a hub
/// spread their dials.
async fn wait_until_misplaced(context: &AgentContext, link: LinkIndex) {
    loop {
        context.hubs.until_misplaced(link).await;
        sleep(context.reconnect_spread.get().mul_f64(chance())).await;
        if context.hubs.is_misplaced(link) {
            return;
        }
    }
}

fn warn_uid_rejected(failure: &Failure) {
    warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "hub rejected the cluster UID");
}
